"""What earlier legs of a shard come to, over literals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import (
    Ending,
    EventLine,
    MetricLine,
    Outcome,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.run.ended import NOTHING, OldLeg, ended, joined

if TYPE_CHECKING:
    from ciguard.model import Line


def units(*names: str) -> set[UnitKey]:
    return {UnitKey("", "", name) for name in names}


def begun(unit: str, process: int = 1, at_s: float = 1.0) -> StartLine:
    return StartLine(unit, process=process, at_s=at_s)


def done(
    unit: str,
    outcome: Outcome = "passed",
    ending: Ending = "completed",
    *,
    process: int = 1,
    case: str = "",
    at_s: float = 2.0,
) -> Result:
    return Result(unit, outcome, case=case or unit, ending=ending, process=process, at_s=at_s)


@pytest.mark.parametrize(
    ("outcome", "ending", "over"),
    [
        ("passed", "completed", True),
        ("failed", "completed", True),
        ("failed", "deadline", True),
        ("died", "crash", True),
        ("died", "timeout", True),
        ("died", "out_of_memory", True),
        ("died", "memory_guard", True),
        ("died", "deadline", False),
        ("died", "cancelled", False),
        ("died", "lost_runner", False),
    ],
)
def test_a_unit_is_over_when_its_result_is_a_verdict(
    outcome: Outcome, ending: Ending, over: bool
) -> None:
    lines: list[Line] = [begun("a"), done("a", outcome, ending), begun("b")]
    assert ended([lines]) == (units("a") if over else set())


def test_a_second_try_that_was_cut_is_not_over() -> None:
    assert ended([[begun("a"), done("a", "failed")], [begun("a", 2)]]) == set()
    assert ended([[begun("a"), done("a", "failed")], [begun("a", 2), done("a", process=2)]])


def test_what_failed_with_tries_left_runs_again_behind_what_ran_before_it() -> None:
    def leg(number: int, *lines: Line) -> OldLeg:
        return OldLeg(ShardLine("p", "01", run_id=7, run_attempt=number), {"a": lines})

    first = leg(
        1,
        *(begun("a", at_s=1.0), done("a", at_s=2.0), begun("b", at_s=3.0)),
        *(done("b", "failed", at_s=4.0), begun("c", at_s=5.0), done("c", at_s=6.0)),
        *(begun("d", at_s=7.0),),
    )
    assert joined([first]).ended == units("a", "b", "c"), "one try, and it was used"
    found = joined([first], 2)
    assert found.ended == units("c")
    assert found.again == units("a", "b")
    assert found.failed == ((UnitKey("", "", "b"), 1),)
    assert {one.unit for one in found.results()} == {"a", "b", "c"}
    for outcome in ("failed", "passed"):
        again: Outcome = outcome
        lines = (begun("b", 2, 8.0), done("b", again, process=2, at_s=9.0), begun("d", 2, 9.5))
        second = joined([first, leg(2, *lines)], 2)
        assert second.ended == units("a", "b", "c")
        assert not second.again
        third = joined([first, leg(2, *lines)], 3)
        assert [process for _, process in third.failed] == ([1, 2] if again == "failed" else [])


def test_a_unit_with_cases_is_over_where_the_next_begins_or_its_process_ends() -> None:
    cases: list[Line] = [done("a", case="1"), done("a", case="2")]
    assert ended([cases]) == set(), "there may have been a third"
    assert ended([[*cases, done("b", case="1")]]) == units("a")
    assert ended([cases, [ProcessEndLine(1, "completed")]]) == units("a")
    assert ended([cases, [ProcessEndLine(1, "crash")]]) == set()


def test_side_by_side_only_its_own_result_says_that_a_unit_is_over() -> None:
    lines: list[Line] = [
        begun("a"),
        begun("b"),
        done("a", case="a1"),
        done("b", case="b1"),
        done("b"),
    ]
    assert ended([lines]) == units("b")
    assert ended([[*lines, ProcessEndLine(1, "completed")]]) == units("a", "b")


def leg(*lines: Line, attempt: int = 1, started_at: str = "") -> OldLeg:
    header = ShardLine("p", "01", run_attempt=attempt, started_at=started_at)
    return OldLeg(header, {"process-001.jsonl": lines})


def test_nothing_before() -> None:
    assert joined([]) == NOTHING


def test_legs_that_began_anew_share_no_process_number() -> None:
    first = leg(ProcessLine(1, 2), begun("a"), done("a"), begun("b"), SampleLine(7.0))
    second = leg(ProcessLine(1, 2, at_s=1.0), begun("b", at_s=1.5), done("b", "failed"), attempt=2)
    for legs in ([first, second], [second, first]):
        found = joined(legs)
        assert (found.legs, found.processes, found.wall_s) == (2, 2, 7.0)
        assert found.ended == units("a", "b")
        assert [(one.unit, one.process) for one in found.results()] == [("a", 1), ("b", 2)]


def test_a_leg_that_holds_its_forerunner_counts_once() -> None:
    old: list[Line] = [ProcessLine(1, 2, seen={"f": 1}), begun("a"), done("a"), MetricLine("m", 1)]
    kept: list[Line] = [ProcessLine(1, 2), *old[1:]]
    own: list[Line] = [
        EventLine("resumed", 7.0, 1),
        ProcessLine(2, 1, at_s=8.0),
        begun("b", 2, 8.0),
        done("b", process=2, at_s=9.0),
    ]
    both = joined([leg(*old), leg(*kept, *own, attempt=2)])
    alone = joined([leg(*kept, *own, attempt=2)])
    assert both.lines == alone.lines == (*kept, *own[1:])
    assert both.processes == 2
    assert both.ended == units("a", "b")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=12), st.integers(0))
def test_cut_anywhere_and_gone_on_from_is_the_same_as_never_cut(
    steps: list[tuple[str, int]], at: int
) -> None:
    lines: list[Line] = []
    for number, (unit, process) in enumerate(steps):
        lines += [begun(unit, process, number), done(unit, process=process, at_s=number + 0.5)]
    cut = leg(*lines[: at % (len(lines) + 1)])
    assert joined(
        [cut, replace(leg(*lines), header=ShardLine("p", "01", run_attempt=2))]
    ).ended == (joined([leg(*lines)]).ended)
