"""What earlier legs of a shard come to, over literals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import (
    Ending,
    EventLine,
    Line,
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
from ciguard.run.resume import NO_PRIOR_LEGS, PriorLeg, finished_units, merge_legs


def units(*names: str) -> set[UnitKey]:
    return {UnitKey("", "", name) for name in names}


def start_line(unit: str, process: int = 1, at_s: float = 1.0) -> StartLine:
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
def test_unit_is_finished_if_its_result_is_final(
    outcome: Outcome, ending: Ending, over: bool
) -> None:
    lines: list[Line] = [start_line("a"), done("a", outcome, ending), start_line("b")]
    assert finished_units([lines]) == (units("a") if over else set())


def test_unit_with_an_interrupted_retry_is_unfinished() -> None:
    assert finished_units([[start_line("a"), done("a", "failed")], [start_line("a", 2)]]) == set()
    assert finished_units(
        [[start_line("a"), done("a", "failed")], [start_line("a", 2), done("a", process=2)]]
    )


def test_failed_units_with_tries_left_run_again_alone() -> None:
    def leg(number: int, *lines: Line) -> PriorLeg:
        return PriorLeg(ShardLine("p", "01", run_id=7, run_attempt=number), {"a": lines})

    first = leg(
        1,
        *(start_line("a", at_s=1.0), done("a", at_s=2.0), start_line("b", at_s=3.0)),
        *(done("b", "failed", at_s=4.0), start_line("c", at_s=5.0), done("c", at_s=6.0)),
        *(start_line("d", at_s=7.0),),
    )
    assert merge_legs([first]).finished == units("a", "b", "c"), "one try, and it was used"
    found = merge_legs([first], 2)
    assert found.finished == units("a", "c")
    assert found.failed == ((UnitKey("", "", "b"), 1),)
    assert {one.unit for one in found.results()} == {"a", "b", "c"}
    for outcome in ("failed", "passed"):
        rerun: Outcome = outcome
        lines = (
            start_line("b", 2, 8.0),
            done("b", rerun, process=2, at_s=9.0),
            start_line("d", 2, 9.5),
        )
        second = merge_legs([first, leg(2, *lines)], 2)
        assert second.finished == units("a", "b", "c")
        assert not second.failed
        third = merge_legs([first, leg(2, *lines)], 3)
        assert [process for _, process in third.failed] == ([1, 2] if rerun == "failed" else [])


def test_unit_with_cases_ends_with_the_next_unit_or_its_process() -> None:
    cases: list[Line] = [done("a", case="1"), done("a", case="2")]
    assert finished_units([cases]) == set(), "there may have been a third"
    assert finished_units([[*cases, done("b", case="1")]]) == units("a")
    assert finished_units([cases, [ProcessEndLine(1, "completed")]]) == units("a")
    assert finished_units([cases, [ProcessEndLine(1, "crash")]]) == set()


def test_concurrent_unit_is_finished_only_by_its_result() -> None:
    lines: list[Line] = [
        start_line("a"),
        start_line("b"),
        done("a", case="a1"),
        done("b", case="b1"),
        done("b"),
    ]
    assert finished_units([lines]) == units("b")
    assert finished_units([[*lines, ProcessEndLine(1, "completed")]]) == units("a", "b")


def leg(*lines: Line, attempt: int = 1, started_at: str = "") -> PriorLeg:
    header = ShardLine("p", "01", run_attempt=attempt, started_at=started_at)
    return PriorLeg(header, {"process-001.jsonl": lines})


def test_no_prior_legs() -> None:
    assert merge_legs([]) == NO_PRIOR_LEGS


def test_restarted_legs_share_no_process_number() -> None:
    first = leg(ProcessLine(1, 2), start_line("a"), done("a"), start_line("b"), SampleLine(7.0))
    second = leg(
        ProcessLine(1, 2, at_s=1.0), start_line("b", at_s=1.5), done("b", "failed"), attempt=2
    )
    for legs in ([first, second], [second, first]):
        found = merge_legs(legs)
        assert (found.legs, found.processes, found.wall_s) == (2, 2, 7.0)
        assert found.finished == units("a", "b")
        assert [(one.unit, one.process) for one in found.results()] == [("a", 1), ("b", 2)]


def test_leg_that_includes_its_predecessor_counts_once() -> None:
    old: list[Line] = [
        ProcessLine(1, 2, lines_read={"f": 1}),
        start_line("a"),
        done("a"),
        MetricLine("m", 1),
    ]
    stored: list[Line] = [ProcessLine(1, 2), *old[1:]]
    own: list[Line] = [
        EventLine("resumed", 7.0, 1),
        ProcessLine(2, 1, at_s=8.0),
        start_line("b", 2, 8.0),
        done("b", process=2, at_s=9.0),
    ]
    both = merge_legs([leg(*old), leg(*stored, *own, attempt=2)])
    alone = merge_legs([leg(*stored, *own, attempt=2)])
    assert both.lines == alone.lines == (*stored, *own[1:])
    assert both.processes == 2
    assert both.finished == units("a", "b")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=12), st.integers(0))
def test_resumed_leg_equals_an_uninterrupted_one(steps: list[tuple[str, int]], at: int) -> None:
    lines: list[Line] = []
    for number, (unit, process) in enumerate(steps):
        lines += [start_line(unit, process, number), done(unit, process=process, at_s=number + 0.5)]
    cut = leg(*lines[: at % (len(lines) + 1)])
    assert merge_legs(
        [cut, replace(leg(*lines), header=ShardLine("p", "01", run_attempt=2))]
    ).finished == (merge_legs([leg(*lines)]).finished)
