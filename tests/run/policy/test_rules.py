"""The rules of a leg, over literals: what is started, stopped, recycled, tried again, given up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run.states import GIB, OFF, finish_all, start, state_of

from ciguard.model import (
    EventLine,
    LegPolicy,
    PlannedUnit,
    ProcessEndLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
)
from ciguard.model import Runner as Machine
from ciguard.run.policy.actions import Action, Finish, Reason, Recycle, Start, Stop, Wait, Warn
from ciguard.run.policy.admission import MAX_FRUITLESS_PROCESSES
from ciguard.run.policy.guard_rail import kill_helps, memory_thresholds
from ciguard.run.policy.rules import decision_line, next_action
from ciguard.run.policy.state import (
    MIB,
    UNKNOWN_BASE_BYTES,
    UNKNOWN_DELTA_BYTES,
    predicted_peak_bytes,
)
from ciguard.run.process.ending import is_unexplained


def test_every_unit_of_one_suite_goes_into_one_process() -> None:
    state = state_of("a", "b", "c")
    first = start(state)
    assert (first.process, first.units, first.reason) == (1, (0, 1, 2), Reason("first"))
    assert first.predicted_peak_bytes == UNKNOWN_BASE_BYTES + UNKNOWN_DELTA_BYTES
    assert next_action(state, 0.0) == Wait()
    finish_all(state, 1)
    assert next_action(state, 1.0) == Finish("completed", Reason("all_ended"))


def test_suites_and_variants_never_share_a_process() -> None:
    state = state_of("a", PlannedUnit("b", suite="other"), PlannedUnit("c", variant="v"), "d")
    seen = []
    for _ in range(3):
        action = start(state)
        seen.append((action.suite, action.variant, action.units))
        state.finish_for_simulation(action.process)
    assert seen == [("", "", (0, 3)), ("other", "", (1,)), ("", "v", (2,))]


def test_two_processes_split_by_time_and_preserve_the_order() -> None:
    units = [
        PlannedUnit(name, wall_s=wall_s) for name, wall_s in zip("abcd", (1, 5, 3, 2), strict=True)
    ]
    state = state_of(*units, processes=2)
    assert start(state).units == (0, 1)
    assert start(state).units == (2, 3)


def test_equal_or_unknown_times_are_split_by_count() -> None:
    state = state_of(*"abcdef", processes=3)
    assert [len(start(state).units) for _ in range(3)] == [2, 2, 2]


def test_share_is_cut_before_its_process_exceeds_its_cap() -> None:
    units = [
        PlannedUnit(name, peak_delta_bytes=10 * MIB, retained_bytes=100 * MIB) for name in "abcdef"
    ]
    state = state_of(*units, budget_mib=500)
    first = start(state)
    assert first.units == (0, 1, 2, 3)  # base 50 + 3 retained + 10 <= 400 < 50 + 4 retained + 10
    assert first.reason.facts == {"later_units": 2, "limit_bytes": 400 * MIB}


def test_heavy_unit_runs_if_it_fits_or_isolated() -> None:
    heavy = PlannedUnit("heavy", peak_delta_bytes=440 * MIB)
    state = state_of("a", heavy, "b", processes=2, budget_mib=1000)
    first = start(state)
    assert first.units == (1,)
    assert first.reason == Reason("heavy", {"need_bytes": 490 * MIB, "free_bytes": 1000 * MIB})
    assert start(state).units == (0, 2)
    larger = state_of("a", replace(heavy, peak_delta_bytes=5000 * MIB), budget_mib=1000)
    alone = start(larger)
    assert alone.isolated
    assert alone.reason.kind == "over_budget"
    assert next_action(larger, 0.0) == Wait()


@pytest.mark.parametrize("processes", [1, 2])
def test_unit_over_half_of_the_budget_runs_isolated(processes: int) -> None:
    heavy = PlannedUnit("heavy", peak_delta_bytes=500 * MIB)
    state = state_of("a", heavy, "b", processes=processes, budget_mib=1000)
    first = start(state)
    assert (first.units, first.isolated) == ((1,), True)
    assert first.reason == Reason("heavy", {"need_bytes": 550 * MIB, "free_bytes": 1000 * MIB})
    assert next_action(state, 0.0) == Wait(), "what would fit beside it as well"
    finish_all(state, 1)
    second = start(state)
    assert (second.isolated, set(second.units) <= {0, 2}) == (False, True)


def test_large_base_memory_isolates_no_unit() -> None:
    state = state_of("a", "b", budget_mib=640)
    state.base_bytes[""] = 300 * MIB
    assert start(state).units == (0, 1)


def test_the_admitted_sum_stays_below_the_budget() -> None:
    units = [
        PlannedUnit(f"u{n}", peak_delta_bytes=(4500 if n % 3 else 770) * MIB) for n in range(20)
    ]
    state = state_of(*units, processes=4, budget_mib=8192)
    ran: list[int] = []
    while not isinstance(next_action(state, 0.0), Finish):
        while isinstance(next_action(state, 0.0), Start):
            start(state)
        held = sum(one.start.predicted_peak_bytes for one in state.running.values())
        assert held <= 8192 * MIB
        process = min(state.running)
        ran += state.running[process].start.units
        state.finish_for_simulation(process)
    assert sorted(ran) == list(range(20))


def test_process_is_recycled_before_the_budget_is_exceeded() -> None:
    units = [PlannedUnit(name, peak_delta_bytes=200 * MIB) for name in "abc"]
    state = state_of(*units, budget_mib=500)
    start(state)
    state.observe(StartLine("a", process=1, at_s=0.0))
    state.observe(Result("a", "passed", process=1, rss_before_bytes=50 * MIB, retained_bytes=0))
    assert next_action(state, 0.0) == Wait()
    state.observe(StartLine("b", process=1, at_s=1.0))
    state.observe(
        Result("b", "passed", process=1, rss_before_bytes=50 * MIB, retained_bytes=160 * MIB)
    )
    action = next_action(state, 1.0)
    sizes = {"resident_bytes": 210 * MIB, "next_bytes": 200 * MIB, "limit_bytes": 400 * MIB}
    assert action == Recycle(1, Reason("retained_memory", sizes))
    state.apply(action)
    assert next_action(state, 1.0) == Wait(), "said once"
    state.observe(ProcessEndLine(1, "completed", 2))
    assert start(state).units == (2,)


def test_unit_over_its_timeout_is_the_only_culprit() -> None:
    state = state_of(PlannedUnit("a", timeout_s=2.0), "b")
    start(state)
    state.observe(StartLine("a", process=1, at_s=1.0))
    state.observe(StartLine("b", process=1, at_s=1.0))
    assert next_action(state, 3.0) == Wait(3.0)
    action = next_action(state, 3.1)
    assert action == Stop(1, "timeout", Reason("unit_timeout", {"limit_s": 2.0}), 0)
    line = decision_line(action, 3.1, {"process-001.jsonl": 3}, state.units)
    assert isinstance(line, EventLine)
    assert (line.kind, line.unit, line.process) == ("timeout", "a", 1)
    state.apply(action)
    assert state.culprits(1) == (0,)
    state.observe(Result("a", "died", case="a", ending="timeout", process=1))
    state.observe(ProcessEndLine(1, "timeout", 2))
    assert start(state).units == (1,), "b had no part in it"


def test_process_without_a_running_unit_for_too_long_is_stopped() -> None:
    """At an import, and between two: where each of its units has a limit, and says where it is."""
    units = [PlannedUnit(f"f::{name}", timeout_s=400.0) for name in "abc"]
    state = state_of(*units, files=True)
    start(state, 10.0)
    assert next_action(state, 410.0) == Wait(410.0), "the longest limit, which is over 5 minutes"
    action = next_action(state, 410.5)
    assert action == Stop(1, "timeout", Reason("idle", {"idle_s": 400.5}))
    state.observe(StartLine("f::a", process=1, at_s=100.0))
    assert next_action(state, 499.0) == Wait(500.0), "its own limit counts"
    state.observe(Result("f::a", "passed", process=1, at_s=120.0))
    assert next_action(state, 520.0) == Wait(520.0)
    action = next_action(state, 520.1)
    assert isinstance(action, Stop)
    assert action.unit is None
    state.apply(action)
    assert not is_unexplained(state.running[1], "timeout", -15, errors=False), "the rest goes on"
    state.observe(ProcessEndLine(1, "timeout", -15))
    assert start(state, 530.0).units == (1,), "it is searched for"


def test_silence_is_unlimited_if_a_unit_has_no_timeout() -> None:
    limited = PlannedUnit("f::a", timeout_s=1.0)
    for state in (state_of(limited, "f::b", files=True), state_of(limited)):
        start(state, 0.0)
        assert next_action(state, 1e6) == Wait()


def test_process_that_is_done_and_does_not_exit_is_stopped() -> None:
    state = state_of("a", "b")
    start(state)
    state.observe(StartLine("a", process=1, at_s=0.0))
    state.observe(Result("a", "passed", process=1, at_s=1.0))
    assert next_action(state, 400.0) == Wait(), "b is still to come"
    state.observe(Result("b", "passed", process=1, at_s=400.0))
    assert next_action(state, 700.0) == Wait(700.0)
    reason = Reason("no_exit", {"waited_s": 300.0})
    assert next_action(state, 700.1) == Stop(1, "timeout", reason)
    state.apply(Stop(1, "timeout", reason))
    assert is_unexplained(state.running[1], "timeout", -15, errors=False)


@pytest.mark.parametrize(
    ("timeout_s", "waited_s"), [(None, 60.0), (300.0, 60.0), (20.0, 20.0), (0.1, 5.0)]
)
def test_thread_left_over_is_waited_for_as_long_as_a_test(
    timeout_s: float | None, waited_s: float
) -> None:
    """Also if a test is left that its session did not come to; which a process may not run."""
    units = [PlannedUnit(unit, timeout_s=timeout_s) for unit in ("f::a", "f::b")]
    state = state_of(*units, files=True)
    start(state)
    state.observe(StartLine("f::a", process=1, at_s=0.0))
    state.observe(Result("f::a", "passed", process=1, at_s=0.0))
    state.observe(EventLine("thread_left", 1.0, 1, detail="Thread-1"))
    assert next_action(state, 1.0) == Wait(1.0 + waited_s)
    stop = Stop(1, "timeout", Reason("no_exit", {"waited_s": waited_s}))
    assert next_action(state, 1.1 + waited_s) == stop
    state.apply(stop)
    state.observe(ProcessEndLine(1, "timeout", 0, 70.0))
    assert (state.suspects, state.pending, state.without_result) == ((), [], {1})


def test_unit_that_starts_a_second_time_is_waited_for() -> None:
    """As a file that two projects of Jest share: its process is not done where it was closed."""
    state = state_of("a")
    start(state)
    state.running[1].closes_units = True
    closed = EventLine("closed", process=1, unit="a", at_s=1.0)
    state.observe(StartLine("a", process=1, at_s=0.0))
    state.observe(closed)
    state.observe(StartLine("a", process=1, at_s=2.0))
    assert next_action(state, 1e4) == Wait()
    state.observe(replace(closed, at_s=1e4))
    assert next_action(state, 1e4) == Wait(1e4 + 300.0)


def test_a_signal_ends_the_leg() -> None:
    state = state_of("a", "b")
    start(state)
    state.observe(EventLine("signal"))
    action = next_action(state, 1.0)
    assert isinstance(action, Stop)
    assert action.ending == "cancelled"
    state.apply(action)
    state.observe(ProcessEndLine(1, "cancelled", 130))
    assert next_action(state, 1.0) == Finish("cancelled", Reason("cancelled"))


def test_number_of_fruitless_processes_is_limited() -> None:
    state = state_of("a")
    for number in range(1, MAX_FRUITLESS_PROCESSES + 1):
        assert start(state).process == number
        state.observe(ProcessEndLine(number, "setup_failed", 1))
    action = next_action(state, 1.0)
    assert isinstance(action, Finish)
    assert action.ending == "setup_failed"


def test_crash_without_start_lines_is_bisected() -> None:
    """No start line, no result: the culprit is the third of six."""
    state = state_of(*"abcdef")
    shares = []
    while not isinstance(action := next_action(state, 1.0), Finish):
        assert isinstance(action, Start)
        state.apply(action)
        number, units = action.process, action.units
        shares.append("".join(state.units[unit].unit for unit in units))
        dies = 2 in units
        if dies and len(units) == 1:
            assert state.culprits(number) == units
            state.observe(Result("c", "died", process=number))
        elif not dies:
            for unit in units:
                state.observe(Result(state.units[unit].unit, "passed", process=number))
        state.observe(ProcessEndLine(number, "crash" if dies else "completed", -11 if dies else 0))
    assert shares == ["abcdef", "abc", "a", "b", "c", "def"]
    assert state.fruitless_processes == 0
    assert action.ending == "completed"


def test_program_that_crashes_in_every_unit_is_abandoned() -> None:
    state = state_of(*"abcdefgh")
    sizes = []
    while not isinstance(action := next_action(state, 1.0), Finish):
        assert isinstance(action, Start)
        state.apply(action)
        sizes.append(len(action.units))
        for unit in state.culprits(action.process):
            state.observe(Result(state.units[unit].unit, "died", process=action.process))
        state.observe(ProcessEndLine(action.process, "crash", -11))
    assert action.ending == "crash"
    assert sizes == [8, 4, 2, 1, 7, 3, 1, 6, 3, 1]
    assert sizes.count(1) == MAX_FRUITLESS_PROCESSES


def test_start_without_a_time_has_no_timeout_until_the_leg_adds_it() -> None:
    state = state_of(PlannedUnit("a", timeout_s=5.0))
    start(state)
    state.observe(StartLine("a", process=1))
    assert isinstance(next_action(state, 1000.0), Wait)
    state.observe(StartLine("a", process=1, at_s=998.0))
    assert isinstance(next_action(state, 1000.0), Wait)
    assert next_action(state, 1003.5) == Stop(
        1, "timeout", Reason("unit_timeout", {"limit_s": 5.0}), 0
    )


def test_unit_without_result_after_a_clean_exit_is_not_rerun() -> None:
    state = state_of("here", "vanished")
    start(state)
    state.observe(Result("here", "passed", process=1))
    state.observe(ProcessEndLine(1, "completed", 0))
    counts = {"without_result_units": 1, "planned_units": 2}
    assert next_action(state, 1.0) == Finish("completed", Reason("incomplete", counts))


def test_clean_exits_without_results_do_not_stop_other_units() -> None:
    state = state_of(
        *(PlannedUnit("a", variant=str(n)) for n in range(MAX_FRUITLESS_PROCESSES + 1))
    )
    for number in range(1, MAX_FRUITLESS_PROCESSES + 2):
        assert start(state).process == number
        state.observe(ProcessEndLine(number, "completed", 5))
    action = next_action(state, 1.0)
    assert isinstance(action, Finish)
    assert action.reason.facts == {"without_result_units": 4, "planned_units": 4}


def test_lines_of_other_shards_or_processes_are_ignored() -> None:
    state = state_of("a", policy=LegPolicy("off", max_tries=2))
    start(state)
    state.observe(StartLine("stranger", process=1, at_s=0.0))
    state.observe(Result("stranger", "failed", process=1))
    state.observe(Result("a", "failed", process=9))
    state.observe(ProcessEndLine(9, "completed"))
    state.observe(EventLine("unavailable"))
    state.observe(SampleLine(0.0))
    state.apply(Wait())
    assert next_action(state, 0.0) == Wait()
    assert state.running[1].open_units == {}


def test_only_decisions_are_recorded() -> None:
    seen = {"process-001.jsonl": 3}
    assert decision_line(Wait(), 1.0, seen) is None
    assert decision_line(Finish("completed", Reason("all_ended")), 1.0, seen) is None
    low = Reason("memory_low", {"headroom_bytes": 1})
    assert decision_line(Warn(low), 1.0, seen) == EventLine(
        "memory_low", 1.0, lines_read=seen, reason="memory_low", facts=low.facts
    )
    assert decision_line(Recycle(2, Reason("retained_memory")), 1.0, seen) == EventLine(
        "recycled", 1.0, process=2, lines_read=seen, reason="retained_memory"
    )


def test_predicted_peak_is_base_plus_retained_plus_unit_peak() -> None:
    units = [
        PlannedUnit("a", peak_delta_bytes=300, retained_bytes=100),
        PlannedUnit("b", peak_delta_bytes=250, retained_bytes=0),
    ]
    state = state_of(*units)
    state.base_bytes[""] = 1000
    assert predicted_peak_bytes(state, (0, 1)) == 1350
    assert predicted_peak_bytes(state, (1, 0)) == 1300
    assert predicted_peak_bytes(state, ()) == 0


def test_negative_retained_memory_is_ignored() -> None:
    """`a` retained less than nothing once; that it will again is no reason to admit `c`."""
    units = [
        PlannedUnit("a", peak_delta_bytes=10 * MIB, retained_bytes=-100 * MIB),
        PlannedUnit("b", peak_delta_bytes=10 * MIB, retained_bytes=200 * MIB),
        PlannedUnit("c", peak_delta_bytes=190 * MIB),
    ]
    state = state_of(*units, budget_mib=500)
    assert start(state).units == (0, 1)
    assert predicted_peak_bytes(state, (0, 1, 2)) == (50 + 200 + 190) * MIB


sizes = st.none() | st.integers(0, 4096).map(lambda mib: mib * MIB)
planned_units = st.builds(
    PlannedUnit,
    unit=st.text(min_size=1, max_size=5),
    suite=st.sampled_from(["", "other"]),
    wall_s=st.floats(0, 1000),
    peak_delta_bytes=sizes,
    retained_bytes=sizes,
)


@given(
    units=st.lists(planned_units, max_size=15, unique_by=lambda unit: unit.key),
    processes=st.integers(1, 4),
    budget_mib=st.none() | st.integers(1, 8192),
)
def test_every_unit_runs_exactly_once_for_any_sizes(
    units: list[PlannedUnit], processes: int, budget_mib: int | None
) -> None:
    state = state_of(*units, processes=processes, budget_mib=budget_mib)
    ran: list[int] = []
    action: Action = Wait()
    for _ in range(10 * len(units) + 2):
        action = next_action(state, 0.0)
        if isinstance(action, Start):
            assert len({state.units[unit].suite for unit in action.units}) == 1
            ran += action.units
            state.apply(action)
            assert len(state.running) <= processes
        elif isinstance(action, Wait):
            state.finish_for_simulation(min(state.running))
        else:
            break
    assert action == Finish("completed", Reason("all_ended"))
    assert sorted(ran) == list(range(len(units)))


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


@pytest.mark.parametrize(
    ("rail", "headrooms_mib", "expected"),
    [
        ("auto", (9000, 9000), Wait),
        ("auto", (500, 9000), Wait),  # a hiccup
        ("auto", (590, 580), Warn),
        ("auto", (200, 100), Stop),
        ("auto", (100, 200), Warn),  # no longer falling
        ("auto", (100, 100), Warn),  # neither
        ("auto", (0, 0), Stop),  # there is nothing left that could fall
        ("auto", (31, 31), Stop),
        ("auto", (20, 30), Warn),
        ("observe", (0, 0), Warn),
        ("observe", (200, 100), Warn),
        ("enforce", (590, 580), Stop),
        ("off", (200, 100), Wait),
    ],
)
def test_action_when_memory_runs_out(
    rail: str, headrooms_mib: tuple[int, int], expected: type
) -> None:
    state = state_of("a", "b", processes=2, policy=LegPolicy(rail))  # type: ignore[arg-type]
    state.observe(ShardLine(runner=Machine(memory_bytes=8 * GIB)))
    start(state)
    start(state)
    for headroom in headrooms_mib:
        sizes = {"1": 10 * MIB, "2": 500 * MIB}
        state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
    action = next_action(state, 0.0)
    assert isinstance(action, expected)
    if isinstance(action, Stop):
        assert (action.process, action.ending) == (2, "memory_guard"), "the largest goes"
        state.apply(action)
        assert not isinstance(next_action(state, 0.0), Stop), "one at a time"


@pytest.mark.parametrize(
    ("size", "missing", "memory", "expected"),
    [
        (100, 100, 10_000, True),
        (99, 100, 10_000, False),
        (500, 10_000, 10_000, True),  # a twentieth of the machine
        (499, 10_000, 10_000, False),
        (499, 500, 0, False),  # nobody knows how large the machine is
        (500, 500, 0, True),
    ],
)
def test_kill_helps_if_it_frees_enough_memory(
    size: int, missing: int, memory: int, expected: bool
) -> None:
    assert kill_helps(size, missing, memory) == expected


@pytest.mark.parametrize(
    ("memory_mib", "low_mib", "last_ditch_mib"),
    [
        (0, 600, 256),  # nobody knows
        (512, 128, 64),
        (1024, 256, 128),
        (2048, 512, 256),
        (7168, 600, 256),
        (16384, 819.2, 256),
        (32768, 1638.4, 491.52),
    ],
)
def test_thresholds_follow_the_machine_memory(
    memory_mib: int, low_mib: float, last_ditch_mib: float
) -> None:
    found = memory_thresholds(memory_mib * MIB)
    assert found == pytest.approx((low_mib * MIB, last_ditch_mib * MIB))


def test_fitting_test_in_a_small_container_is_not_stopped() -> None:
    state = state_of("a", policy=LegPolicy("enforce"))
    state.observe(ShardLine(runner=Machine(memory_bytes=512 * MIB)))
    start(state)
    for headroom in (210, 190):
        sizes = {"1": 300 * MIB}
        state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
    assert isinstance(next_action(state, 0.0), Wait)


def test_small_process_is_not_killed_for_memory_of_others() -> None:
    state = state_of("a", policy=LegPolicy("auto"))
    state.observe(ShardLine(runner=Machine(memory_bytes=8 * GIB)))
    start(state)
    output = []
    for headroom in (500, 400, 200, 100, 50, 20):
        line = SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes={"1": 3 * MIB})
        state.observe(line)
        action = next_action(state, 0.0)
        if isinstance(action, Warn):
            output.append(action.reason)
            state.apply(action)
        else:
            assert isinstance(action, Wait)
    assert output == [
        Reason("memory_low", {"headroom_bytes": 400 * MIB, "limit_bytes": 600 * MIB}),
        Reason(
            "memory_not_reclaimable",
            {"headroom_bytes": 100 * MIB, "largest_process_bytes": 3 * MIB},
        ),
    ]


def test_a_process_that_is_being_stopped_is_not_killed_twice() -> None:
    state = state_of("a", policy=LegPolicy("enforce"))
    start(state)
    action: Action = Wait()
    for _ in range(2):
        for headroom in (200, 100):
            sizes = {"1": 900 * MIB}
            state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
        action = next_action(state, 0.0)
        if isinstance(action, (Stop, Warn)):
            state.apply(action)
    assert isinstance(action, Warn)
    assert next_action(state, 0.0) == Wait(), "warned once"
