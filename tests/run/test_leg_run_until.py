"""A shard's order up to one test, as somebody reproduces it who has only the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import plan_of, start
from run.replay import replays

from ciguard.codec import plan_file as plan_codec

if TYPE_CHECKING:
    from pathlib import Path

    from run.leg_runner import Leg

    from ciguard.model import Plan

# It fails only behind the test that leaves something, which a file's own order puts behind it.
ORDER = """
left = []
def test_victim(): assert not left
def test_between(): pass
def test_leaves(): left.append(1)
def test_behind(): raise RuntimeError("never reached")
"""
UNITS = [f"test_order.py::test_{name}" for name in ("leaves", "between", "victim", "behind")]


def until(folder: Path, plan: Plan, unit: str) -> Leg:
    (folder / "test_order.py").write_text(ORDER)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
    return start(folder, *words, "--until", unit)


@pytest.mark.parametrize(
    ("processes", "run", "whose"),
    [(1, UNITS[:3], "in its order"), (2, UNITS[:3:2], "those of its process of 2 in parallel")],
)
def test_until_runs_predecessors_and_nothing_after(
    tmp_path: Path, processes: int, run: list[str], whose: str
) -> None:
    plan = plan_of(UNITS, processes=processes)
    leg = until(tmp_path, plan, UNITS[2]).wait(10)
    record = leg.record()
    assert f"until: {len(run)} of 4 tests: {whose}, up to this one" in leg.printed
    (output,) = [event for event in record.events if event.kind == "run_until"]
    assert output.unit == UNITS[2]
    units = tuple(one for one in plan.shards[0].units if one.unit in run)
    part = replace(plan.shards[0], units=units, processes=1)
    replays(leg.record_folder, replace(plan, shards=(part,)))
    assert [line.unit for line in record.starts] == run
    assert leg.outcomes()[UNITS[2]] == "failed"


def test_until_with_a_test_of_another_shard_is_an_error(tmp_path: Path) -> None:
    leg = until(tmp_path, plan_of(UNITS), "test_order.py::test_victims").wait(3)
    assert leg.printed == (
        "ciguard run: --until test_order.py::test_victims: not among the 4 tests of shard 01\n"
        f"  fix: did you mean {UNITS[2]}, {UNITS[0]}, {UNITS[3]}, {UNITS[1]}?\n"
    )
    assert not leg.record_folder.exists()
