"""Units side by side in one process: no end is guessed, and at a death the culprit is a set."""

from __future__ import annotations

import sys
from pathlib import Path

from run.leg_runner import plan_of, start_shard

from ciguard.model import LegPolicy, PlannedUnit, ProcessEndLine, Result, StartLine, Suite
from ciguard.run.policy.actions import Start, Wait
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State
from ciguard.run.process.ending import culprit_results


def state_of(*lines: StartLine | Result) -> State:
    """Four units in process 1, with these lines observed."""
    units = [PlannedUnit(unit, timeout_s=10.0) for unit in ("a", "b", "c", "d")]
    plan = plan_of(units, policy=LegPolicy(guard_rail="off"))
    state = State(plan.shards[0], plan.suites, plan.policy)
    action = next_action(state, 0.0)
    assert isinstance(action, Start)
    state.apply(action)
    for line in lines:
        state.observe(line)
    return state


def begin(unit: str, at_s: float) -> StartLine:
    return StartLine(unit, process=1, at_s=at_s)


def result(unit: str, case: str = "") -> Result:
    return Result(unit, "passed", case=case or unit, process=1)


def test_each_open_unit_is_a_candidate_culprit() -> None:
    state = state_of(begin("a", 1.0), begin("b", 2.0), begin("c", 3.0), result("b"))
    assert state.culprits(1) == (0, 2)
    culprits = culprit_results(state, 1, "crash", 5.0)
    assert [(one.unit, one.concurrent, one.wall_s) for one in culprits] == [
        ("a", 2, 4.0),
        ("c", 2, 2.0),
    ]


def test_cases_of_two_units_may_alternate() -> None:
    """The first case of one says nothing of the other, which may still have cases to come."""
    lines = (begin("a", 1.0), begin("b", 1.0), result("a", "a1"), result("b", "b1"))
    state = state_of(*lines, begin("c", 2.0), result("a", "a2"))
    assert state.culprits(1) == (2,), "the others have reported: c is the likely one"
    for culprit in culprit_results(state, 1, "crash", 5.0):
        state.observe(culprit)
    state.observe(ProcessEndLine(1, "crash", -11))
    assert state.pending == [0, 1, 3], "nobody knows whether a and b were through"


def test_all_reported_open_units_are_candidate_culprits() -> None:
    lines = (begin("a", 1.0), begin("b", 1.0), result("a", "a1"), result("b", "b1"))
    assert state_of(*lines).culprits(1) == (0, 1)


def test_unit_with_a_result_is_not_stopped_for_its_timeout() -> None:
    lines = (begin("a", 1.0), begin("b", 1.0), result("a", "a1"), result("b"))
    assert next_action(state_of(*lines), 60.0) == Wait(None)


def test_clean_exit_finishes_all_open_units() -> None:
    lines = (begin("a", 1.0), begin("b", 1.0), result("a", "a1"), result("b", "b1"))
    state = state_of(*lines)
    state.observe(ProcessEndLine(1, "completed", 0))
    assert state.tries == {0: 1, 1: 1}
    assert state.without_result == {2, 3}


def test_sequential_units_do_not_overlap() -> None:
    state = state_of(begin("a", 1.0), result("a", "a1"), begin("b", 2.0), result("b", "b1"))
    assert state.running[1].finished == {0}
    assert state.culprits(1) == (1,)


THREADS = """
import json, os, threading, time
lock = threading.Lock()
def say(**line):
    with lock, open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
def run(unit):
    say(type="start", unit=unit)
    time.sleep(0.3)
    if unit == "quick": return say(type="result", unit=unit, outcome="passed")
    say(type="result", unit=unit, case="one", outcome="passed")
    if unit == "kills" and os.path.exists("units-left"):
        time.sleep(0.3)
        os.abort()
    say(type="result", unit=unit, case="two", outcome="passed")
units = open(os.environ["CIGUARD_UNITS_FILE"]).read().split()
threads = [threading.Thread(target=run, args=(unit,)) for unit in units]
for thread in threads: thread.start()
for thread in threads: thread.join()
time.sleep(0.3)
"""


def test_concurrent_units_of_a_threaded_program_are_recorded(tmp_path: Path) -> None:
    suite = Suite("command", (sys.executable, "-c", THREADS))
    planned = [PlannedUnit(unit, suite="s") for unit in ("quick", "two", "other")]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(0)
    record = leg.record()
    assert sorted((one.unit, one.case) for one in record.results) == [
        ("other", "one"),
        ("other", "two"),
        ("quick", "quick"),
        ("two", "one"),
        ("two", "two"),
    ]
    for one in record.results:
        assert (one.concurrent or 0) >= 2
        assert one.peak_lower_bytes is None, "what it had alone is not known"
        assert one.peak_upper_bytes


def test_crash_of_a_threaded_program_loses_no_case(tmp_path: Path) -> None:
    (tmp_path / "units-left").touch()
    suite = Suite("command", (sys.executable, "-c", THREADS))
    planned = [PlannedUnit(unit, suite="s") for unit in ("quick", "two", "kills")]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(10)
    record = leg.record()
    found = {(one.unit, one.case): one.outcome for one in record.results}
    assert found["quick", "quick"] == "passed"
    assert found["two", "two"] in {"passed", "died"}, "it had reported too when the process died"
    assert found["kills", "kills"] == "died"
    assert leg.end().ending == "completed"
