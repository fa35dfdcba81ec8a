"""Two histories become one, of any runs, and of legs that ran blocks of each other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from guard.moved_runs import MOVED, SHARDS, MovedRun, run_with_a_move
from history.stored_values import values_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.coverage_file import Coverage, Share
from ciguard.codec.record.reader import read_records
from ciguard.errors import InputError
from ciguard.history.file import VALUES_PER_KEY, History, decode, empty, encode
from ciguard.history.ingest import RunMetadata, history_of, leg_end_s
from ciguard.history.merge import MAX_RUNS, merge
from ciguard.history.runs import UNDATED
from ciguard.model import (
    OUTCOMES,
    EndLine,
    EventLine,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)

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


def covered(history: History, percent: float | None, attempt: int = 1) -> History:
    """The same run with coverage, of which its percentage is a mark."""
    total = Share(1, 2, float(percent)) if percent is not None else None
    coverage = Coverage("go", "line", total=total, files={"a.go": (1, 2)}) if total else None
    (run,) = history.runs
    return replace(history, runs=(replace(run, run_attempt=attempt, coverage=coverage),))


def percents(history: History) -> list[float | None]:
    found = (run.coverage and run.coverage.total for run in history.runs)
    return [total.percent if total else None for total in found]


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
        parts = [history_of(legs)] if entire else [history_of([leg]) for leg in legs]
        found += [covered(part, draw(st.just(None) | st.just(run_id))) for part in parts]
    return found


@st.composite
def twice_ordered(draw: st.DrawFn) -> tuple[list[History], list[History]]:
    entire = draw(st.booleans())
    # Of more whole runs, one may come after 20 newer ones: see test_older_values.py.
    found = draw(additions(VALUES_PER_KEY if entire else 8, entire))
    return found, draw(st.permutations(found))


@settings(max_examples=15)
@given(twice_ordered())
def test_merge_order_does_not_change_the_bytes(orders: tuple[list[History], list[History]]) -> None:
    first, second = (encode(reduce(merge, order, empty())) for order in orders)
    assert first == second


@settings(max_examples=15)
@given(additions(30, entire=True))
def test_merge_is_idempotent_and_survives_encoding(found: list[History]) -> None:
    history = reduce(merge, found, empty())
    content = encode(history)
    for rerun in found:
        assert encode(merge(history, rerun)) == content
    assert encode(merge(history, history)) == content
    read = decode(content, "x")
    assert encode(read) == content
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
    merged = merge(stored, history_of([record(2, Result("a", "passed"))]))
    for value in values_of(merged)[::2]:
        assert (value["wall_s"], value["retained_bytes"]) == (2.0, 0)


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


def test_only_the_newest_run_of_a_branch_keeps_its_coverage() -> None:
    runs = [(1, 50, "main"), (2, 60, "main"), (3, 70, "next"), (4, None, "main")]
    found = [covered(one(run_id, branch=name), percent) for run_id, percent, name in runs]
    history = reduce(merge, found)
    assert percents(decode(encode(history), "h")) == [None, 60, 70, None]
    assert percents(merge(history, found[0])) == [None, 60, 70, None]
    again = covered(one(2, branch="main", attempt=2), 61, 2)
    assert percents(merge(again, history))[1] == percents(merge(history, again))[1] == 61
    lost = covered(one(2, branch="main", attempt=2), None, 2)
    assert percents(merge(history, lost))[1] == 60


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
        3, Result("a", "passed"), end=None, starts=(StartLine("a"), StartLine("b", suite="s"))
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


@pytest.fixture
def run() -> MovedRun:
    return run_with_a_move()


def history(run: MovedRun) -> History:
    return history_of(read_records(run.world.files().items()), plan=run.plan)


def lost(run: MovedRun) -> dict[str, list[str]]:
    legs = history(run).runs[0].legs
    return {leg.shard: [key.unit for key in leg.lost_units] for leg in legs}


def planned(run: MovedRun) -> dict[str, int]:
    legs = history(run).runs[0].legs
    return {leg.shard: sum(one.units for one in leg.planned or ()) for leg in legs}


def test_each_result_is_of_the_shard_that_ran_it(run: MovedRun) -> None:
    found = {value["unit"]: value["shard"] for value in values_of(history(run))}
    assert (found[MOVED], found["a.t::three"]) == ("03", "01")
    assert planned(run) == {"01": 3, "02": 4, "03": 5}


def test_unit_is_lost_with_the_leg_that_claimed_it(run: MovedRun) -> None:
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"], dies=True)
    run.world.drop("03", Result, unit=MOVED)
    assert lost(run) == {"01": [], "02": [], "03": [MOVED]}


def test_unit_is_lost_with_the_leg_that_had_it_and_left_no_record(run: MovedRun) -> None:
    """What kills runners is looked for among the tests of a leg without a record."""
    del run.world.legs["03"]
    assert lost(run) == {"01": [], "02": [], "03": [MOVED, *sorted(SHARDS["03"])]}
    assert planned(run)["03"] == 5


def test_shard_that_died_loses_nothing_that_others_ran(run: MovedRun) -> None:
    run.leg("01", SHARDS["01"][:2], dies=True)
    assert lost(run) == {"01": ["a.t::three"], "02": [], "03": []}
    del run.world.legs["01"]
    assert lost(run)["01"] == ["a.t::one", "a.t::three", "a.t::two"]
    assert sum(planned(run).values()) == sum(map(len, SHARDS.values()))


def test_runs_of_one_plan_have_moves_of_their_own(run: MovedRun) -> None:
    """Block 01.2 moved in the first run, and stayed in the second one."""
    records = list(read_records(run.world.files().items()))
    second = [
        Record(
            shard,
            ShardLine(run.plan.id, shard, run_id=8, run_attempt=1, job=f"tests ({shard})"),
            results=tuple(Result(unit, "passed") for unit in units[: 2 if shard == "01" else 4]),
        )
        for shard, units in SHARDS.items()
    ]
    found = history_of([*records, *second], plan=run.plan)
    legs = {(one.run_id, leg.shard): leg for one in found.runs for leg in one.legs}
    assert legs[7, "01"].lost_units == ()
    assert legs[8, "01"].lost_units == (UnitKey("", "", "a.t::four"), UnitKey("", "", "a.t::three"))


def test_wait_for_a_block_is_no_end_of_a_leg() -> None:
    record = Record(
        "r",
        ShardLine("p", "01"),
        process_ends=(ProcessEndLine(1, "completed", 0, 10.0),),
        events=(EventLine("claim_asked", 9.5), EventLine("claims_ended", 11.5)),
        end=EndLine("completed", 11.75),
    )
    assert leg_end_s(record) == 0.25
