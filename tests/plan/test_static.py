"""A plan that is kept in the repository, and the units that are newer than it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from run.leg_runner import plan_of, start

from ciguard.codec.plan_file import decode
from ciguard.errors import InputError
from ciguard.model import UnitKey
from ciguard.plan.outputs import BEGIN, END, fill_matrix
from ciguard.run.unplanned import shard_by_hash

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard

MATRIX: dict[str, Any] = {"include": [{"shard": "01", "runs_on": {"group": "a: #b"}}]}
NONE = ("--history", "none.ciguard")


def test_the_matrix_stands_between_its_marks_and_again_the_next_time() -> None:
    text = (
        f"jobs:\n  legs:\n    strategy:\n      {BEGIN}\n      old: 1\n      {END}\n    steps: []\n"
    )
    once = fill_matrix(text, MATRIX, "w.yml")
    assert yaml.safe_load(once)["jobs"]["legs"] == {"strategy": {"matrix": MATRIX}, "steps": []}
    assert fill_matrix(once, MATRIX, "w.yml") == once
    assert BEGIN in once


@pytest.mark.parametrize("text", ["jobs: {}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_a_workflow_without_the_marks_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="has no place for a matrix"):
        fill_matrix(text, MATRIX, "w.yml")


def test_lines_end_as_those_around_them() -> None:
    found = fill_matrix(f"a:\r\n  {BEGIN}\r\n  {END}\r\n", MATRIX, "w.yml")
    assert found.count("\n") == found.count("\r\n") == 6


@pytest.mark.parametrize(
    ("content", "output"), [(b"\xff\xfe", "no UTF-8"), (b"jobs: {}\n", "no place for a matrix")]
)
def test_a_workflow_that_cannot_be_filled_in_is_said_before_anything_is_planned(
    tmp_path: Path, ciguard: Ciguard, content: bytes, output: str
) -> None:
    (tmp_path / "w.yml").write_bytes(content)
    (tmp_path / "test_a.py").write_text("raise SystemExit('collected')\n")
    found = ciguard("plan", *NONE, "--static", "w.yml", "-o", "plan.json", cwd=tmp_path, expect=3)
    assert found.stderr.startswith("ciguard plan: w.yml: ")
    assert output in found.stderr
    assert "collected" not in found.stderr
    assert not (tmp_path / "plan.json").exists()


def test_every_unit_falls_to_one_shard_wherever_it_is_asked() -> None:
    shards = ["01", "02", "03"]
    units = [UnitKey("", "", f"t{number}") for number in range(300)]
    counts = [sum(shard_by_hash(unit, shards) == shard for unit in units) for shard in shards]
    assert sum(counts) == 300
    assert min(counts) > 60, "nearly even"
    assert shard_by_hash(UnitKey("s", "v", "tëst\ud800"), shards) in shards


def test_what_is_newer_than_the_plan_runs_once(tmp_path: Path, ciguard: Ciguard) -> None:
    """init, plan, legs and guard, as a repository without a plan job has them."""
    (tmp_path / "test_a.py").write_text("def test_1(): pass\ndef test_2(): pass\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    ciguard("init", "--static", "--yes", cwd=tmp_path)
    workflow = ".github/workflows/ciguard.yml"
    ciguard("plan", *NONE, "--shards", "2", "--static", workflow, cwd=tmp_path)
    legs = yaml.safe_load((tmp_path / workflow).read_text())["jobs"]["legs"]
    shards = [entry["shard"] for entry in legs["strategy"]["matrix"]["include"]]
    assert shards == ["01", "02"]
    new = [f"test_b.py::test_new[{number}]" for number in range(6)]
    (tmp_path / "test_b.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_new(n): pass\n"
    )
    for shard in shards:
        record = tmp_path / "records" / shard
        words = ("--plan", ".ciguard", "--shard", shard, "--record", str(record))
        start(tmp_path, *words).wait(0)
    lines = [
        json.loads(line)
        for path in (tmp_path / "records").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    ran = sorted(line["unit"] for line in lines if line["type"] == "result")
    assert ran == sorted([*new, "test_a.py::test_1", "test_a.py::test_2"])
    reported = [line["unit"] for line in lines if line.get("kind") == "unplanned"]
    assert sorted(reported) == new
    done = ciguard("guard", "--plan", ".ciguard", "--records", "records", cwd=tmp_path)
    assert "units with results that nobody planned" in done.stdout
    (tmp_path / "test_b.py").write_text("def test_new(): assert 0\n")
    for shard in shards:
        words = ("--plan", ".ciguard", "--shard", shard, "--record", f"later/{shard}")
        start(tmp_path, *words).wait()
    red = ciguard("guard", "--plan", ".ciguard", "--records", "later", cwd=tmp_path, expect=10)
    assert "test_b.py::test_new" in red.stdout
    shutil.rmtree(tmp_path / "records" / "02")
    ciguard("guard", "--plan", ".ciguard", "--records", "records", cwd=tmp_path, expect=13)


def test_excluded_units_stay_excluded_and_an_unreadable_suite_is_no_smaller_one(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "test_a.py").write_text("def test_1(): pass\n")
    (tmp_path / "ciguard.toml").write_text('[suite.unit]\nexclude = ["*slow*"]\n')
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    ciguard("init", "--static", "--yes", cwd=tmp_path)
    workflow = ".github/workflows/ciguard.yml"
    ciguard("plan", *NONE, "--static", workflow, cwd=tmp_path)
    plan = decode((tmp_path / ".ciguard" / "plan.json").read_bytes(), "plan.json")
    assert plan.policy.remainder
    assert not plan_of(["a"]).policy.remainder, "other plans are what runs"
    (tmp_path / "test_b.py").write_text("def test_slow(): assert 0\ndef test_new(): pass\n")
    words = ("--plan", ".ciguard", "--shard", "01", "--record")
    leg = start(tmp_path, *words, "record").wait(0)
    assert leg.outcomes() == {"test_a.py::test_1": "passed", "test_b.py::test_new": "passed"}
    (tmp_path / "test_b.py").write_text("import nowhere\n")
    broken = start(tmp_path, *words, "again").wait(3)
    assert "suite unit: cannot be listed, so that new units would be missed" in broken.printed
    assert "nowhere" in broken.printed


GROUPED = """
import pytest
@pytest.mark.xdist_group("db")
@pytest.mark.parametrize("n", range({count}))
def test_db(n): pass
"""


def test_what_is_newer_in_a_group_runs_where_the_group_does(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "test_a.py").write_text("def test_1(): pass\ndef test_2(): pass\n")
    (tmp_path / "test_g.py").write_text(GROUPED.format(count=2))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    ciguard("init", "--static", "--yes", cwd=tmp_path)
    workflow = ".github/workflows/ciguard.yml"
    ciguard("plan", *NONE, "--shards", "3", "--static", workflow, cwd=tmp_path)
    (tmp_path / "test_g.py").write_text(
        GROUPED.format(count=8) + GROUPED.format(count=5).replace("db", "new")
    )
    ran: list[str] = []
    places: set[tuple[str, str]] = set()
    for shard in ("01", "02", "03"):
        words = ("--plan", ".ciguard", "--shard", shard, "--record", f"records/{shard}")
        start(tmp_path, *words).wait(0)
        text = (tmp_path / "records" / shard / "process-001.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        units = [line["unit"] for line in lines if line["type"] == "result"]
        ran += units
        places.update((unit.partition("[")[0], shard) for unit in units if "test_g.py" in unit)
    assert len(ran) == len(set(ran)) == 2 + 8 + 5
    assert len(places) == 2, "each of the two groups in one shard"


def test_a_kept_plan_that_is_older_than_the_configuration_is_said_to_be(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "test_a.py").write_text("def test_1(): pass\n")
    (tmp_path / "ciguard.toml").write_text("[suite.unit]\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    ciguard("init", "--static", "--yes", cwd=tmp_path)
    workflow = ".github/workflows/ciguard.yml"
    ciguard(
        *("plan", *NONE, "--static", workflow),
        cwd=tmp_path,
        GITHUB_ACTIONS="true",
        GITHUB_REPOSITORY="o/r",
        GITHUB_SHA="a" * 40,
    )
    plan = decode((tmp_path / ".ciguard" / "plan.json").read_bytes(), "plan.json")
    assert plan.head_sha is None, "it is for the commits that follow"
    words = ("--plan", ".ciguard", "--shard", "01", "--record", "records")
    start(tmp_path, *words).wait(0)
    guard = ("guard", "--plan", ".ciguard", "--records", "records")
    assert "kept plan" not in ciguard(*guard, cwd=tmp_path).stdout
    changed = '[suite.unit]\nargs = ["-x"]\n[suite.unit.variant.fast]\n[suite.slow]\n'
    (tmp_path / "ciguard.toml").write_text(changed)
    output = ciguard(*guard, cwd=tmp_path, expect=13).stdout
    assert output.startswith("INCOMPLETE: ")
    assert 'suite "slow" is newer than the kept plan: no shard runs it' in output
    assert 'suite "unit", variant "fast", is newer than the kept plan' in output
    assert 'suite "unit" ran as the kept plan has it, not as configured: args' in output
