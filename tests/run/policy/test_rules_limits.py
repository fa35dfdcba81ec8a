"""The limits of a step and of a leg, over literals: what still runs, and what is stopped."""

from __future__ import annotations

from dataclasses import replace

from run.states import OFF, finish_all, start, state_of

from ciguard.model import (
    EventLine,
    LegPolicy,
    PlannedUnit,
    ProcessEndLine,
    Result,
    SampleLine,
    StartLine,
)
from ciguard.run.policy.actions import Finish, Reason, Recycle, Stop, Wait, Warn
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import (
    MIB,
)


def test_after_the_step_limit_nothing_starts_and_nothing_is_stopped() -> None:
    state = state_of("a", "b", "c", "d", "e", processes=2, step_limit_s=10.0)
    assert start(state).units == (0, 2, 4)
    assert start(state).units == (1, 3)
    state.observe(StartLine("a", process=1, at_s=1.0))
    state.observe(StartLine("d", process=2, at_s=1.0))
    state.observe(Result("b", "passed", case="b", process=2))
    assert next_action(state, 9.9) == Wait(10.0)
    output = next_action(state, 10.0)
    assert output == Warn(Reason("checkpoint", {"limit_s": 10.0, "units": 2}))
    state.apply(output)
    first = next_action(state, 10.0)
    assert first == Recycle(1, Reason("checkpoint", {"limit_s": 10.0, "units": 2}))
    state.apply(first)
    assert next_action(state, 10.0) == Wait(20.0), "the other one is at its last unit"
    state.observe(Result("a", "passed", case="a", process=1))
    state.observe(ProcessEndLine(1, "completed", 2))
    state.observe(Result("d", "passed", case="d", process=2))
    state.observe(ProcessEndLine(2, "completed", 0))
    reason = Reason("checkpoint", {"limit_s": 10.0, "units": 2})
    assert next_action(state, 12.0) == Finish("deadline", reason, checkpoint=True)


def test_step_limit_changes_nothing_if_no_unit_is_left() -> None:
    state = state_of("a", step_limit_s=10.0)
    start(state)
    state.observe(StartLine("a", process=1, at_s=1.0))
    assert next_action(state, 11.0) == Wait(20.0)
    finish_all(state, 1)
    assert next_action(state, 12.0) == Finish("completed", Reason("all_ended"))


def test_unit_over_twice_the_step_limit_is_rerun_once() -> None:
    state = state_of("a", step_limit_s=10.0)
    start(state)
    state.observe(StartLine("a", process=1, at_s=1.0))
    output = next_action(state, 20.0)
    assert output == Warn(Reason("checkpoint", {"limit_s": 10.0, "units": 0}))
    state.apply(output)
    stop = next_action(state, 20.0)
    why = Reason("checkpoint_grace", {"limit_s": 10.0})
    assert stop == Stop(1, "deadline", why, checkpoint=True)
    state.apply(stop)
    state.observe(Result("a", "died", case="a", ending="deadline", process=1))
    state.observe(ProcessEndLine(1, "deadline", -2))
    reason = Reason("checkpoint", {"limit_s": 10.0, "units": 1})
    assert next_action(state, 21.0) == Finish("deadline", reason, checkpoint=True)
    grace = state_of("a", step_limit_s=10.0, policy=replace(OFF, deadline_s=99.0))
    grace.observe(EventLine("grace_used", 0.0))
    start(grace)
    grace.observe(StartLine("a", process=1, at_s=1.0))
    assert next_action(grace, 20.0) == Wait(99.0)


def test_process_that_ignores_the_stop_file_has_the_same_limit() -> None:
    state = state_of("a", "b", "c", "d", step_limit_s=100.0)
    start(state)
    state.observe(StartLine("a", process=1, at_s=1.0))
    for _ in range(2):
        state.apply(next_action(state, 100.0))
    state.observe(StartLine("b", process=1, at_s=104.0))
    state.observe(StartLine("c", process=1, at_s=106.0))
    assert next_action(state, 106.0) == Wait(200.0)
    why = Reason("checkpoint_grace", {"limit_s": 100.0})
    assert next_action(state, 200.0) == Stop(1, "deadline", why, checkpoint=True)


def test_timeouts_and_memory_limits_apply_after_the_step_limit() -> None:
    state = state_of(PlannedUnit("a", timeout_s=20.0), "b", step_limit_s=10.0)
    start(state)
    state.observe(StartLine("a", process=1, at_s=1.0))
    for _ in range(2):
        state.apply(next_action(state, 11.0))
    assert next_action(state, 11.0) == Wait(20.0)
    assert next_action(state, 22.0) == Stop(
        1, "timeout", Reason("unit_timeout", {"limit_s": 20.0}), 0
    )
    low = state_of("a", "b", step_limit_s=10.0, policy=LegPolicy("auto"))
    start(low)
    low.observe(StartLine("a", process=1, at_s=1.0))
    low.apply(next_action(low, 11.0))
    for _ in range(2):
        low.observe(SampleLine(11.0, headroom_bytes=500 * MIB))
    warned = next_action(low, 11.0)
    assert isinstance(warned, Warn)
    assert warned.reason.kind == "memory_low", "the checkpoint does not silence it"


def test_resumed_leg_counts_limits_from_its_step() -> None:
    state = state_of("a", policy=replace(OFF, deadline_s=30.0), step_limit_s=10.0)
    state.observe(EventLine("resumed", 1000.0, process=4))
    assert start(state, 1000.5).process == 5
    assert next_action(state, 1001.0) == Wait(1010.0)
    state.observe(StartLine("a", process=5, at_s=1001.0))
    assert next_action(state, 1011.0) == Wait(1020.0)
    assert next_action(state, 1030.0) == Stop(5, "deadline", Reason("deadline", {"limit_s": 30.0}))


def test_the_deadline_stops_everything_and_starts_nothing() -> None:
    state = state_of("a", "b", processes=2, policy=LegPolicy("off", deadline_s=10.0))
    start(state)
    assert next_action(state, 11.0) == Stop(1, "deadline", Reason("deadline", {"limit_s": 10.0}))
    state.apply(next_action(state, 11.0))
    assert next_action(state, 11.0) == Wait()
    state.observe(ProcessEndLine(1, "deadline", -15))
    assert isinstance(next_action(state, 12.0), Finish)
