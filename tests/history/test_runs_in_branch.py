"""What records become in the branch, by real legs: legs, deaths, attempts, events."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard, clean_environment
from history.git_servers import NAME, PLACE, branch, clone, git
from history.stored_values import values_of

from ciguard.history.runs import HistoryLeg
from ciguard.history.stores import load

ROOT = Path(__file__).parent.parent.parent
SUITE = f"""
[suite.tables]
framework = "command"
list = ["{sys.executable}", "check.py", "list"]
command = ["{sys.executable}", "check.py", "run", "{{units_file}}", "{{results_file}}"]
variant.exact.args = ["exact"]
variant.rounded.args = ["rounded"]
[policy]
probe = false
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A clone with a suite of two variants, planned on three shards, and its commands."""

    folder: Path
    ciguard: Ciguard

    def leg(self, shard: str, run_id: int, attempt: int = 1, event: str = "push") -> Path:
        """Run one as a job of GitHub Actions would; its record lies where a download puts it."""
        record = Path(f"records-{run_id}") / f"ciguard-record-{shard}-{attempt}"
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_REF_NAME": "main",
            "CIGUARD_JOB": f"tests ({shard})",
        }
        words = ("--plan", "plan", "--shard", shard, "--record", str(record))
        done = subprocess.run(
            [sys.executable, "-m", "ciguard.run", *words],
            cwd=self.folder,
            env=clean_environment(**github),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (0, 10), done.stderr
        return self.folder / record

    def add(self, run_id: int, *, expect: int = 0) -> str:
        words = ("history", "add", f"records-{run_id}", "--history", PLACE, "--plan", "plan")
        done = self.ciguard(*words, cwd=self.folder, expect=expect)
        return done.stdout + done.stderr

    def legs(self) -> dict[str, HistoryLeg]:
        (run,) = load(branch(self.folder)).history.runs
        return {leg.shard: leg for leg in run.legs}

    def values(self) -> list[dict[str, Any]]:
        return values_of(load(branch(self.folder)).history)


@pytest.fixture
def project(origin: Path, ciguard: Ciguard) -> Project:
    folder = clone(origin, "project")
    source = ROOT / "tests" / "samples" / "projects" / "tables"
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / "ciguard.toml").write_text(SUITE, encoding="utf-8")
    ciguard("plan", "--shards", "3", "--artifact", "plan", cwd=folder)
    return Project(folder, ciguard)


def kill(record: Path) -> None:
    """Leave of a record what a leg leaves that is killed in its last unit."""
    *_, last = sorted(record.glob("process-*.jsonl"))
    lines = last.read_bytes().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if json.loads(line)["type"] == "start"]
    last.write_bytes(b"".join(lines[: starts[-1] + 1]))
    supervisor = record / "supervisor.jsonl"
    lines = supervisor.read_bytes().splitlines(keepends=True)
    supervisor.write_bytes(b"".join(one for one in lines if json.loads(one)["type"] != "end"))


def test_dead_legs_are_stored_until_their_rerun(project: Project) -> None:
    first, killed = project.leg("01", 7), project.leg("02", 7)
    kill(killed)  # and shard 03 left nothing at all
    project.add(7)
    legs = project.legs()
    plan = json.loads((project.folder / "plan" / "plan.json").read_bytes())
    planned = {
        shard["key"]: {(unit["variant"], unit["unit"]) for unit in shard["units"]}
        for shard in plan["shards"]
    }
    lost = {key: {(one.variant, one.unit) for one in leg.lost_units} for key, leg in legs.items()}
    assert legs["01"].complete
    assert (lost["01"], lost["03"]) == (set(), planned["03"])
    assert not legs["02"].complete
    assert len(lost["02"]) == 1, "the one that it was killed in"
    assert lost["02"] < planned["02"]
    values = project.values()
    assert {one["shard"]: one["shard_ending"] for one in values} == {
        "01": "completed",
        "02": "unknown",
    }
    assert {(one["variant"], one["unit"]) for one in values if one["shard"] == "02"} == (
        planned["02"] - lost["02"]
    )

    # "Re-run failed jobs": the legs that were lost, under the same run id. The download has all.
    for shard in ("02", "03"):
        project.leg(shard, 7, attempt=2)
    assert "nothing new" not in project.add(7)
    rerun = project.legs()
    assert [(leg.complete, leg.lost_units) for leg in rerun.values()] == [(True, ())] * 3
    assert {key: leg.run_attempt for key, leg in rerun.items()} == {"01": 1, "02": 2, "03": 2}
    assert {(one["variant"], one["unit"]) for one in project.values()} == set().union(
        *planned.values()
    )
    before = git(project.folder, "ls-remote", "origin", NAME)
    assert "nothing new" in project.add(7)
    shutil.rmtree(first)  # nor does what is here no longer change what was added
    assert "nothing new" in project.add(7)
    assert git(project.folder, "ls-remote", "origin", NAME) == before
