"""A command that says when each of its units is over: what it did not close died, or runs again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from run.leg_runner import Leg, plan_of, start, start_shard, until

from ciguard.codec import plan_file
from ciguard.guard.prove import prove
from ciguard.guard.wording import finding_message
from ciguard.model import Plan, PlannedUnit, Suite
from ciguard.sources.local import read_record_tree

# A file of tests is a unit; each has two cases. The second one of `dies` ends the program as told.
REPORTER = """
import json, os, sys, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
if SETTING:
    say(type="event", kind="execution", reason=SETTING, detail="runner.toml: " + SETTING)
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    say(type="start", unit=unit)
    for case in ("one", "two"):
        if NAMES_CASES:
            say(type="event", kind="case_start", unit=unit, detail=case)
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


def plan_for(
    way: str, *, timeout_s: float | None = None, names_cases: bool = False, setting: str = ""
) -> Plan:
    given = f"WAY, NAMES_CASES, SETTING = {way!r}, {names_cases}, {setting!r}"
    command = (sys.executable, "-c", f"{given}\n{REPORTER}")
    suite = Suite("command", command, closes_units=True, filters=())
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


@pytest.mark.parametrize(("way", "timeout_s"), [("1", None), ("0", None), ("hang", 0.5)])
def test_case_that_ran_is_the_culprit(tmp_path: Path, way: str, timeout_s: float | None) -> None:
    """Where the program announces its cases: not their whole file."""
    plan = plan_for(way, timeout_s=timeout_s, names_cases=True)
    leg = start_shard(tmp_path, plan).wait(10)
    (failure,) = prove(plan, [leg.record()]).failures
    assert (failure.result.unit, failure.result.case) == ("dies", "two")
    assert failure.result.ending == ("timeout" if way == "hang" else "crash")
    assert "dies two" in leg.said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("not_executed", "tests were listed, not executed"),
        ("focus", "only focused tests ran"),
        ("filter", "a filter that is not in the plan left tests out"),
    ],
)
def test_leg_and_guard_word_a_setting_alike(tmp_path: Path, setting: str, words: str) -> None:
    plan = plan_for("hang", setting=setting)
    (tmp_path / "go").touch()
    leg = start_shard(tmp_path, plan).wait(13)
    assert f"{words}: runner.toml: {setting}" in leg.said
    (finding,) = prove(plan, [leg.record()]).findings
    assert finding.level == "incomplete"
    assert f"{words} in 1 shard: runner.toml: {setting}" in finding_message(finding)


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
