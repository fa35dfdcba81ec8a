"""What is executed again: the whole of a failed process, a victim of memory alone; how often."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run.states import GIB, OFF, finish_all, start, state_of

from ciguard.model import (
    EventLine,
    LegPolicy,
    Outcome,
    PlannedUnit,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
)
from ciguard.model import Runner as Machine
from ciguard.run.policy.actions import Finish, Reason, Start, Wait, Warn
from ciguard.run.policy.reruns import Rerun
from ciguard.run.policy.rules import decision_line, next_action
from ciguard.run.policy.state import MIB, State


def end(state: State, process: int, **outcomes: Outcome) -> None:
    for unit, outcome in outcomes.items():
        state.observe(StartLine(unit, process=process, at_s=0.0))
        state.observe(Result(unit, outcome, process=process))
    state.observe(ProcessEndLine(process, "completed", 1))


@pytest.mark.parametrize(("tries", "repeated"), [(1, []), (2, [(0, 1)]), (3, [(0, 1)])])
def test_failed_unit_is_retried_with_its_predecessors(
    tries: int, repeated: list[tuple[int, ...]]
) -> None:
    state = state_of("leaves", "stumbles", "behind", policy=LegPolicy("off", max_tries=tries))
    start(state)
    end(state, 1, leaves="passed", stumbles="failed", behind="passed")
    assert [one.units for one in state.reruns] == repeated


def test_record_has_the_reason_of_a_retry() -> None:
    state = state_of("a", policy=LegPolicy("off", max_tries=2))
    start(state)
    end(state, 1, a="failed")
    line = decision_line(next_action(state, 1.0), 1.0, {})
    assert isinstance(line, ProcessLine)
    assert (line.reason, line.facts) == ("failure_retry", {"units": 1, "process": 1})


def test_unit_with_one_failed_case_is_retried() -> None:
    """Cases of two units that arrive in turns, as from a runner with threads."""
    state = state_of("a", "b", policy=LegPolicy("off", max_tries=2))
    start(state)
    for unit, outcome in (("a", "failed"), ("a", "passed"), ("b", "passed"), ("a", "passed")):
        state.observe(Result(unit, outcome, case="1", process=1))  # type: ignore[arg-type]
    state.observe(ProcessEndLine(1, "completed", 1))
    assert [one.units for one in state.reruns] == [(0,)]


def test_waiting_units_run_before_retries() -> None:
    state = state_of(
        "fails", PlannedUnit("later", variant="v"), policy=LegPolicy("off", max_tries=2)
    )
    start(state)
    end(state, 1, fails="failed")
    assert start(state).units == (1,)
    state.finish_for_simulation(2)
    assert start(state).units == (0,)


def test_predecessor_that_fails_in_a_retry_is_retried() -> None:
    state = state_of("a", "b", policy=LegPolicy("off", max_tries=2))
    start(state)
    end(state, 1, a="passed", b="failed")
    start(state)
    end(state, 2, a="failed", b="passed")
    assert start(state).units == (0,), "a failed once, b has passed"
    end(state, 3, a="passed")
    assert next_action(state, 1.0) == Finish("completed", Reason("all_ended"))


def test_number_of_retries_of_an_unstable_suite_is_limited() -> None:
    names = [f"u{number}" for number in range(9)]
    state = state_of(*names, policy=LegPolicy("off", max_tries=2))
    for process, bad in enumerate(reversed(names), 1):
        if not isinstance(next_action(state, 1.0), Finish):
            start(state)
            given = [names[unit] for unit in state.running[process].start.units]
            end(state, process, **{name: "failed" if name == bad else "passed" for name in given})
    assert state.started == 3, "the first, and twice as often as one unit may be tried again"


def test_unstarted_units_run_before_the_retry_of_a_crash() -> None:
    state = state_of("first", "dies", "behind", policy=LegPolicy("off", max_tries=2))
    start(state)
    state.observe(Result("first", "passed", process=1))
    state.observe(StartLine("dies", process=1, at_s=1.0))
    state.observe(Result("dies", "died", ending="crash", process=1))
    state.observe(ProcessEndLine(1, "crash", -11))
    assert start(state).units == (2,)
    state.finish_for_simulation(2)
    assert start(state).units == (0, 1)


def test_unit_that_vanishes_in_a_retry_has_its_first_result() -> None:
    state = state_of("a", policy=LegPolicy("off", max_tries=2))
    start(state)
    end(state, 1, a="failed")
    start(state)
    state.observe(ProcessEndLine(2, "completed", 5))
    assert next_action(state, 1.0) == Finish("completed", Reason("all_ended"))


@pytest.mark.parametrize(
    ("deadline_s", "after_s", "times"),
    [
        (None, 30.0, None),  # without a deadline there is always time
        (63.0, 30.0, None),  # 20 s up to the failure, 10 s to end, and a tenth more
        (62.9, 30.0, (30.0, pytest.approx(32.9))),
        (40.0, 41.0, (30.0, 0.0)),
    ],
)
def test_retry_that_would_exceed_the_deadline_is_skipped(
    deadline_s: float | None, after_s: float, times: tuple[float, float] | None
) -> None:
    """Cut off it would take results along that the first time had: failed is not incomplete."""
    policy = LegPolicy("off", max_tries=2, deadline_s=deadline_s)
    state = state_of("good", "bad", "last", policy=policy)
    start(state)
    ends = (("good", "passed", 5.0), ("bad", "failed", 20.0), ("last", "passed", 20.0))
    for unit, outcome, at_s in ends:
        state.observe(StartLine(unit, process=1, at_s=at_s))
        state.observe(Result(unit, outcome, process=1, at_s=at_s))  # type: ignore[arg-type]
    state.observe(ProcessEndLine(1, "completed", 1, 30.0))
    action = next_action(state, after_s)
    if times is None:
        assert isinstance(action, Start)
        return
    assert isinstance(action, Warn)
    assert action.reason.kind == "rerun_skipped"
    facts = action.reason.facts
    assert (facts["duration_s"], facts["remaining_s"]) == times
    state.apply(action)
    over = Finish("completed", Reason("all_ended"))
    assert next_action(state, after_s) == over


def test_failed_unit_is_retried_before_a_checkpoint() -> None:
    """A later step takes a unit with a result for done."""
    state = state_of("a", "b", step_limit_s=10.0, policy=replace(OFF, max_tries=2))
    start(state)
    state.observe(StartLine("a", process=1, at_s=0.0))
    state.observe(Result("a", "failed", process=1))
    warned = next_action(state, 11.0)
    assert isinstance(warned, Warn)
    state.apply(warned)
    state.apply(next_action(state, 11.0))
    state.observe(ProcessEndLine(1, "completed", 1))
    assert start(state, 12.0).units == (0,)
    end(state, 2, a="passed")
    reason = Reason("checkpoint", {"limit_s": 10.0, "units": 1})
    assert next_action(state, 13.0) == Finish("deadline", reason, checkpoint=True)


def test_nothing_is_retried_after_a_deadline_or_signal() -> None:
    for policy, signal in ((LegPolicy("off", max_tries=2, deadline_s=9.0), False), (OFF, True)):
        state = state_of("a", policy=replace(policy, max_tries=2))
        start(state)
        end(state, 1, a="failed")
        if signal:
            state.observe(EventLine("signal"))
        action = next_action(state, 8.0 if signal else 10.0)
        if not signal:
            facts = {"units": 1, "process": 1, "duration_s": 0.0, "remaining_s": 0.0}
            assert action == Warn(Reason("rerun_skipped", facts))
            state.apply(action)
            action = next_action(state, 10.0)
        assert isinstance(action, Finish)


def killed_for_memory(
    state: State, unit: str, process: int, *, size_mib: int, ending: str = "memory_guard"
) -> None:
    state.observe(StartLine(unit, process=process, at_s=1.0))
    line = Result(unit, "died", ending=ending, process=process)  # type: ignore[arg-type]
    state.observe(replace(line, peak_lower_bytes=size_mib * MIB))
    state.observe(ProcessEndLine(process, ending, -9, at_s=5.0))  # type: ignore[arg-type]


AUTO = LegPolicy("auto")


def test_unit_killed_for_memory_is_rerun_once_isolated() -> None:
    state = state_of("hog", "other", processes=2, budget_mib=4000, policy=AUTO)
    start(state)
    start(state)
    killed_for_memory(state, "hog", 1, size_mib=1500)
    assert next_action(state, 5.1) == Wait(7.0)
    state.finish_for_simulation(2)
    state.observe(SampleLine(5.3, headroom_bytes=8 * GIB))
    rerun = start(state, 5.4)
    assert (rerun.units, rerun.isolated) == ((0,), True)
    assert rerun.reason == Reason("memory_retry", {"process_bytes": 1500 * MIB})
    killed_for_memory(state, "hog", 3, size_mib=3900)
    assert next_action(state, 9.0) == Finish("completed", Reason("all_ended"))


def test_unit_killed_in_a_filled_process_is_rerun() -> None:
    for retained_mib, expected in ((0, []), (51, [(1,)])):
        state = state_of("fills", "hog", policy=AUTO)
        start(state)
        line = Result("fills", "passed", process=1, rss_before_bytes=50 * MIB)
        state.observe(replace(line, retained_bytes=retained_mib * MIB))
        killed_for_memory(state, "hog", 1, size_mib=800)
        assert [one.units for one in state.reruns] == expected, retained_mib


def test_each_candidate_culprit_is_rerun_isolated() -> None:
    state = state_of("a", "b", policy=AUTO)
    start(state)
    for unit in ("a", "b"):
        state.observe(StartLine(unit, process=1, at_s=1.0))
    for unit in ("a", "b"):
        state.observe(Result(unit, "died", ending="out_of_memory", process=1))
    state.observe(ProcessEndLine(1, "out_of_memory", -9, at_s=5.0))
    assert [(one.units, one.isolated) for one in state.reruns] == [((0,), True), ((1,), True)]


def test_only_units_open_at_the_crash_are_rerun_isolated() -> None:
    state = state_of("worker", "a", "b", policy=AUTO)
    start(state)
    for unit in ("worker", "a", "b"):
        state.observe(StartLine(unit, process=1, at_s=1.0))
    state.observe(Result("worker", "died", ending="crash", process=1))  # of its own, before
    for unit in ("a", "b"):
        state.observe(Result(unit, "died", ending="crash", process=1, concurrent=2))
    state.observe(ProcessEndLine(1, "crash", -9, at_s=5.0))
    assert [(one.units, one.isolated) for one in state.reruns] == [((1,), True), ((2,), True)]
    assert start(state, 9.0).reason == Reason("crash_retry", {"units": 2, "process": 1})
    state.observe(StartLine("a", process=2, at_s=9.0))
    state.observe(Result("a", "died", ending="crash", process=2, concurrent=1, try_number=2))
    state.observe(ProcessEndLine(2, "crash", -9, at_s=9.0))
    finish_all(state, start(state, 10.0).process)
    assert isinstance(next_action(state, 11.0), Finish), "once each"


def test_large_candidate_set_is_not_rerun_isolated() -> None:
    names = [str(number) for number in range(33)]
    state = state_of(*names, policy=AUTO)
    start(state)
    for unit in names:
        state.observe(Result(unit, "died", ending="crash", process=1, concurrent=33))
    state.observe(ProcessEndLine(1, "crash", -9, at_s=5.0))
    assert state.reruns == []


def test_unit_that_cannot_fit_or_was_isolated_is_not_rerun() -> None:
    large = state_of("hog", "other", processes=2, budget_mib=1000, policy=AUTO)
    start(large)
    start(large)
    killed_for_memory(large, "hog", 1, size_mib=1001)
    assert large.reruns == []
    machine = state_of("hog", "other", processes=2, policy=AUTO)
    machine.observe(ShardLine(runner=Machine(memory_bytes=1 * GIB)))
    start(machine)
    start(machine)
    killed_for_memory(machine, "hog", 1, size_mib=1025)
    assert machine.reruns == []
    alone = state_of("hog", policy=AUTO)
    start(alone)
    killed_for_memory(alone, "hog", 1, size_mib=100)
    assert alone.reruns == []
    heavy = state_of(
        PlannedUnit("hog", peak_delta_bytes=900 * MIB), "b", budget_mib=800, policy=AUTO
    )
    assert start(heavy).isolated
    killed_for_memory(heavy, "hog", 1, size_mib=700)
    assert heavy.reruns == []


def test_isolated_rerun_precedes_retries_and_is_no_try() -> None:
    state = state_of("hog", "b", processes=2, policy=LegPolicy("auto", max_tries=2))
    start(state)
    start(state)
    killed_for_memory(state, "hog", 1, size_mib=100)
    state.finish_for_simulation(2)
    assert state.reruns == [
        Rerun((0,), Reason("memory_retry", {"process_bytes": 100 * MIB}), isolated=True)
    ]


def test_next_process_waits_for_memory_of_a_killed_one() -> None:
    state = state_of("hog", PlannedUnit("next", variant="v"), policy=AUTO)
    start(state)
    killed_for_memory(state, "hog", 1, size_mib=800, ending="out_of_memory")
    assert next_action(state, 5.0) == Wait(7.0)
    state.observe(SampleLine(5.1, headroom_bytes=500 * MIB))
    assert next_action(state, 5.1) == Wait(7.0)
    state.observe(SampleLine(5.2, headroom_bytes=601 * MIB))
    assert start(state, 5.2).units == (1,)


def test_wait_for_freed_memory_is_limited() -> None:
    state = state_of("hog", PlannedUnit("next", variant="v"), policy=AUTO)
    start(state)
    killed_for_memory(state, "hog", 1, size_mib=800)
    state.observe(SampleLine(6.9, headroom_bytes=1 * MIB))
    assert start(state, 7.0).units == (1,)
    off = state_of("hog", PlannedUnit("next", variant="v"))
    start(off)
    killed_for_memory(off, "hog", 1, size_mib=800)
    assert start(off, 5.0).units == (1,), "nobody looks at memory"


def test_retry_runs_in_parallel_with_other_processes() -> None:
    """With two processes a failed one is repeated while the other still runs."""
    state = state_of("a", "b", processes=2, policy=LegPolicy("off", max_tries=2))
    start(state)
    start(state)
    end(state, 1, a="failed")
    assert start(state).units == (0,)
    finish_all(state, 3)
    finish_all(state, 2)
    assert isinstance(next_action(state, 1.0), Finish)


def test_two_reruns_of_the_same_units_both_run() -> None:
    state = state_of("a")
    start(state)
    end(state, 1, a="passed")
    reasons = [Reason("failure_retry", {"process": process}) for process in (1, 2)]
    state.reruns = [Rerun((0,), reason, 1) for reason in reasons]
    assert start(state, 1.0).reason == reasons[0]
    assert [one.reason for one in state.reruns] == reasons[1:]
