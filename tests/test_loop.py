"""The loop of a workflow: plan, run, guard, history, compare, report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import Ciguard, clean_environment, made_once
from history.stored_values import values_in

ROOT = Path(__file__).parent.parent
TABLES = """
[suite.tables]
framework = "command"
list = ["{python}", "check.py", "list"]
command = ["{python}", "check.py", "run", "{{units_file}}", "{{results_file}}"]

[suite.tables.variant.exact]
args = ["exact"]

[suite.tables.variant.rounded]
args = ["rounded"]
"""
# What 1/3 is not exactly, and 1/0 is not at all: (variant, table, row) -> outcome.
EXPECTED = {
    ("exact", "even.txt", "half"): "passed",
    ("exact", "even.txt", "quarter"): "passed",
    ("exact", "odd.txt", "third"): "failed",
    ("exact", "odd.txt", "sixth"): "failed",
    ("exact", "odd.txt", "two thirds"): "failed",
    ("exact", "zero.txt", "nothing"): "errored",
    ("exact", "zero.txt", "one"): "passed",
    ("rounded", "even.txt", "half"): "passed",
    ("rounded", "even.txt", "quarter"): "passed",
    ("rounded", "odd.txt", "third"): "passed",
    ("rounded", "odd.txt", "sixth"): "passed",
    ("rounded", "odd.txt", "two thirds"): "passed",
    ("rounded", "zero.txt", "nothing"): "errored",
    ("rounded", "zero.txt", "one"): "passed",
}


class Loop:
    """A project in a folder, and the commands of its workflow."""

    def __init__(self, folder: Path, ciguard: Ciguard) -> None:
        self.folder = folder
        self.ciguard = ciguard
        self.history = folder / "history.ciguard"

    def plan(self, name: str, *words: str) -> None:
        self.ciguard("plan", "--artifact", name, *words, cwd=self.folder)

    def run(self, name: str, records: str, *, expect: tuple[int, ...] = (0,)) -> Path:
        """Run every shard by the program that legs are given, under a Python without packages."""
        plan = json.loads((self.folder / name / "plan.json").read_bytes())
        for shard in plan["shards"]:
            done = subprocess.run(
                [
                    *(sys.executable, "-I", "-S", f"{name}/ciguard-run.pyz", "--plan", name),
                    *("--shard", shard["key"], "--record", f"{records}/{shard['key']}"),
                ],
                cwd=self.folder,
                env=clean_environment(),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode in expect, done.stdout + done.stderr
        return self.folder / records

    def remember(self, records: Path, run_id: int) -> None:
        self.ciguard(
            *("history", "add", records, "--history", self.history, "--run-id", str(run_id)),
            *("--sha", f"{run_id:040x}", "--branch", "main", "--event", "push"),
            *("--at", f"2026-11-{run_id:02d}T10:00:00Z"),
            cwd=self.folder,
        )


@pytest.fixture
def tables(tmp_path: Path, ciguard: Ciguard) -> Loop:
    """A suite without a framework: two variants, several cases a unit."""
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "tests" / "samples" / "projects" / "tables", folder)
    content = TABLES.format(python=sys.executable)
    (folder / "ciguard.toml").write_text(content, encoding="utf-8")
    return Loop(folder, ciguard)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, ciguard: Ciguard) -> Loop:
    """The demo's suite, planned on three shards in `plan`, which left `records`. Not changed."""

    def make(folder: Path) -> None:
        shutil.copytree(ROOT / "demo" / "suite", folder, dirs_exist_ok=True)
        loop = Loop(folder, ciguard)
        loop.plan("plan", "--shards", "3", "--history", str(loop.history))
        loop.run("plan", "records")

    return Loop(made_once(tmp_path_factory, "shop", make), ciguard)


def test_two_suites_with_two_variants_give_one_verdict(tables: Loop) -> None:
    more = ["[suite.unit]", 'args = ["test_unit.py"]', "[suite.unit.variant.plain]"]
    more += ["[suite.unit.variant.strict]", 'args = ["-W", "error"]', ""]
    with (tables.folder / "ciguard.toml").open("a") as configuration:
        configuration.write("\n".join(more))
    text = "import warnings\n\n\ndef test_old():\n    warnings.warn('old')\n"
    (tables.folder / "test_unit.py").write_text(text)
    tables.plan("plan", "--shards", "2", "--history", str(tables.history))
    records = tables.run("plan", "records", expect=(0, 10))
    words = ("guard", "--plan", "plan", "--records", records)
    done = tables.ciguard(*words, cwd=tables.folder, expect=10)
    assert done.stdout.startswith("FAILED: 4 of 8 tests failed\n")
    tables.remember(records, 1)
    assert {
        (value["variant"], value["unit"], value["case"]): value["outcome"]
        for value in values_in(tables.history)
        if value["suite"] == "tables"
    } == EXPECTED
    until = datetime.now(UTC).date()
    entry = '[[quarantine]]\nunit = "*::test_old"\nvariant = "strict"\nreason = "known"\n'
    (tables.folder / "quarantine.toml").write_text(f"{entry}issue = 1\nuntil = {until}\n")
    done = tables.ciguard(*words, cwd=tables.folder, expect=10)
    assert done.stdout.startswith("FAILED: 3 of 8 tests failed; 1 quarantined test failed\n")
    shutil.rmtree(Path(tables.folder, records, "01"))
    done = tables.ciguard(*words, cwd=tables.folder, expect=13)
    assert done.stdout.startswith("INCOMPLETE: shard 01 of 2 has no record; ")


def test_units_and_outcomes_match_plain_pytest(shop: Loop, tmp_path: Path) -> None:
    """Not circular: the truth is pytest's own listing and report, made without ciguard."""
    xml = tmp_path / "alone.xml"
    listed, _ = (
        subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=shop.folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for words in (["--collect-only", "-q"], [f"--junitxml={xml}", "-o", "junit_family=xunit1"])
    )
    outcomes = {}
    for case in ET.parse(xml).getroot().iter("testcase"):
        file = str(case.get("file"))
        word = {"skipped": "skipped", "failure": "failed", "error": "errored"}
        child = next((word[item.tag] for item in case if item.tag in word), "passed")
        outcomes[f"{file}::{case.get('name')}"] = child

    plan = json.loads((shop.folder / "plan" / "plan.json").read_bytes())
    planned = {unit["unit"] for shard in plan["shards"] for unit in shard["units"]}
    assert planned == {line for line in listed.splitlines() if "::" in line}
    records = shop.folder / "records"
    shop.ciguard("guard", "--plan", "plan", "--records", records, cwd=shop.folder)
    shop.remember(records, 1)
    assert {value["unit"]: value["outcome"] for value in values_in(shop.history)} == outcomes


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_damaged_run_never_passes(shop: Loop, tmp_path: Path, damage: str) -> None:
    records = tmp_path / "records"
    shutil.copytree(shop.folder / "records", records)
    for path in (records / "02").glob("*.jsonl"):
        content = path.read_bytes()
        path.unlink()
        if damage != "missing":
            path.write_bytes(b"" if damage == "empty" else content[: len(content) * 2 // 3])
    for verb in ("guard", "report"):
        done = shop.ciguard(
            *(verb, "--plan", "plan", "--records", records), cwd=shop.folder, expect=13
        )
        first_line = done.stdout.partition("\n")[0]
        assert "INCOMPLETE" in first_line
        assert "shard 02" in first_line


def test_full_disk_on_stdout_is_a_readable_error(shop: Loop) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ciguard", "guard", "--plan", "plan", "--records", "none"],
            cwd=shop.folder,
            env=clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_last_leg_is_detected_by_the_shard_count(shop: Loop, tmp_path: Path) -> None:
    base, head = shop.folder / "records", tmp_path / "head"
    shutil.copytree(base, head)
    shutil.rmtree(head / "03")
    words = ("compare", base, head, "--fail-on", "incomplete")
    done = shop.ciguard(*words, cwd=shop.folder, expect=13)
    assert "INCOMPLETE: no record of shard 03" in done.stdout


def test_unit_named_like_a_workflow_command_is_escaped(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "units.txt").write_text("::add-mask::x\n::error::y\n")
    words = ("--inventory", "units.txt", "--shards", "1", "--artifact", "plan")
    ciguard("plan", *words, cwd=tmp_path)
    done = ciguard("guard", "--plan", "plan", "--records", "none", cwd=tmp_path, expect=13)
    assert "add-mask" in done.stdout
    printed = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert not any(line.lstrip().startswith("::") for line in printed)
