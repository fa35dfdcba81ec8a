"""Extra tries of new failures after the end of a leg: which, in which order, within which time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from run.states import OFF, start, state_of

from ciguard.model import Ending, EndLine, PlannedUnit, ProcessEndLine, Result, StartLine, Suite
from ciguard.run.policy.actions import Finish, Start, Stop
from ciguard.run.policy.reruns import MAX_PROBED
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State

PROBING = replace(OFF, probe_s=100.0)


def execute(state: State, bad: set[str], at_s: float = 0.0, unit_s: float = 1.0) -> tuple[str, ...]:
    """Execute the next process: a second to start, one for each unit, and one to end."""
    given = start(state, at_s)
    units = tuple(state.units[unit].unit for unit in given.units)
    for number, unit in enumerate(units):
        began_s = at_s + 1 + number * unit_s
        state.observe(StartLine(unit, process=given.process, at_s=began_s))
        outcome = "failed" if unit in bad else "passed"
        state.observe(Result(unit, outcome, process=given.process, at_s=began_s + unit_s))  # type: ignore[arg-type]
    state.observe(ProcessEndLine(given.process, "completed", 0, at_s + 2 + len(units) * unit_s))
    return units


def ended(state: State, bad: set[str], at_s: float = 10.0, ending: Ending = "completed") -> State:
    """The state after the leg's first process and its end."""
    execute(state, bad)
    state.observe(EndLine(ending, at_s, 10))
    return state


def tries(state: State, fails: Callable[[tuple[str, ...]], bool]) -> list[tuple[str, ...]]:
    """Execute all extra tries; the last unit of a process fails as `fails` says."""
    executed = []
    while isinstance(action := next_action(state, 20.0), Start):
        units = tuple(state.units[unit].unit for unit in action.units)
        executed.append(execute(state, {units[-1]} if fails(units) else set(), 20.0))
    assert isinstance(action, Finish)
    return executed


@pytest.mark.parametrize("culprit", [None, *"abcdefg"])
def test_order_is_found_by_halving(culprit: str | None) -> None:
    """None: it fails after all of them only, so that no unit alone is named."""
    names = "abcdefg"
    state = ended(state_of(*names, "x", policy=PROBING), {"x"})
    executed = tries(state, lambda units: len(units) == 8 if culprit is None else culprit in units)
    (failure,) = state.extra.probed
    assert (state.tries, state.failures) == (dict.fromkeys(range(8), 1), {7: 1})
    assert executed[:2] == [("x",), (*names, "x")]
    assert failure.after == (None if culprit is None else names.index(culprit))
    assert len(executed) <= 2 + 2 * 3


def test_retry_counts_as_the_try_after_its_predecessors() -> None:
    state = state_of("a", "b", policy=replace(PROBING, max_tries=2))
    execute(state, {"b"})
    assert ended(state, {"b"}).extra.probed[0].again
    assert tries(state, lambda _: True) == [("b",)]


def test_tries_alone_come_first_the_shortest_first() -> None:
    state = state_of("slow", "quick", policy=PROBING)
    start(state)
    times = (("slow", 1.0, 9.0), ("quick", 9.0, 9.5))
    for unit, began_s, ended_s in times:
        state.observe(StartLine(unit, process=1, at_s=began_s))
        state.observe(Result(unit, "failed", process=1, at_s=ended_s))
    state.observe(ProcessEndLine(1, "completed", 1, 10.0))
    state.observe(EndLine("completed", 10.0, 10))
    assert tries(state, lambda _: True) == [("quick",), ("slow",), ("slow", "quick")]


@pytest.mark.parametrize(
    ("probe_s", "spent_s", "expected"),
    [
        (None, 1000.0, []),  # turned off
        (3.2, 10.0, []),  # alone it takes 3 s, and a tenth more
        (3.3, 10.0, [("c",)]),
        (0.0, 1000.0, [("c",), ("a", "b", "c")]),  # a twentieth of the leg's own time
    ],
)
def test_tries_that_do_not_fit_are_left_out(
    probe_s: float | None, spent_s: float, expected: list[tuple[str, ...]]
) -> None:
    state = ended(state_of("a", "b", "c", policy=replace(OFF, probe_s=probe_s)), {"c"}, spent_s)
    executed = []
    now_s = spent_s
    while isinstance(next_action(state, now_s), Start):
        executed.append(execute(state, {"c"}, now_s))
        now_s += 2 + len(executed[-1])
    assert executed == expected


def test_result_without_a_time_is_as_long_as_its_process() -> None:
    state = state_of("a", policy=replace(OFF, probe_s=4.9))
    start(state)
    state.observe(Result("a", "failed", process=1))
    state.observe(ProcessEndLine(1, "completed", 1, 5.0))
    state.observe(EndLine("completed", 5.0, 10))
    assert not state.extra.probed


def test_try_that_takes_too_long_is_stopped_without_an_answer() -> None:
    state = ended(state_of("a", policy=replace(OFF, probe_s=4.0)), {"a"})
    start(state, 10.0)
    state.observe(StartLine("a", process=2, at_s=11.0))
    assert not isinstance(next_action(state, 13.9), Stop)
    action = next_action(state, 14.0)
    assert isinstance(action, Stop)
    state.apply(action)
    state.observe(Result("a", "died", ending="deadline", process=2, at_s=14.0))
    state.observe(ProcessEndLine(2, "deadline", -15, 14.1))
    assert isinstance(next_action(state, 14.1), Finish)
    assert state.extra.probed[0].alone is None


@pytest.mark.parametrize(
    ("unit", "ending", "suite"),
    [
        (PlannedUnit("a", fails_on_base=True), "completed", Suite("any", ("any",))),
        (PlannedUnit("a"), "deadline", Suite("any", ("any",))),
        (PlannedUnit("a"), "completed", Suite("any", ("any",), is_script=True)),
        (PlannedUnit("a"), "completed", Suite("any", ("any",), results=("*.xml",))),
    ],
)
def test_failures_without_tries(unit: PlannedUnit, ending: Ending, suite: Suite) -> None:
    state = state_of(unit, policy=PROBING, suite=suite)
    assert isinstance(next_action(ended(state, {"a"}, ending=ending), 20.0), Finish)


def test_unit_that_died_of_memory_is_not_tried() -> None:
    state = state_of("hog", policy=PROBING)
    start(state)
    state.observe(StartLine("hog", process=1, at_s=0.0))
    state.observe(Result("hog", "died", ending="out_of_memory", process=1, at_s=1.0))
    state.observe(ProcessEndLine(1, "out_of_memory", -9, 1.0))
    state.observe(EndLine("completed", 10.0, 10))
    assert isinstance(next_action(state, 10.0), Finish)


def test_number_of_tried_units_is_limited() -> None:
    names = [f"u{number}" for number in range(MAX_PROBED + 5)]
    state = ended(state_of(*names, policy=PROBING), set(names), 1e5)
    assert len(state.extra.probed) == MAX_PROBED
