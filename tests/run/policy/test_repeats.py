"""Repeats of new and changed units after the end of a leg: which, how often, in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from run.policy.test_probes import execute
from run.states import OFF, finish_all, start, state_of

from ciguard.model import (
    Ending,
    EndLine,
    EventLine,
    LegPolicy,
    PlannedUnit,
    Prediction,
    ProcessEndLine,
    Result,
    Shard,
    StartLine,
    Suite,
)
from ciguard.run.policy.actions import Finish, Start, Stop
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State

REPEATING = replace(OFF, repeat_until_s=100.0)


def new(name: str, change: str = "new", wall_s: float = 1.0) -> PlannedUnit:
    return PlannedUnit(name, change=change, wall_s=wall_s)


def repeats(
    state: State, bad: Iterable[str] = (), *, ending: Ending = "completed"
) -> list[tuple[str, ...]]:
    """Execute the leg, whose processes take 2 s and 1 s for each unit, and all its repeats."""
    now_s = max(10.0, 2 + len(state.units))
    execute(state, set(bad))
    state.observe(EndLine(ending, now_s, 0))
    if state.extra.repeatable:
        state.observe(EventLine("repeating", now_s))
    executed = []
    while isinstance(next_action(state, now_s), Start):
        executed.append(execute(state, set(), now_s))
        now_s += 2 + len(executed[-1])
    assert isinstance(next_action(state, now_s), Finish)
    return executed


def test_alone_and_after_its_file_in_turn() -> None:
    units = [new("f::a", ""), new("g::b", ""), new("g::c", "", 0.5), new("g::d")]
    state = state_of(*units, policy=REPEATING, files=True)
    executed = repeats(state)
    alone, after = ("g::d",), ("g::b", "g::c", "g::d")
    assert executed == [alone, after] * (len(executed) // 2) + [alone] * (len(executed) % 2)
    # 90 s for pairs of 3 and 5 s; a tenth more than its last time has to be left for each.
    assert len(executed) == 22


def test_neighbours_take_no_longer_than_the_test_alone() -> None:
    units = [new("g::long", "", 9.0), new("g::short", "", 1.0), new("g::d")]
    assert repeats(state_of(*units, policy=REPEATING, files=True))[1] == ("g::short", "g::d")


@pytest.mark.parametrize(
    ("until_s", "expected"),
    [
        (10.0, []),
        (26.9, []),  # five times 3 s and a tenth more are 16.5 s
        (27.1, ["a"] * 5),
        (43.9, [*"aaaaa", *"bbbbb", "a"]),
        (47.0, [*"aaaaa", *"bbbbb", "a", "b"]),
    ],
)
def test_each_has_its_least_number_of_repeats_or_none(until_s: float, expected: list[str]) -> None:
    state = state_of(new("a"), new("b", "changed"), policy=replace(OFF, repeat_until_s=until_s))
    assert [unit for (unit,) in repeats(state)] == expected


def test_most_repeats() -> None:
    state = state_of(new("a"), policy=replace(OFF, repeat_until_s=1e4))
    assert len(repeats(state)) == 50


@pytest.mark.parametrize(
    ("unit", "bad", "ending", "suite", "policy"),
    [
        (new("a", ""), (), "completed", Suite("any", ("any",)), REPEATING),
        (new("a"), ("a",), "completed", Suite("any", ("any",)), REPEATING),
        (new("a"), (), "deadline", Suite("any", ("any",)), REPEATING),
        (new("a"), (), "completed", Suite("any", ("any",), is_script=True), REPEATING),
        (new("a"), (), "completed", Suite("any", ("any",), results=("*.xml",)), REPEATING),
        (new("a"), (), "completed", Suite("any", ("any",)), OFF),
    ],
)
def test_units_that_are_not_repeated(
    unit: PlannedUnit, bad: tuple[str, ...], ending: Ending, suite: Suite, policy: LegPolicy
) -> None:
    assert repeats(state_of(unit, policy=policy, suite=suite), bad, ending=ending) == []


@pytest.mark.parametrize(("timeout_s", "limit_s"), [(None, 20.0), (5.0, 5.0)])
def test_repeat_that_does_not_end_has_failed(timeout_s: float | None, limit_s: float) -> None:
    unit = replace(new("a"), timeout_s=timeout_s)
    state = state_of(unit, policy=REPEATING)
    execute(state, set())
    state.observe(EndLine("completed", 10.0, 0))
    state.observe(EventLine("repeating", 10.0))
    given = start(state, 10.0)
    state.observe(StartLine("a", process=given.process, at_s=11.0))
    assert not isinstance(next_action(state, 11.0 + limit_s), Stop)
    action = next_action(state, 11.1 + limit_s)
    assert isinstance(action, Stop)
    assert (action.ending, action.unit) == ("timeout", 0)
    state.apply(action)
    state.observe(Result("a", "died", ending="timeout", process=given.process, at_s=40.0))
    state.observe(ProcessEndLine(given.process, "timeout", -15, 40.0))
    (repeated,) = state.extra.repeated
    assert (repeated.ended, repeated.failed, state.reruns) == (1, 1, [])


def test_new_tests_come_before_changed_ones() -> None:
    units = [new("cheap", "changed", 0.1), new("new")]
    state = state_of(*units, policy=replace(OFF, repeat_until_s=30.0))
    assert set(repeats(state)) == {("new",)}


def test_time_for_five_more_goes_to_a_further_test() -> None:
    policy = replace(OFF, repeat_until_s=42.5)  # 32 s, of which 5 repeats take 15
    assert repeats(state_of(new("a"), new("b"), policy=policy)) == [("a",)] * 5 + [("b",)] * 5


def test_deadline_of_the_job_ends_repeats() -> None:
    policy = replace(REPEATING, deadline_s=30.0, probe_s=50.0)
    assert len(repeats(state_of(new("a"), policy=policy))) == 6


def test_listed_units_without_a_plan_are_new_in_changed_files() -> None:
    policy = replace(REPEATING, lists=True, repeat_unplanned=2, repeat_files=("f",))
    state = state_of("f::known", policy=policy, files=True)
    state.apply(start(state))
    listed = ("f::known", "f::one", "moved::was", "f::two", "f::three")
    for name in listed:
        state.observe(EventLine("listed", 1.0, 1, unit=name))
    state.observe(EventLine("listing", 1.0, 1))
    assert {unit.unit for unit in state.units if unit.change == "new"} == {"f::one", "f::two"}


def test_test_of_another_shard_is_repeated_where_it_ran() -> None:
    shard = Shard("01", "p", (PlannedUnit("a"),), Prediction(1, 1))
    suites, others = {"": Suite("any", ("any",))}, {"02.1": (new("b"),)}
    state = State(shard, suites, REPEATING, others_blocks=others)
    for kind in ("claimed", "claims_ended"):
        execute(state, set())
        state.apply(next_action(state, 3.0))
        state.observe(EventLine(kind, 3.0, block="02.1"))
    state.observe(EndLine("completed", 10.0, 0))
    assert [state.units[unit].unit for unit in state.extra.repeatable] == ["b"]


def test_process_that_ends_before_the_unit_is_no_repeat() -> None:
    """The unit before it dies in each repeat: only the repeats alone count."""
    state = state_of(new("g::a", "", 0.5), new("g::b"), policy=REPEATING, files=True)
    execute(state, set())
    state.observe(EndLine("completed", 10.0, 0))
    state.observe(EventLine("repeating", 10.0))
    for number in range(10):
        given = start(state, 10.0 + number)
        if len(given.units) == 1:
            finish_all(state, given.process)
        else:
            died = Result("g::a", "died", ending="crash", process=given.process, at_s=11.0 + number)
            state.observe(died)
            state.observe(ProcessEndLine(given.process, "crash", 3, 11.0 + number))
    (repeated,) = state.extra.repeated
    assert (repeated.started, repeated.ended, repeated.failed) == (10, 5, 0)
