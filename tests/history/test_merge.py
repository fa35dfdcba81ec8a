from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.errors import InputError
from ciguard.history.file import VALUES_PER_KEY, decode, empty, encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import MAX_RUNS, merge
from ciguard.history.runs import UNDATED
from ciguard.history.view import json_lines
from ciguard.model import (
    OUTCOMES,
    EndLine,
    ProcessLine,
    Record,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)

if TYPE_CHECKING:
    from ciguard.history.file import History

START = datetime(2026, 11, 1, tzinfo=UTC)
UNITS = ["a.py::t", "b.py::t", "\udc80", "line\nend", 'q"\U0001f600', "x" * 5000]


def record(
    run_id: int,
    *results: Result,
    shard: str = "01",
    attempt: int = 1,
    end: str | None = "completed",
    starts: tuple[StartLine, ...] = (),
    **more: Any,
) -> Record:
    header = ShardLine(
        plan_id="p",
        shard=shard,
        run_id=run_id,
        run_attempt=attempt,
        started_at=(START + timedelta(hours=run_id)).isoformat(),
        **more,
    )
    ending = EndLine("completed" if end == "completed" else "timeout") if end else None
    return Record(
        f"{run_id}/{shard}",
        header,
        processes=(ProcessLine(1, 1), ProcessLine(2, 1)),
        starts=starts,
        results=results,
        end=ending,
        first_units={1: frozenset(UNITS[:2]), 2: frozenset(UNITS[2:4])},
    )


def one(run_id: int, wall_s: float = 1.0, **more: Any) -> History:
    return history_of([record(run_id, Result("a.py::t", "passed", wall_s=wall_s), **more)])


def walls(history: History) -> list[tuple[int, str, float]]:
    values = history.values
    return [
        (history.runs[values.run[row]].run_id, history.keys[values.key[row]].case, wall_s)
        for row, wall_s in enumerate(values.wall_s.tolist())
    ]


seconds = st.none() | st.floats(0, 1e6)
sizes = st.none() | st.integers(0, 1 << 50)
results = st.builds(
    Result,
    unit=st.sampled_from(UNITS),
    outcome=st.sampled_from(OUTCOMES),
    suite=st.sampled_from(["", "unit"]),
    case=st.sampled_from(["", "case"]),
    wall_s=seconds,
    setup_s=seconds,
    peak_delta_bytes=sizes,
    retained_bytes=st.none() | st.integers(-(1 << 50), 1 << 50),
    try_number=st.integers(1, 3),
    gpu_peak_bytes=sizes,
    process=st.sampled_from([None, 1, 2]),
    measured_by=st.sampled_from([None, "mark", "window"]),
    classname=st.sampled_from([None, "C"]),
)


samples = st.builds(
    SampleLine,
    at_s=st.floats(0, 9),
    swap_used_bytes=sizes,
    stalled_s=seconds,
    gpu_bytes=st.dictionaries(st.sampled_from(["0", "1"]), st.integers(0, 1 << 40)),
)


@st.composite
def additions(draw: st.DrawFn, most: int, entire: bool) -> list[History]:
    """Up to `most` runs, whole or leg by leg; a unit is in one leg of a run, as plans have it."""
    ids = draw(st.lists(st.integers(1, 40), min_size=1, max_size=most, unique=True))
    found = []
    for run_id in ids:
        drawn = draw(st.lists(results, max_size=4))
        legs = [
            replace(
                record(
                    run_id, *(item for item in drawn if len(item.unit) % 2 == side), shard=shard
                ),
                samples=draw(st.lists(samples, max_size=3).map(tuple)),
            )
            for side, shard in enumerate(("01", "02"))
        ]
        found.extend([history_of(legs)] if entire else [history_of([leg]) for leg in legs])
    return found


@st.composite
def twice_ordered(draw: st.DrawFn) -> tuple[list[History], list[History]]:
    entire = draw(st.booleans())
    # Of more whole runs, one may come after 20 newer ones: see test_older_values.py.
    found = draw(additions(VALUES_PER_KEY if entire else 8, entire))
    return found, draw(st.permutations(found))


@settings(max_examples=15)
@given(twice_ordered())
def test_merge_order_does_not_change_the_bytes(
    orders: tuple[list[History], list[History]],
) -> None:
    first, second = (encode(reduce(merge, order, empty())) for order in orders)
    assert first == second


@settings(max_examples=15)
@given(additions(30, entire=True))
def test_merge_is_idempotent_and_survives_encoding(
    found: list[History],
) -> None:
    history = reduce(merge, found, empty())
    content = encode(history)
    for rerun in found:
        assert encode(merge(history, rerun)) == content
    assert encode(merge(history, history)) == content
    read = decode(content, "x")
    assert encode(read) == content
    assert list(json_lines(read)) == list(json_lines(decode(encode(read), "x")))
    assert read.keys == history.keys
    assert read.runs == history.runs
    assert read.external_names == history.external_names


@settings(max_examples=15)
@given(additions(30, entire=True))
def test_merge_after_decoding_equals_merge_before_encoding(found: list[History]) -> None:
    joined = read = empty()
    for one_more in found:
        joined = merge(joined, one_more)
        read = merge(decode(encode(read), "x"), decode(encode(one_more), "x"))
    assert encode(read) == encode(joined)


def test_constant_column_survives_runs_without_the_measurement() -> None:
    found = [Result(unit, "passed", wall_s=2.0, retained_bytes=0) for unit in ("a", "b")]
    stored = decode(encode(history_of([record(1, *found)])), "x")
    assert encode(merge(empty(), stored)) == encode(stored)
    first, _, second = json_lines(merge(stored, history_of([record(2, Result("a", "passed"))])))
    for line in (first, second):
        assert '"wall_s":2.0' in line
        assert '"retained_bytes":0' in line


def test_last_twenty_values_per_key_and_their_runs_are_stored() -> None:
    history = reduce(merge, [one(run_id) for run_id in range(1, 26)])
    assert [run for run, _, _ in walls(history)] == list(range(6, 26))
    assert [run.run_id for run in history.runs] == list(range(6, 26))
    rare = history_of([record(1, Result("rare", "passed", wall_s=9.0))])
    both = merge(history, rare)
    assert walls(both)[-1] == (1, "rare", 9.0)
    assert [run.run_id for run in both.runs] == [1, *range(6, 26)]
    assert len(walls(both)) == VALUES_PER_KEY + 1


def test_cases_missing_for_many_runs_are_removed() -> None:
    steady = Result("steady", "passed", wall_s=1.0)
    runs = range(1, MAX_RUNS + 6)
    history = history_of(
        [record(run, steady, Result(f"t[{run}]", "passed", wall_s=float(run))) for run in runs]
    )
    assert [run.run_id for run in history.runs] == list(runs)[5:]
    assert {key.unit for key in history.keys} == {"steady", *(f"t[{run}]" for run in runs[5:])}
    assert len(history.values) == VALUES_PER_KEY + MAX_RUNS
    assert encode(decode(encode(history), "x")) == encode(history)
    assert encode(merge(history, history_of([record(3, steady)]))) == encode(history)


def test_run_older_than_all_stored_runs_changes_no_value() -> None:
    history = reduce(merge, [one(run_id) for run_id in range(2, 25)])
    both = merge(history, one(1))
    assert (both.runs, walls(both)) == (history.runs, walls(history))


def test_later_attempt_replaces_the_rerun_legs() -> None:
    def attempt(number: int, shard: str, *cases: str) -> History:
        found = [Result(case, "passed", wall_s=float(number)) for case in cases]
        return history_of([record(7, *found, shard=shard, attempt=number)])

    first = merge(attempt(1, "01", "a", "b"), attempt(1, "02", "c"))
    rerun = attempt(2, "02", "c")
    both = merge(first, rerun)
    assert walls(both) == [(7, "a", 1.0), (7, "b", 1.0), (7, "c", 2.0)]
    assert encode(merge(rerun, first)) == encode(both)
    assert [(leg.shard, leg.run_attempt) for leg in both.runs[0].legs] == [("01", 1), ("02", 2)]
    assert both.runs[0].run_attempt == 2
    assert encode(merge(both, first)) == encode(both)


def test_values_of_a_replaced_leg_are_removed() -> None:
    first = history_of([record(7, Result("a", "passed", wall_s=1.0), Result("b", "passed"))])
    dead = record(7, Result("b", "passed"), attempt=2, end=None)
    both = merge(first, history_of([dead]))
    assert [key.unit for key in both.keys] == ["b"]


def test_contradicting_run_facts_are_an_error_that_names_both() -> None:
    a = history_of([record(7, branch="main")])
    with pytest.raises(InputError) as caught:
        merge(a, history_of([record(7, branch="next", shard="02")]))
    assert "main" in str(caught.value)
    assert "next" in str(caught.value)
    assert "run 7" in str(caught.value)


def test_merge_fills_missing_run_facts() -> None:
    bare = history_of([record(7, shard="02")])
    reported = history_of([record(7, branch="main", tested_sha="abc", tested_parents=("p",))])
    for both in (merge(bare, reported), merge(reported, bare)):
        run = both.runs[0]
        assert (run.branch, run.sha, run.parents) == ("main", "abc", ("p",))


def test_dead_leg_records_its_lost_units() -> None:
    dead = record(
        3,
        Result("a", "passed"),
        end=None,
        starts=(StartLine("a"), StartLine("b", suite="s")),
    )
    (leg,) = history_of([dead]).runs[0].legs
    assert (leg.complete, leg.ending, leg.lost_units) == (
        False,
        "unknown",
        (UnitKey("s", "", "b"),),
    )
    rest = Record("other file", dead.header, results=(Result("b", "passed", suite="s"),))
    both = merge(history_of([dead]), history_of([rest]))
    assert both.runs[0].legs[0].lost_units == ()
    assert len(both.values) == 2


def test_undated_run_is_older_than_all_dated_ones() -> None:
    undated = history_of(
        [Record("x", None, results=(Result("t", "passed"),))], RunMetadata(run_id=99)
    )
    assert undated.runs[0].at == UNDATED
    assert [run.run_id for run in merge(one(1), undated).runs] == [99, 1]


def test_keys_without_values_are_removed() -> None:
    first = history_of([record(7, Result("only", "passed"))])
    assert merge(first, history_of([record(7, attempt=2)])).keys == ()
