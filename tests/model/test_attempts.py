"""The final results of a unit, over literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import ENDINGS, OUTCOMES, Outcome, Result, StartLine, UnitKey
from ciguard.model.attempts import (
    UnitResult,
    classify_result,
    final_results,
    find_bystanders,
    last_starts,
    resolve_attempts,
    resolve_units,
    severity,
)


def result(case: str, process: int = 1, outcome: Outcome = "passed", **more: Any) -> Result:
    """Of unit "a"; case "a" is the unit as a whole."""
    return Result("a", outcome, case=case, process=process, **more)


def died(process: int, ending: Any = "crash") -> Result:
    return result("a", process, "died", ending=ending)


def final(*results: Result) -> list[tuple[str, int | None, str]]:
    """Case, process and outcome of each final result."""
    found = resolve_attempts(results)
    return [(one.case, one.process, one.outcome) for one in found.cases]


def flaky_cases(*results: Result) -> list[str]:
    found = final_results(results)
    return sorted(
        one.case
        for one in found.results
        if one.key in found.failed_attempts and classify_result(one) == "good"
    )


def test_a_retry_supersedes_the_death_of_the_unit_as_a_whole() -> None:
    tries = (died(1), result("c1", 2), result("c2", 2))
    found = resolve_attempts(tries)
    assert found == UnitResult("good", tries[1:], tries[:1])
    assert found.is_flaky
    assert flaky_cases(*tries) == ["c1", "c2"], "the unit crashed, and so did each of its cases"


def test_a_failed_case_without_a_result_in_the_last_process_stays_failed() -> None:
    failed, other = result("x", 1, "failed"), result("y", 1)
    found = resolve_attempts([failed, other, result("y", 2)])
    assert (found.status, found.is_flaky) == ("bad", False)
    assert final(failed, other, result("y", 2)) == [("x", 1, "failed"), ("y", 2, "passed")]
    tries = (failed, other, result("x", 2), result("y", 3))
    repeated = resolve_attempts(tries)
    assert (repeated.status, repeated.is_flaky) == ("good", True)
    assert flaky_cases(*tries) == ["y"], "the case that failed has no final result"


def test_failure_counts_for_the_failed_case_only() -> None:
    tries = (result("x", 1, "failed"), result("y"), result("x", 2), result("y", 2))
    assert flaky_cases(*tries) == ["x"]
    assert final_results(tries).failed_attempts == {tries[0].key: 1}


def test_last_try_is_per_case_within_a_process() -> None:
    tries = (result("x", 1, "failed"), result("x", 1, try_number=2), result("y"))
    found = resolve_attempts(tries)
    assert found.cases == (tries[1], tries[2])
    assert flaky_cases(*tries) == ["x"]


@pytest.mark.parametrize("ending", ["out_of_memory", "memory_guard"])
def test_a_pass_after_an_out_of_memory_retry_is_not_flaky(ending: str) -> None:
    tries = (died(1, ending), result("a", 2, "failed"), result("a", 3))
    found = resolve_attempts(tries[::2])
    assert (found.is_flaky, found.passed_after_oom) == (False, True)
    assert flaky_cases(*tries[::2]) == []
    both = resolve_attempts(tries)
    assert (both.is_flaky, both.passed_after_oom) == (True, False)
    assert final_results(tries).failed_attempts == {tries[0].key: 1}
    bad = resolve_attempts([died(1, ending), died(2, ending)])
    assert (bad.status, bad.is_flaky, bad.passed_after_oom) == ("bad", False, False)


def of_crash(unit: str, process: int, outcome: Outcome, ending: Any = "completed") -> Result:
    """In process 1 beside another one."""
    number = 2 if process == 1 else 1
    return Result(unit, outcome, ending=ending, process=process, concurrent=number)


TOGETHER = (of_crash("a", 1, "died", "crash"), of_crash("b", 1, "died", "crash"))


@pytest.mark.parametrize(
    ("alone", "innocent"),
    [
        ([of_crash("a", 2, "died", "crash"), of_crash("b", 3, "passed")], ["b"]),
        ([of_crash("a", 2, "died", "crash"), of_crash("b", 3, "failed")], ["b"]),
        ([of_crash("a", 2, "died", "crash"), of_crash("b", 3, "died", "crash")], []),
        ([of_crash("a", 2, "died", "timeout"), of_crash("b", 3, "passed")], []),
        ([of_crash("a", 2, "died", "crash")], []),
        ([of_crash("a", 2, "passed"), of_crash("b", 3, "passed")], []),
    ],
    ids=["passes", "fails", "dies too", "another death", "ran once", "none dies again"],
)
def test_death_is_of_the_unit_that_dies_so_again_alone(
    alone: list[Result], innocent: list[str]
) -> None:
    results = [*TOGETHER, *alone]
    key = UnitKey("", "", "a")
    found = {(1, key._replace(unit=unit)): key for unit in innocent}
    assert find_bystanders(results) == find_bystanders(results[::-1]) == found
    flaky = {key.unit for key, one in resolve_units(results, {}).items() if one.is_flaky}
    passed = {one.unit for one in alone if one.outcome == "passed"}
    assert flaky == passed - set(innocent)


def test_repeated_predecessors_and_stopped_units_are_not_flaky() -> None:
    for first in (result("a"), result("a", 1, "skipped"), died(1, "deadline")):
        found = resolve_attempts([first, result("a", 2, try_number=2)])
        assert (found.status, found.failures) == ("good", ())


def test_unit_that_passed_after_plugin_reruns_is_flaky() -> None:
    rerun = result("a", reruns=2, message="1 != 2")
    found = resolve_attempts([rerun])
    assert found.failures == (replace(rerun, outcome="failed"),)
    assert found.is_flaky
    assert flaky_cases(rerun) == ["a"]
    later = resolve_attempts([rerun, result("a", 2)])
    assert later.is_flaky, "a predecessor that passed once more"
    assert not resolve_attempts([result("a", 1, "failed", reruns=2)]).is_flaky


def test_unit_is_unfinished_if_its_last_attempt_has_no_verdict() -> None:
    assert resolve_attempts([died(1, "deadline")]).status == "unfinished"
    assert resolve_attempts([result("a", 1, "failed"), died(2, "cancelled")]).status == "unfinished"
    assert resolve_attempts([result("a")], last_start=1).status == "good"
    for tries in ([result("a", 1, "failed")], [result("a", 1, "failed"), result("a", 2)]):
        found = resolve_attempts(tries, last_start=3)
        assert (found.status, found.is_flaky) == ("unfinished", False)
        assert found.cases == tuple(tries[-1:])
    assert resolve_attempts([result("a", 1, "failed", ending="deadline")]).status == "bad"


def test_a_skip_after_a_failure_is_flaky() -> None:
    assert resolve_attempts([result("a", 1, "failed"), result("a", 2, "skipped")]).is_flaky


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (("skipped", "completed"), ("passed", "completed")),
        (("passed", "completed"), ("failed", "completed")),
        (("failed", "completed"), ("errored", "completed")),
        (("errored", "completed"), ("died", "crash")),
        (("died", "crash"), ("passed", "deadline")),
        (("passed", "deadline"), ("died", "deadline")),
    ],
)
def test_worse_of_contradicting_results_counts(better: Any, worse: Any) -> None:
    pair = [result("a", 1, outcome, ending=ending) for outcome, ending in (better, worse)]
    assert resolve_attempts(pair).cases == (pair[1],)
    assert resolve_attempts(pair[::-1]).cases == (pair[1],)
    assert resolve_attempts(pair).failures == ()


def test_longest_of_equal_results_counts() -> None:
    rows = [result("x", wall_s=wall_s) for wall_s in (None, 0.0, 2.5, 1.0)]
    assert resolve_attempts(rows).cases == (rows[2],)
    assert resolve_attempts(rows[::-1]).cases == (rows[2],)
    assert resolve_attempts(rows[:2]).cases == (rows[1],)
    failed = result("x", 1, "failed", wall_s=0.1)
    assert resolve_attempts([*rows, failed]).cases == (failed,)


def test_severity_is_unique_and_ordered_by_status() -> None:
    words = [Result("a", outcome, ending=ending) for outcome in OUTCOMES for ending in ENDINGS]
    ranked = sorted(words, key=severity)
    assert len(set(map(severity, words))) == len(words)
    statuses = [classify_result(one) for one in ranked]
    assert statuses == sorted(statuses, key=("good", "bad", "unfinished").index)


def test_units_are_distinguished_by_suite_and_variant() -> None:
    found = resolve_units(
        [Result("a", "failed", process=1), Result("a", "passed", variant="x", process=1)],
        last_starts([StartLine("a", process=2), StartLine("a", process=1)]),
    )
    assert {key: one.status for key, one in found.items()} == {
        UnitKey("", "", "a"): "unfinished",
        UnitKey("", "x", "a"): "good",
    }


WORDS = [
    *[("passed", "completed"), ("skipped", "completed"), ("failed", "completed")],
    *[("errored", "completed"), ("failed", "deadline"), ("passed", "deadline")],
    *[("died", "crash"), ("died", "out_of_memory"), ("died", "deadline")],
]
RESULTS = st.builds(
    lambda case, words, **more: Result("a", words[0], case=case, ending=words[1], **more),
    st.sampled_from(["", "a", "x", "y"]),
    st.sampled_from(WORDS),
    process=st.sampled_from([None, 1, 2, 3]),
    try_number=st.integers(1, 2),
    reruns=st.sampled_from([None, 1]),
    wall_s=st.sampled_from([None, 0.0, 1.0]),
)


def comparable(found: UnitResult) -> tuple[Any, ...]:
    cases = [(one.key, one.outcome, one.ending, one.wall_s) for one in found.cases]
    return found.status, cases, found.is_flaky, found.passed_after_oom


@given(st.lists(RESULTS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_of_results_is_irrelevant(results: Sequence[Result], dice: Any) -> None:
    mixed = list(results)
    dice.shuffle(mixed)
    assert comparable(resolve_attempts(mixed)) == comparable(resolve_attempts(results))
    assert final_results(mixed).failed_attempts == final_results(results).failed_attempts


@given(st.lists(RESULTS, min_size=1, max_size=8), st.none() | st.integers(0, 4))
def test_invariants_of_every_unit(results: Sequence[Result], last_start: int | None) -> None:
    found = resolve_attempts(results, last_start)
    assert found.cases
    assert len({one.key for one in found.cases}) == len(found.cases)
    assert set(found.cases) <= set(results)
    assert set(found.cases) == set(final_results(results).results)
    assert not (found.is_flaky and found.passed_after_oom)
    if found.status == "good":
        assert found.is_flaky == bool(flaky_cases(*results))
        assert all(classify_result(one) == "good" for one in found.cases)
    # A case that failed in each of its attempts is not good.
    for key in {one.key for one in results}:
        own = [one for one in results if one.key == key]
        if all(one.outcome == "failed" for one in own) and key.case != "a":
            assert found.status != "good"
