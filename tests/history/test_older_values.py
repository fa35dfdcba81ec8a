"""What a history knows of the values that it no longer has, in any order of merging."""

from __future__ import annotations

from functools import reduce

import numpy as np
from history.test_merge import START, record
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.history.file import VALUES_PER_KEY, History, decode, empty, encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import MAX_RUNS, merge
from ciguard.history.query import count_values, join_counts
from ciguard.model import OUTCOMES, Outcome, Record, Result

OUTCOME = st.sampled_from(OUTCOMES)
FACTS = ("runs", "skipped", "failures", "first_at", "passed_at", "passed_run")


def one(run_id: int, outcome: Outcome = "passed") -> History:
    more = [Result("often", "passed")] * (run_id % 2)
    return history_of([record(run_id, Result("a", outcome), *more)])


def seconds(run_id: int) -> int:
    return int(START.timestamp()) + 3600 * run_id


def facts(history: History) -> dict[str, dict[str, int]]:
    counts = count_values(history.values, history.runs, len(history.keys))
    if history.older is not None:
        counts = join_counts(history.older, counts, np.add)
    return {
        key.unit: dict(zip(FACTS, counts[:, row].tolist(), strict=True))
        for row, key in enumerate(history.keys)
    }


@st.composite
def many_runs(draw: st.DrawFn) -> tuple[list[Outcome], list[int]]:
    """Outcomes of up to 70 runs, and an order in which no run comes after 20 newer ones."""
    outcomes = draw(st.lists(OUTCOME, min_size=1, max_size=70))
    step = draw(st.integers(1, VALUES_PER_KEY))
    order = [
        run
        for begin in range(1, len(outcomes) + 1, step)
        for run in draw(st.permutations(range(begin, min(begin + step, len(outcomes) + 1))))
    ]
    return outcomes, order


@settings(max_examples=25, deadline=None)
@given(many_runs())
def test_facts_are_those_of_all_runs_ever_added(drawn: tuple[list[Outcome], list[int]]) -> None:
    outcomes, order = drawn
    histories = {run: one(run, outcome) for run, outcome in enumerate(outcomes, 1)}
    history = reduce(merge, (histories[run] for run in order), empty())
    content = encode(history)
    assert encode(decode(content, "x")) == content
    assert content == encode(reduce(merge, histories.values(), empty()))
    for run in order:
        assert encode(merge(history, histories[run])) == content
    passed = [run for run, outcome in enumerate(outcomes, 1) if outcome == "passed"]
    assert facts(decode(content, "x"))["a"] == {
        "runs": len(outcomes),
        "skipped": outcomes.count("skipped"),
        "failures": sum(outcome in ("failed", "errored", "died") for outcome in outcomes),
        "first_at": seconds(1),
        "passed_at": seconds(passed[-1]) if passed else 0,
        "passed_run": passed[-1] if passed else 0,
    }


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(1, 60), min_size=1), min_size=2, max_size=2), st.data())
def test_merge_of_two_long_histories_is_commutative_and_idempotent(
    sets: list[set[int]], data: st.DataObject
) -> None:
    histories = {run: one(run, data.draw(OUTCOME)) for run in sorted(sets[0] | sets[1])}
    a, b = (reduce(merge, (histories[run] for run in sorted(runs))) for runs in sets)
    both = merge(a, b)
    content = encode(both)
    assert encode(merge(b, a)) == content
    for part in (a, b, both, *histories.values()):
        assert encode(merge(both, part)) == content
    found = facts(both)["a"]
    assert found["first_at"] == seconds(min(histories))
    expected = facts(reduce(merge, histories.values()))["a"]
    assert facts(a)["a"]["runs"] <= found["runs"] <= expected["runs"]
    if sets[0] <= sets[1]:
        assert found == facts(b)["a"]


def test_run_later_than_twenty_newer_ones_is_not_counted_twice() -> None:
    history = reduce(merge, map(one, range(2, 25)))
    late = merge(history, one(1, "failed"))
    assert facts(late)["a"]["runs"] == facts(history)["a"]["runs"] == 23
    assert facts(late)["a"]["first_at"] == seconds(1)
    assert encode(merge(late, one(1, "failed"))) == encode(late)


def test_replaced_attempt_of_the_oldest_kept_run_is_kept() -> None:
    history = reduce(merge, map(one, range(1, 31)))
    again = history_of([record(11, Result("a", "failed"), attempt=2)])
    for both in (merge(history, again), merge(again, history)):
        assert (facts(both)["a"]["runs"], facts(both)["a"]["failures"]) == (30, 1)
        assert both.runs[int(both.values.run[both.values.key == 0][0])].run_id == 11


def test_runs_beyond_the_limit_are_counted_for_tests_that_stay() -> None:
    rare = history_of([record(1, Result("rare", "failed")), record(2, Result("gone", "passed"))])
    names = history_of([record(run, Result(f"t{run}", "passed")) for run in range(3, MAX_RUNS + 3)])
    newest = history_of([record(600, Result("rare", "passed"))])
    history = merge(merge(rare, newest), names)
    assert "gone" not in facts(history)
    assert facts(history)["rare"]["runs"] == 2
    assert facts(history)["rare"]["first_at"] == seconds(1)


def test_undated_and_huge_runs_are_counted_without_time_and_name() -> None:
    huge = [Record("x", None, results=(Result("a", "passed"),))]
    history = history_of(huge, RunMetadata(run_id=1 << 60))
    assert facts(history)["a"]["first_at"] == facts(history)["a"]["passed_run"] == 0
    history = reduce(merge, map(one, range(1, 22)), history)
    assert facts(history)["a"]["runs"] == 22
    assert encode(decode(encode(history), "x")) == encode(history)
