"""A plan that is kept in the repository, and the units that are newer than it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from run.leg_runner import start

from ciguard.codec.plan_file import decode
from ciguard.errors import InputError
from ciguard.history.file import empty, encode
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import UnitCount
from ciguard.plan.outputs import BEGIN, END, fill_matrix, without_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard

MATRIX: dict[str, Any] = {"include": [{"shard": "01", "runs_on": {"group": "a: #b"}}]}
NONE = ("--history", "none.ciguard")
WORKFLOW = ".github/workflows/ciguard.yml"


def test_matrix_is_filled_between_its_marks_repeatedly() -> None:
    text = (
        f"jobs:\n  legs:\n    strategy:\n      {BEGIN}\n      old: 1\n      {END}\n    steps: []\n"
    )
    once = fill_matrix(text, MATRIX, "w.yml")
    assert yaml.safe_load(once)["jobs"]["legs"] == {"strategy": {"matrix": MATRIX}, "steps": []}
    assert fill_matrix(once, MATRIX, "w.yml") == once
    assert BEGIN in once


@pytest.mark.parametrize("text", ["jobs: {}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_workflow_without_the_marks_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="has no place for a matrix"):
        fill_matrix(text, MATRIX, "w.yml")
    assert without_matrix(text) == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_without_its_matrix_keeps_both_marks(end: str) -> None:
    empty = end.join(["a:", f"  {BEGIN}", f"  {END}", "b: 1"])
    assert without_matrix(fill_matrix(empty, MATRIX, "w.yml")) == empty


def test_line_endings_match_the_workflow() -> None:
    found = fill_matrix(f"a:\r\n  {BEGIN}\r\n  {END}\r\n", MATRIX, "w.yml")
    assert found.count("\n") == found.count("\r\n") == 6


@pytest.mark.parametrize("content", [b"\xff\xfe", b"jobs: {}\n"])
def test_invalid_workflow_is_an_error_before_planning(
    tmp_path: Path, ciguard: Ciguard, content: bytes
) -> None:
    (tmp_path / "w.yml").write_bytes(content)
    (tmp_path / "test_a.py").write_text("raise SystemExit('collected')\n")
    found = ciguard("plan", *NONE, "--static", "w.yml", "-o", "plan.json", cwd=tmp_path, expect=3)
    assert found.stderr.startswith("ciguard plan: w.yml: has no place for a matrix")
    assert "collected" not in found.stderr
    assert not (tmp_path / "plan.json").exists()


def test_bytes_that_are_no_utf_8_stay_in_the_workflow(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "w.yml").write_bytes(f"# \xe9\na:\n  {BEGIN}\n  {END}\n".encode("latin-1"))
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    ciguard("plan", *NONE, "--static", "w.yml", cwd=tmp_path)
    assert (tmp_path / "w.yml").read_bytes().startswith(b"# \xe9\na:\n")


# As the legs of a repository without a plan job run it, in a project that went on.
NEW = """
import pytest
@pytest.mark.parametrize("n", range(6))
def test_new(n): pass
def test_slow(): assert 0
"""
CONFIGURATION = '[suite.unit]\nexclude = ["*slow*"]\n'
SEVERAL = """
[suite.""]
framework = "command"
list = ["cat", "units.txt"]
command = ["true", "{units_file}"]
[suite."".variant.a]
[suite."".variant.b]
[suite.empty]
framework = "command"
list = ["cat", "units.txt"]
command = ["true", "{units_file}"]
exclude = ["*"]
"""
GUARD = ("guard", "--plan", ".ciguard", "--records", "records")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, ciguard: Ciguard) -> Path:
    """A repository with a kept plan of two shards that went on since, and its legs' records."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "test_a.py").write_text("def test_1(): pass\ndef test_2(): pass\n")
    (folder / "test_moved.py").write_text("def test_3(): pass\n")
    (folder / "ciguard.toml").write_text(CONFIGURATION)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    ciguard("init", "--static", "--yes", cwd=folder, CIGUARD_ACTIONS="acme/ciguard@0123abc")
    ciguard(
        *("plan", *NONE, "--shards", "2", "--static", WORKFLOW),
        cwd=folder,
        GITHUB_ACTIONS="true",
        GITHUB_REPOSITORY="o/r",
        GITHUB_SHA="a" * 40,
    )
    (folder / "test_b.py").write_text(NEW)
    (folder / "test_a.py").write_text("def test_1(): pass\ndef test_renamed(): pass\n")
    (folder / "test_moved.py").unlink()
    for shard in ("01", "02"):
        leg = ("--plan", ".ciguard", "--shard", shard, "--record", f"records/{shard}")
        start(folder, *leg).wait(0)
    return folder


def test_static_plan_has_no_commit_and_lists_in_its_legs(kept: Path) -> None:
    legs = yaml.safe_load((kept / WORKFLOW).read_text())["jobs"]["tests"]
    shards = [entry["shard"] for entry in legs["strategy"]["matrix"]["include"]]
    assert shards == ["01", "02"]
    plan = decode((kept / ".ciguard" / "plan.json").read_bytes(), "plan.json")
    assert plan.head_sha is None
    assert plan.policy.lists


def test_what_exists_runs_once_and_is_proved(kept: Path, ciguard: Ciguard) -> None:
    new = [f"test_b.py::test_new[{number}]" for number in range(6)]
    lines = [
        json.loads(line)
        for path in (kept / "records").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    ran = sorted(line["unit"] for line in lines if line["type"] == "result")
    assert ran == sorted([*new, "test_a.py::test_1", "test_a.py::test_renamed"])
    done = ciguard(*GUARD, cwd=kept)
    expected = "PASSED: all 8 tests of 2 shards have a result, 7 new, 2 gone"
    assert done.stdout.splitlines()[0] == expected


def test_shard_has_one_suite_and_variant_and_each_has_one(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text(SEVERAL)
    (tmp_path / "units.txt").write_text("a\nb\n")
    (tmp_path / "w.yml").write_text(f"{BEGIN}\n{END}\n")
    leg = HistoryLeg("01", complete=True, planned=(UnitCount(2, "", "a"),))
    runs = (HistoryRun(7, branch="main", event="push", legs=(leg,)),)
    (tmp_path / "past").write_bytes(encode(replace(empty(), runs=runs)))
    ciguard("plan", "--history", "past", "-o", "planned.json", cwd=tmp_path)
    planned = decode((tmp_path / "planned.json").read_bytes(), "planned.json")
    assert planned.inventory.base_units == leg.planned
    ciguard("plan", "--history", "past", "--static", "w.yml", cwd=tmp_path)
    plan = decode((tmp_path / ".ciguard" / "plan.json").read_bytes(), "plan.json")
    assert [(shard.suite_key, len(shard.units)) for shard in plan.shards] == [
        *((("", "a"), 2), (("", "b"), 2), (("empty", ""), 0)),
    ]
    assert plan.inventory.base_units == (), "the base of a later commit has other tests"


def test_outdated_static_plan_is_incomplete(kept: Path, tmp_path: Path, ciguard: Ciguard) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    changed = 'args = ["-x"]\n[suite.unit.variant.fast]\n[suite.slow]\n'
    (tmp_path / "ciguard.toml").write_text(CONFIGURATION + changed)
    output = ciguard(*GUARD, cwd=tmp_path, expect=13).stdout
    assert output.startswith("INCOMPLETE: ")
    assert 'suite "slow" is newer than the static plan: no shard runs it' in output
    assert 'suite "unit", variant "fast", is newer than the' in output
    assert 'suite "unit" ran as in the static plan, not as configured: args' in output
