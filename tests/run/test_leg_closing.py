"""A command that says when each of its units is over: what it did not close died, or runs again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import plan_of, start, start_shard, until
from run.replay import replays

from ciguard.codec import plan_file
from ciguard.guard.prove import prove
from ciguard.model import PlannedUnit, Suite
from ciguard.sources.local import read_record_tree

if TYPE_CHECKING:
    from pathlib import Path

    from run.leg_runner import Leg

    from ciguard.model import Plan

# A file of tests is a unit; each has two cases. The second one of `dies` ends the program as told.
REPORTER = """
import json, os, sys, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    say(type="start", unit=unit)
    for case in ("one", "two"):
        if unit == "dies" and case == "two":
            if WAY == "lost":  # as a runner that goes on without its worker
                break
            while WAY == "hang" and not os.path.exists("go"):
                time.sleep(0.05)
            if WAY != "hang":
                sys.exit(int(WAY))
        say(type="result", unit=unit, case=case, outcome="passed")
    else:
        say(type="event", kind="closed", unit=unit)
sys.exit(1 if WAY == "lost" else 0)
"""
NAMES = ("a", "dies", "b")


def plan_for(way: str, *, closes: bool = True, timeout_s: float | None = None) -> Plan:
    command = (sys.executable, "-c", f"WAY = {way!r}\n{REPORTER}")
    suite = Suite("command", command, closes_units=closes)
    units = [PlannedUnit(name, suite="s", timeout_s=timeout_s) for name in NAMES]
    made = plan_of(units, suites={"s": suite})
    return plan_file.decode(plan_file.encode(made), "plan.json")


def bad_units(leg: Leg, plan: Plan) -> dict[str, str]:
    """By unit, how what went wrong ended, as the guard says it."""
    found = prove(plan, [leg.record()])
    return {one.result.unit: one.result.ending for one in found.failures}


@pytest.mark.parametrize("way", ["0", "1", "7", "lost"])
def test_unit_that_was_not_closed_died(tmp_path: Path, way: str) -> None:
    """With whatever exit code, and though it has a result: one of its tests never ended."""
    plan = plan_for(way)
    leg = start_shard(tmp_path, plan).wait(10)
    assert bad_units(leg, plan) == {"dies": "crash"}
    assert {one.unit for one in leg.record().results if one.outcome == "died"} == {"dies"}
    assert prove(plan, [leg.record()]).with_result == 3, "the others ran, in another process"
    replays(leg.record_folder, plan)


def test_without_the_key_an_exit_in_a_test_goes_unseen(tmp_path: Path) -> None:
    """What the key is for: the results that are there look like all there are."""
    plan = plan_for("lost", closes=False)
    leg = start_shard(tmp_path, plan).wait()
    assert bad_units(leg, plan) == {}


def test_unit_that_hangs_behind_its_first_result_is_named(tmp_path: Path) -> None:
    plan = plan_for("hang", timeout_s=1.0)
    leg = start_shard(tmp_path, plan).wait(10)
    assert bad_units(leg, plan) == {"dies": "timeout"}
    replays(leg.record_folder, plan)


def results_of(leg: Leg, unit: str) -> int:
    if not leg.record_folder.is_dir():
        return 0
    records = read_record_tree(leg.record_folder)
    return sum(one.unit == unit for record in records for one in record.results)


def test_killed_leg_counts_what_was_closed(tmp_path: Path) -> None:
    """And one that goes on from it runs the rest: a unit with a result among them."""
    plan = plan_for("hang")
    leg = start_shard(tmp_path, plan)
    until(lambda: results_of(leg, "dies") == 1, what="a result of the unit")
    leg.process.kill()
    leg.process.communicate()
    found = prove(plan, [leg.record()])
    assert found.state == "incomplete"
    assert found.with_result == 1
    assert {one.key.unit for one in found.missing} == {"dies", "b"}
    leg.record_folder.rename(tmp_path / "before")
    (tmp_path / "go").touch()
    words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
    again = start(tmp_path, *words, "--resume-from", "before").wait(0)
    assert "resumed: 1 of 3 tests ended before, in 1 record" in again.said
    assert prove(plan, [again.record()]).state == "passed"
