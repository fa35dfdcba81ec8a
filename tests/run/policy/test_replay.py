"""The supervisor has no rule of its own: records of real legs replay to the same decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import plan_of, start_shard
from run.replay import replay, replays

from ciguard.model import EventLine, LegPolicy, Plan, PlannedUnit, ProcessLine

BUSY = """
import os, pathlib, pytest, time
kept = []
@pytest.mark.parametrize("n", range(6))
def test_leak(n): kept.append(bytearray(b"x" * (40 << 20)))
def test_flaky():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert not first
def test_dies(): os._exit(1)
def test_hangs(): time.sleep(60)
def test_heavy(): pass
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """A leg that recycles, retries, times out, survives a death, and has a heavy unit."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "test_busy.py").write_text(BUSY)
    names = [f"leak[{n}]" for n in range(6)] + ["flaky", "dies", "hangs", "heavy"]
    units = [
        PlannedUnit(
            f"test_busy.py::test_{name}",
            peak_delta_bytes=(250 if name == "heavy" else 45) << 20,
            timeout_s=0.3 if name == "hangs" else None,
        )
        for name in names
    ]
    policy = LegPolicy(guard_rail="auto", max_tries=2)
    plan = plan_of(units, policy=policy, processes=2, budget_bytes=600 << 20)
    start_shard(folder, plan).wait(10)
    return folder / "record", plan


def test_replay_gives_the_same_decisions_in_order(busy: tuple[Path, Plan]) -> None:
    folder, plan = busy
    replays(folder, plan)
    decisions = [recorded for recorded, _ in replay(folder, plan)]
    kinds = {line.kind for line in decisions if isinstance(line, EventLine)}
    assert kinds >= {"recycled", "timeout"}
    reasons = {line.reason for line in decisions if isinstance(line, ProcessLine)}
    assert reasons == {"next", "heavy", "failure_retry"}


def test_replay_detects_changed_rules(busy: tuple[Path, Plan]) -> None:
    folder, plan = busy
    other = replace(plan.shards[0], processes=1)
    compared = list(replay(folder, replace(plan, shards=(other,))))
    assert any(recorded != rerun for recorded, rerun in compared)


def test_replay_detects_missing_lines(busy: tuple[Path, Plan], tmp_path: Path) -> None:
    folder, plan = busy
    for path in folder.glob("*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        stored = [line for line in lines if json.loads(line)["type"] != "start"]
        (tmp_path / path.name).write_text("".join(stored))
    compared = list(replay(tmp_path, plan))
    assert any(recorded != rerun for recorded, rerun in compared)
