"""Each reader of a record takes the results for final that `model/attempts.py` says are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from guard.fixtures import make_plan
from hypothesis import given
from hypothesis import strategies as st

from ciguard.compare.run_columns import Run, from_history, runs_from_records
from ciguard.errors import ExitCode
from ciguard.export.junit_writer import combinations
from ciguard.guard.prove import prove
from ciguard.history.file import CODE_NAMES as WORDS_OF_CODES
from ciguard.history.ingest import history_of
from ciguard.history.query import BaseQuery, is_censored, known_failures
from ciguard.model import (
    CaseKey,
    EndLine,
    ProcessEndLine,
    Record,
    Result,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.model.attempts import UnitResult, classify_result, last_starts, resolve_units, severity
from ciguard.run.policy.leg_verdict import LegVerdict, Tally, judge_leg
from ciguard.run.resume import PriorLeg, finished_units, merge_legs

UNITS = ("a", "b")
PLAN = make_plan({"01": UNITS})
HEADER = ShardLine(
    PLAN.id, "01", run_id=1, run_attempt=1, branch="main", event="push", job="t (01)"
)
END = EndLine("completed", at_s=9.0, exit_code=0)
WORDS: list[tuple[Any, Any]] = [
    *[("passed", "completed"), ("skipped", "completed"), ("passed", "deadline")],
    *[("failed", "completed"), ("errored", "completed"), ("failed", "deadline")],
    *[("died", "crash"), ("died", "out_of_memory"), ("died", "deadline")],
]


def record_of(results: Iterable[Result], starts: Iterable[StartLine] = ()) -> Record:
    return Record("r", HEADER, starts=tuple(starts), results=tuple(results), end=END)


def crash_and_retry() -> Record:
    """The unit crashed after 10 s; in the next process its cases took 1 s each."""
    return record_of(
        [
            Result("a", "died", case="a", ending="crash", process=1, wall_s=10.0),
            *(Result("a", "passed", case=case, process=2, wall_s=1.0) for case in ("c1", "c2")),
            Result("b", "passed", case="b", process=2, wall_s=1.0),
        ]
    )


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Of a leg that ran units in up to three processes, some of them again; times are unique."""
    found = []
    for number in range(draw(st.integers(1, 8))):
        unit = draw(st.sampled_from(UNITS))
        outcome, ending = draw(st.sampled_from(WORDS))
        found.append(
            Result(
                unit,
                outcome,
                case=draw(st.sampled_from([unit, "c1", "c2"])),
                ending=ending,
                process=draw(st.integers(1, 3)),
                try_number=draw(st.integers(1, 2)),
                reruns=draw(st.sampled_from([None, None, 1])),
                concurrent=draw(st.sampled_from([None, 2])),
                wall_s=float(number),
            )
        )
    starts = {(one.unit, one.process) for one in found}
    if draw(st.booleans()):
        starts.add((draw(st.sampled_from(UNITS)), draw(st.integers(1, 4))))
    return record_of(found, [StartLine(unit, process=process) for unit, process in sorted(starts)])


def units_of(record: Record) -> Mapping[UnitKey, UnitResult]:
    return resolve_units(record.results, last_starts(record.starts))


def finals(record: Record) -> list[Result]:
    return [one for unit in units_of(record).values() for one in unit.cases]


def in_order(results: Iterable[Result]) -> Sequence[Result]:
    return sorted(results, key=lambda one: (one.key, one.wall_s))


@given(records())
def test_guard_agrees_with_resolved_attempts(record: Record) -> None:
    verdict, units = prove(PLAN, [record]), units_of(record)
    bad = [one for one in finals(record) if classify_result(one) == "bad"]
    assert in_order(one.result for one in verdict.failures) == in_order(bad)
    assert sum(verdict.counts.values()) == len(finals(record))
    assert {one.key for one in verdict.flaky} == {key for key in units if units[key].is_flaky}
    out_of_memory_value = {key for key in units if units[key].passed_after_oom}
    assert {one.key for one in verdict.passed_after_oom} == out_of_memory_value
    wanted = {UnitKey("", "", unit) for unit in UNITS}
    done = {key for key in units if units[key].status != "unfinished"}
    assert {one.key for one in verdict.missing} == wanted - done


@given(records())
def test_export_agrees_with_resolved_attempts(record: Record) -> None:
    verdict = prove(PLAN, [record])
    cases = [case for one in combinations(PLAN, [record], None, verdict) for case in one.cases]
    results = [case.result for case in cases if case.result is not None]
    assert in_order(results) == in_order(finals(record))


def rows_of(run: Run) -> list[tuple[CaseKey, str, str, float]]:
    """Case, outcome, ending and time, by case."""
    words = [
        [WORDS_OF_CODES[name][code] for code in getattr(run, name).tolist()]
        for name in ("outcome", "ending")
    ]
    return list(zip(run.keys, *words, run.wall_s.tolist(), strict=True))


def expected_rows(record: Record) -> list[tuple[CaseKey, str, str, float | None]]:
    return [(one.key, one.outcome, one.ending, one.wall_s) for one in in_order(finals(record))]


def failed_attempts(record: Record) -> dict[CaseKey, int]:
    units = units_of(record).values()
    return {key: count for unit in units for key, count in unit.count_failed_attempts().items()}


def flaky_cases(record: Record) -> list[CaseKey]:
    good = {one.key for one in finals(record) if classify_result(one) == "good"}
    return sorted(good & failed_attempts(record).keys())


READERS = [
    pytest.param(lambda record: runs_from_records([record], "run")[0], id="record"),
    pytest.param(lambda record: from_history(history_of([record]), 0), id="history"),
]


@pytest.mark.parametrize("read", READERS)
@given(record=records())
def test_readers_agree_on_the_final_results(read: Callable[[Record], Run], record: Record) -> None:
    run = read(record)
    assert rows_of(run) == expected_rows(record)
    assert list(run.flaky) == flaky_cases(record)


@given(records())
def test_history_agrees_with_resolved_attempts(record: Record) -> None:
    history = history_of([record])
    units = units_of(record)
    times = zip(history.values.key.tolist(), history.values.wall_s.tolist(), strict=True)
    assert {history.keys[at]: wall_s for at, wall_s in times} == {
        case.key: case.wall_s for unit in units.values() for case in unit.cases
    }
    stopped = {
        case.key
        for unit in units.values()
        for case in unit.cases
        if case.outcome == "died" or case.ending != "completed"
    }
    assert {history.keys[at] for at in history.values.key[is_censored(history.values)]} == stopped
    tries = dict(zip(history.keys, (history.values.try_number - 1).tolist(), strict=True))
    assert {key: count for key, count in tries.items() if count} == failed_attempts(record)


def test_history_resolves_a_retried_crash() -> None:
    history = history_of([crash_and_retry()])
    assert history.values.wall_s.tolist() == [1.0, 1.0, 1.0]
    assert not is_censored(history.values).any()
    known, _ = known_failures(history, BaseQuery("main"))
    assert known == {}, "nothing died on the base that could excuse a crash"


@given(records(), records())
def test_worst_result_of_two_legs_counts(one: Record, two: Record) -> None:
    other = replace(two, source="s", header=replace(HEADER, shard="02", job="t (02)"))
    (run,) = runs_from_records([one, other], "run")
    found = from_history(history_of([one, other]), 0)
    worst = {
        key: max((case for case in finals(one) + finals(two) if case.key == key), key=severity)
        for key in {case.key for case in finals(one) + finals(two)}
    }
    expected = [(key, worst[key].outcome, worst[key].ending) for key in sorted(worst)]
    for each in (run, found):
        assert [row[:3] for row in rows_of(each)] == expected
        assert {key for key in each.flaky if classify_result(worst[key]) != "good"} == set()
    assert run.flaky == found.flaky


def verdict_of(tally: Tally) -> LegVerdict:
    return judge_leg(tally, PLAN.shards[0].units, "completed")


def agrees(found: LegVerdict, units: Mapping[UnitKey, UnitResult]) -> None:
    """Check that a leg's answer is what these units come to, and those without a result."""
    cases = [one for unit in units.values() for one in unit.cases]
    assert sum(found.counts.values()) == len(cases)
    assert in_order(found.bad) == in_order(one for one in cases if classify_result(one) != "good")
    assert set(found.flaky) == {key for key in units if units[key].is_flaky}
    assert set(found.passed_after_oom) == {key for key in units if units[key].passed_after_oom}
    assert set(found.missing) >= {UnitKey("", "", unit) for unit in UNITS} - units.keys()
    statuses = {unit.status for unit in units.values()}
    code = ExitCode.TESTS_FAILED if "bad" in statuses else ExitCode.OK
    is_incomplete = len(units) < len(UNITS) or "unfinished" in statuses
    assert found.exit_code == (ExitCode.INCOMPLETE if is_incomplete else code)


@given(records())
def test_leg_verdict_agrees_with_resolved_attempts(record: Record) -> None:
    tally = Tally()
    for start in record.starts:
        tally.start(start)
    for result in record.results:
        tally.add(result)
    agrees(verdict_of(tally), units_of(record))


@given(records(), st.integers(0, 8))
def test_resumed_leg_includes_earlier_results(record: Record, cut: int) -> None:
    written = sorted(record.results, key=lambda one: (one.process or 0, one.wall_s))
    before, after = written[:cut], written[cut:]
    earlier = merge_legs([PriorLeg(HEADER, {"process-001.jsonl": before})])
    tally = Tally()
    for result in earlier.results():
        tally.add(result)
    for result in earlier.results(ended=False):
        tally.hold(result)
    for result in after:
        tally.add(result)
    reported = earlier.finished | {one.key.unit_key for one in after}
    agrees(
        verdict_of(tally),
        {key: one for key, one in resolve_units(written, {}).items() if key in reported},
    )


@given(records())
def test_resumed_leg_reruns_unfinished_units(record: Record) -> None:
    """Each process has ended, so that no further case can follow."""
    ends = [ProcessEndLine(process, "completed") for process in range(1, 5)]
    units = units_of(record)
    assert finished_units([[*record.starts, *record.results, *ends]]) == {
        key for key in units if units[key].status != "unfinished"
    }
