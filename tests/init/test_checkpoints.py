"""The steps of a leg with checkpoints, executed in order: to the end, red, lost, and again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import call_in_process
from init.move_in_samples import ADDRESS
from init.workflow_steps import Job
from run.leg_runner import LISTS, UNGUARDED, build_pyz, plan_of, until

from ciguard.codec import plan_file as plan_codec
from ciguard.compare.run_columns import runs_from_records
from ciguard.init.workflow_files import Workflow, render_workflow
from ciguard.model import LegPolicy
from ciguard.sources.local import read_record_tree

# While `block` is there, a test says so and waits: that is where the runner gets lost.
TESTS = """
import os, pathlib, time
import pytest
NAP_S = float(os.environ.get("NAP_S", "0.3")) if os.environ["GITHUB_RUN_ATTEMPT"] == "1" else 0.0
@pytest.mark.parametrize("n", range(10))
def test_nap(n):
    while pathlib.Path("block").exists():
        pathlib.Path("started").touch()
        time.sleep(0.02)
    time.sleep(NAP_S)
    with open("ran", "a") as stream:
        print(n, file=stream)
    assert n != 1 or not pathlib.Path("bad").exists()
"""
UNITS = [f"test_a.py::test_nap[{n}]" for n in range(10)]
PART = "Run the shard, part %d of at most 3"


def job_in(folder: Path, policy: LegPolicy = UNGUARDED, *, every: str = "1.5s") -> Job:
    """A checkout, a plan for it, and the workflow that init writes for these checkpoints."""
    (folder / "checkout").mkdir()
    (folder / "checkout" / "test_a.py").write_text(TESTS)
    (folder / "plan").mkdir()
    units = [*UNITS[:-1], "test_a.py::test_gone"] if policy.lists else UNITS
    (folder / "plan" / "plan.json").write_bytes(plan_codec.encode(plan_of(units, policy=policy)))
    build_pyz(folder / "plan" / "ciguard-run.pyz")
    (folder / "artifacts").mkdir()
    workflow = Workflow("main", ADDRESS, "", "branch:h", checkpoint=every, checkpoint_steps=3)
    return Job(folder, render_workflow(workflow))


def guard(folder: Path) -> tuple[int, dict[str, Any]]:
    answer = call_in_process(
        "guard", "--plan", "plan", "--records", "artifacts", "--format", "json", cwd=folder
    )
    assert answer.stdout, answer.stderr
    return answer.returncode, json.loads(answer.stdout)


def ran(folder: Path) -> Counter[str]:
    return Counter((folder / "checkout" / "ran").read_text().split())


def artifacts(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "artifacts").iterdir())


def history(folder: Path) -> str:
    """What a history says that gets all artifacts, and then all of them again."""
    words = ("history", "add", "artifacts", "--history", "h", "--plan", "plan", "--sha", "4f2a")
    first = call_in_process(*words, "--branch", "main", cwd=folder)
    rerun = call_in_process(*words, "--branch", "main", cwd=folder)
    assert "nothing new" in rerun.stdout, rerun.stderr
    return first.stdout


@pytest.mark.soak
def test_leg_continues_over_steps_and_fails_for_an_early_failure(tmp_path: Path) -> None:
    job = job_in(tmp_path, LISTS)
    (tmp_path / "checkout" / "bad").touch()
    job.execute()
    assert job.outcomes[PART % 1] == "success", job.printed
    assert job.outputs["steps.part-1.outputs.state"] == "checkpoint"
    assert "the next step continues" in job.printed[PART % 1]
    assert job.red
    last = max(name for name in job.printed if name.startswith("Run"))
    assert "shard 01: 9 passed, 1 failed in " in job.printed[last]
    assert [name for name in job.printed if "::error" in job.printed[name]] == [last]
    assert ran(tmp_path) == dict.fromkeys(map(str, range(10)), 1)
    checkpoints = [one for one in artifacts(tmp_path) if "-checkpoint-" in one]
    assert artifacts(tmp_path) == ["ciguard-record-p-01-1", *checkpoints]
    assert checkpoints[0] == "ciguard-record-p-01-1-checkpoint-01"
    code, verdict = guard(tmp_path)
    assert (code, verdict["findings"], verdict["missing"]) == (10, [], [])
    assert verdict["counts"] == {"passed": 9, "failed": 1}
    assert "10 values of 1 run added" in history(tmp_path)
    # Whoever runs an attempt again that has ended means all of it.
    (tmp_path / "checkout" / "bad").unlink()
    rerun = job.next_attempt().execute()
    assert "resumed: 0 of 10 tests ended before, in 0 records" in rerun.printed[PART % 1]
    assert not rerun.red, rerun.printed
    assert ran(tmp_path) == dict.fromkeys(map(str, range(10)), 2)
    code, verdict = guard(tmp_path)
    assert (code, [one["unit"] for one in verdict["flaky"]]) == (0, [UNITS[1]])


@pytest.mark.soak
def test_lost_runner_loses_only_results_after_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part 2 has twice as long to begin a test: a busy machine needs a while to start pytest."""
    monkeypatch.setenv("NAP_S", "2")
    checkout = tmp_path / "checkout"

    def lost(name: str, _: object) -> bool:
        if name != PART % 2:
            return False
        (checkout / "block").touch()
        until((checkout / "started").exists, what="part 2 is at a test")
        return True

    job = job_in(tmp_path, every="10s").execute(lost)
    (checkout / "block").unlink()
    assert artifacts(tmp_path) == ["ciguard-record-p-01-1-checkpoint-01"]
    code, verdict = guard(tmp_path)
    assert code == 13
    (finding,) = verdict["findings"]
    done = verdict["counts"].get("passed", 0)
    # A busy machine may begin no test within 1.5 s.
    assert finding["kind"] in (("checkpoint",) if done else ("checkpoint", "empty_record"))
    assert len(verdict["missing"]) == 10 - done
    rerun = job.next_attempt().execute()
    assert not rerun.red, rerun.printed
    assert f"resumed: {done} of 10 tests ended before, in 1 record" in rerun.printed[PART % 1]
    assert ran(tmp_path) == dict.fromkeys(map(str, range(10)), 1)
    code, verdict = guard(tmp_path)
    assert (code, verdict["findings"], verdict["flaky"]) == (0, [], [])
    assert verdict["counts"] == {"passed": 10}
    assert verdict["legs"][0]["run_attempt"] == 2
    assert "10 values of 1 run added" in history(tmp_path)
    assert len(runs_from_records(read_record_tree(tmp_path / "artifacts"), "x")) == 1
