"""Drills: each fault for real, by one of two shards; the run is red, and in no statistics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard, clean_environment
from frameworks.loop import lay_out, needs_gem, needs_program
from guard.fixtures import World, make_plan

from ciguard.guard.headline import headline
from ciguard.model import DRILL_KINDS, DrillKind

SUITE = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_number(number):
    pass
"""
UNITS = "".join(f"test_{file}.py::test_number[{n}]\n" for file in "ab" for n in range(4))
# By drill: the exit code of its shard, the rest of the first line, and the exit code of the run.
EXPECTED: dict[DrillKind, tuple[int, str, int]] = {
    "lost-shard": (
        *(-9, "INCOMPLETE: shard 01 of 2 has no record; 4 of 8 tests have no result", 13),
    ),
    "dropped-test": (0, "INCOMPLETE: 1 of 8 tests has no result", 13),
    "out-of-memory": (10, "FAILED: 1 of 8 tests failed (out of memory)", 10),
    "timeout": (10, "FAILED: 1 of 8 tests failed (timeout)", 10),
    "cancelled": (
        130,
        "INCOMPLETE: shard 01 of 2 did not end by itself (cancelled); 4 of 8 tests have no result",
        13,
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(SUITE, "utf-8")
    configuration = '[history]\nstore = "h.ciguard"\n[policy]\nprobe = false\n'
    (tmp_path / "ciguard.toml").write_text(configuration, "utf-8")
    return tmp_path


def run_shards(folder: Path) -> list[int]:
    """Run both shards at once, with their output in `shards.log`; their exit codes."""
    program = (sys.executable, "-m", "ciguard.run", "--plan", "plan")
    with (folder / "shards.log").open("ab") as log:
        processes = [
            subprocess.Popen(
                [*program, "--shard", key, "--record", f"records/{key}"],
                cwd=folder,
                env=clean_environment(),
                stdout=log,
                stderr=log,
            )
            for key in ("01", "02")
        ]
        return [process.wait(60) for process in processes]


def guarded(folder: Path, ciguard: Ciguard, expect: int) -> str:
    """The first line of the guard's answer, which may be broken into several."""
    words = ("guard", "--plan", "plan", "--records", "records", "--format", "json")
    verdict = json.loads(ciguard(*words, cwd=folder, expect=expect).stdout)
    return f"{verdict['drill']}: {verdict['headline']}"


@pytest.mark.parametrize("kind", DRILL_KINDS)
def test_each_fault_is_noticed_and_enters_no_statistics(
    folder: Path, ciguard: Ciguard, kind: DrillKind
) -> None:
    words = ("plan", "--inventory", "-", "--shards", "2", "--artifact", "plan", "--drill", kind)
    event = "workflow_dispatch"
    shown = ciguard(*words, cwd=folder, stdin=UNITS, GITHUB_EVENT_NAME=event).stdout
    assert f"this is a drill ({kind}): the run must end red" in shown
    plan = json.loads((folder / "plan" / "plan.json").read_bytes())
    assert re.fullmatch(f"drill-{kind}-[0-9a-f]{{12}}", plan["id"])
    assert plan["drill"] == kind
    shard_code, line, run_code = EXPECTED[kind]
    codes, log = run_shards(folder), (folder / "shards.log").read_text("utf-8")
    assert codes == [shard_code, 0], log
    if kind != "lost-shard":  # whose last output may be lost with it
        assert f"drill: this shard causes {kind}, by test_a.py::test_number[0]" in log
    assert guarded(folder, ciguard, run_code) == f"{kind}: DRILL ({kind}): {line}"
    run = ("--plan", "plan", "--records", "records")
    text = ciguard("report", *run, "--html", "page.html", cwd=folder, expect=run_code).stdout
    assert f"DRILL ({kind}): " in text.splitlines()[0].replace("\\", "")
    assert "not compared: it is a drill" in text
    assert f"DRILL ({kind}): " in (folder / "page.html").read_text("utf-8")
    added = ciguard("history", "add", "records", "--run-id", "1", cwd=folder)
    assert added.stdout == f"nothing is added: {plan['id']} is the plan of a drill\n"
    assert not (folder / "h.ciguard").exists()
    refused = ciguard("compare", "records", "records", cwd=folder, expect=3)
    assert f"ciguard compare: records: is a drill ({plan['id']})" in refused.stderr


@pytest.mark.parametrize("kind", ["timeout", pytest.param("out-of-memory", marks=pytest.mark.soak)])
def test_retries_and_another_framework_do_not_hide_the_fault(
    tmp_path: Path, ciguard: Ciguard, kind: DrillKind
) -> None:
    needs_program("rake", "Debian's ruby")
    needs_gem("minitest", "ruby-minitest")
    loop = lay_out(tmp_path, "minitest")
    loop.configure(f"{loop.toml}\n[policy]\nretries = 1\nprobe = false\n")
    words = ("plan", "--shards", "2", "--artifact", "plan", "--processes", "2", "--drill", kind)
    ciguard(*words, cwd=tmp_path)
    assert run_shards(tmp_path) == [10, 0], (tmp_path / "shards.log").read_text("utf-8")
    word = kind.replace("-", " ")
    line = f"DRILL ({kind}): FAILED: 1 of 7 test files failed ({word})"
    assert guarded(tmp_path, ciguard, 10) == f"{kind}: {line}"


@pytest.mark.parametrize("kind", ["dropped-test", pytest.param("timeout", marks=pytest.mark.soak)])
def test_jobs_that_list_cause_the_fault_too(
    folder: Path, ciguard: Ciguard, kind: DrillKind
) -> None:
    (folder / "matrix.yml").write_text("", "utf-8")
    words = ("--matrix", "matrix.yml", "--collect", "history", "--shards", "2")
    ciguard("plan", *words, "--artifact", "plan", "--drill", kind, cwd=folder)
    shard_code, _, run_code = EXPECTED[kind]
    # The plan knows no test, so that each shard that has one causes the fault.
    codes = run_shards(folder)
    assert codes == [shard_code] * 2, (folder / "shards.log").read_text("utf-8")
    assert guarded(folder, ciguard, run_code).startswith(f"{kind}: DRILL ({kind}): ")


@pytest.mark.parametrize("kind", DRILL_KINDS)
def test_drill_without_a_trace_is_red_itself(kind: DrillKind) -> None:
    world = World(make_plan(drill=kind))
    verdict = world.prove()
    assert (verdict.state, headline(verdict)) == (
        "incomplete",
        f"DRILL FAILED: {kind} was not noticed",
    )
    assert headline(replace(verdict, plan=make_plan())).startswith("PASSED: ")


@pytest.mark.parametrize("event", ["push", "pull_request", "merge_group", "schedule"])
def test_a_drill_is_started_by_hand(folder: Path, ciguard: Ciguard, event: str) -> None:
    words = ("plan", "--inventory", "-", "--drill", "timeout", "-o", "plan.json")
    done = ciguard(*words, cwd=folder, stdin=UNITS, expect=2, GITHUB_EVENT_NAME=event)
    assert "ciguard plan: --drill: a drill needs a run that was started for it" in done.stderr
    assert not (folder / "plan.json").exists()
