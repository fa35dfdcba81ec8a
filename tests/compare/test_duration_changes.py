"""Wall times of tests against the baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compare.compare_factories import case, column_run, run_of
from compare.past_runs import TESTS, Past, factor, names

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Note
from ciguard.compare.view import document
from ciguard.compare.wording import headline, measure_text
from ciguard.render.plaintext import as_text
from ciguard.text import duration


def test_slowdown_in_one_run_is_a_suspect_and_not_listed() -> None:
    past = Past(12)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert found.durations.suspects >= 1
    assert not found.durations.listed
    assert found.durations.verdict == "suspects"
    assert found.state == "same"
    assert "duration: nothing confirmed, " in headline(found)


def test_slowdown_in_two_runs_is_confirmed() -> None:
    past = Past(12)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert names(found.durations.listed) == ["confirmed t00050"]
    assert found.durations.verdict == "regressed"
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=past.run(98))
    assert not found.durations.listed


def test_nine_baseline_runs_confirm_no_duration() -> None:
    past = Past(9)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_two_baseline_runs_give_numbers_without_a_verdict() -> None:
    past = Past(2)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert found.durations.verdict == "not enough data"
    assert "no verdict from 2 baseline values a test (3 are needed)" in measure_text(
        found.durations
    )
    assert {change.tier for change in found.durations.losses} == {"unjudged"}
    assert found.state == "inconclusive"


def test_a_table_has_times_as_measured_and_changes_at_equal_speed() -> None:
    past = Past(12)
    halved = 0.5 * factor(50, 4.0)  # a runner that is twice as fast, and a test 4 times as slow
    found = compare_run(past.run(99, wall=halved), None, past.bases)
    (change,) = found.durations.listed
    before = past.wall[50]
    assert change.before == pytest.approx(before, rel=0.1)
    assert change.measured == pytest.approx(2 * before, rel=0.1)
    assert change.after == pytest.approx(4 * before, rel=0.1)
    text = as_text(document(found))
    assert "change at equal speed" in text
    assert duration(change.measured) in text
    assert duration(change.after) not in text


def with_a_short_test(runs: int = 12) -> Past:
    past = Past(runs)
    past.wall[50] = 0.02
    past.bases = [past.run(n + 1) for n in range(runs)]
    return past


def test_a_test_under_50_ms_in_both_runs_is_not_judged() -> None:
    past = with_a_short_test()
    found = compare_run(past.run(99, wall=factor(50, 2.3)), None, past.bases)
    assert found.durations.judged_tests == TESTS - 1
    assert "t00050" not in [change.key.unit for change in found.durations.losses]


def test_a_test_under_50_ms_that_becomes_long_is_confirmed_by_a_second_run() -> None:
    past = with_a_short_test()
    first = past.run(98, wall=factor(50, 10.0))
    found = compare_run(past.run(99, wall=factor(50, 10.0)), None, past.bases, previous=first)
    assert names(found.durations.listed) == ["confirmed t00050"]


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 3.0), (0.1, 1.5), (2.0, 7.0)])
@pytest.mark.parametrize("runs", [1, 2, 3, 11])
def test_large_slowdown_in_one_run_is_listed(runs: int, before_s: float, after_s: float) -> None:
    past = Past(runs)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(runs)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    tier = "suspect" if runs >= 3 else "unjudged"
    assert names(found.durations.listed) == [f"{tier} t00050"]
    assert "1 test took at least 3 times as long" in headline(found)


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 0.9), (1.0, 2.5)])
def test_small_slowdown_in_one_run_is_not_listed(before_s: float, after_s: float) -> None:
    past = Past(11)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(11)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_large_slowdown_in_a_noisy_run_is_listed() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud * factor(50, 8.0)), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert names(found.durations.listed) == ["unjudged t00050"]
    assert "1 test took at least 3 times as long" in headline(found)


def test_large_slowdown_of_a_variable_test_is_listed() -> None:
    past = Past(11)
    for run in past.bases:
        run.wall_s[50] = 1.0 if (run.run_id or 0) % 2 else 3.0
    head = past.run(99)
    head.wall_s[50] = 6.0
    assert names(compare_run(head, None, past.bases).durations.listed) == ["suspect t00050"]


@pytest.mark.parametrize("tests", [TESTS, 10, 4])
def test_leg_three_times_as_long_is_no_slow_runner(tests: int) -> None:
    bases = [column_run(np.full(tests, 0.6), run_id=n) for n in range(1, 12)]
    found = compare_run(column_run(np.full(tests, 2.4), run_id=99), None, bases)
    assert len(found.durations.listed) == tests
    assert found.durations.listed[0].after == pytest.approx(2.4)
    assert found.state == "suspect"


def test_large_slowdown_ratio_is_listed_among_larger_absolute_ones() -> None:
    wall = np.concatenate([np.full(60, 100.0), np.full(200, 1.0), [0.5]])
    bases = [column_run(wall, run_id=n) for n in range(1, 12)]
    worse = np.concatenate([np.full(60, 150.0), np.full(200, 1.0), [2.5]])
    found = compare_run(column_run(worse, run_id=99), None, bases)
    assert names(found.durations.listed) == ["suspect t00260"]


def test_slowdown_from_zero_time_is_listed() -> None:
    past = Past(11)
    for run in past.bases:
        run.wall_s[50] = 0.0  # JUnit XML rounds to milliseconds
    head = past.run(99)
    head.wall_s[50] = 3.0
    assert names(compare_run(head, None, past.bases).durations.listed) == ["suspect t00050"]


def test_doubled_total_duration_is_a_suspect() -> None:
    bases = [column_run([0.02, 0.1, *[0.5] * 6], run_id=n) for n in range(1, 12)]
    found = compare_run(column_run([0.02, 0.1, 4.0, *[0.5] * 5], run_id=99), None, bases)
    assert found.state == "suspect"
    assert "8 tests that passed in both took 6.62 s, 3.12 s in the base" in headline(found)
    slow = column_run([0.02, 0.1, *[1.1] * 6], run_id=99)  # nothing of it is large by itself
    assert compare_run(slow, None, bases).state == "suspect"


def test_doubled_shard_time_is_a_suspect() -> None:
    past = Past(11)
    head = past.run(99)
    head = replace(head, legs=tuple(replace(leg, wall_s=250.0) for leg in head.legs))
    found = compare_run(head, None, past.bases)
    assert found.state == "suspect"
    assert "the shards took 4 min 10 s in sum, 1 min 40 s in the baseline" in headline(found)


def test_doubled_total_with_two_baseline_runs_is_inconclusive() -> None:
    bases = [column_run(np.full(30, 0.5), run_id=n) for n in (1, 2)]
    found = compare_run(column_run(np.full(30, 1.2), run_id=99), None, bases)
    assert found.state == "inconclusive"


def test_a_slower_runner_is_no_regression() -> None:
    past = Past(12)
    slow = np.full(TESTS, 1.4)
    found = compare_run(past.run(99, wall=slow), None, past.bases, previous=past.run(98, wall=slow))
    assert not found.durations.listed
    assert found.legs[0].speed == pytest.approx(1.4, rel=0.02)


def test_noisy_run_is_not_judged() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert found.durations.noise_ratio is not None
    assert found.durations.noise_ratio > 1.5
    assert not found.durations.losses
    assert found.memory.verdict == "no significant difference"


def test_noisy_run_confirms_nothing() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS)) * factor(50, 2.0)
    found = compare_run(
        past.run(99, wall=factor(50, 2.0)), None, past.bases, previous=past.run(98, wall=loud)
    )
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_suspects_are_all_counted_and_the_forty_largest_listed() -> None:
    past = Past(12, noise=0.002)
    worse = np.where(np.arange(TESTS) >= 10, 1.0, 1.0)
    worse[5:55:1] = np.where(np.arange(50) % 2, 1.3, 1.0)
    past.wall = np.linspace(2.0, 3.0, TESTS)
    past.bases = [past.run(n + 1) for n in range(12)]
    walls = np.tile(past.wall, 4)
    many = [np.tile(run.wall_s, 4) for run in past.bases]
    bases = [column_run(wall, run_id=n + 1) for n, wall in enumerate(many)]
    found = compare_run(column_run(walls * np.tile(worse, 4), run_id=99), None, bases)
    assert found.durations.suspects == 100
    assert len(found.durations.losses) == 40
    amounts = [change.after - change.before for change in found.durations.losses]
    assert amounts == sorted(amounts, reverse=True)


def test_missing_is_never_zero() -> None:
    past = Past(12)
    hole = np.where(np.arange(TESTS) == 50, np.nan, 1.0)
    found = compare_run(past.run(99, wall=hole, peak=hole), None, past.bases)
    for measure_verdict in (found.durations, found.memory):
        assert "t00050" not in [change.key.unit for change in measure_verdict.gains]
    assert {one.name: one.n for one in found.totals}["tests_s"] == TESTS - 1


def test_failed_test_is_not_compared() -> None:
    base = [run_of({"01": [case("a", 1.0, 100)]}, run_id=n) for n in range(1, 4)]
    head = run_of({"01": [case("a", 5.0, 500, outcome="failed")]}, run_id=9)
    found = compare_run(head, None, base)
    assert found.durations.verdict == found.memory.verdict == "not measured"
    assert Note("not_passed", 1) in found.notes


def test_values_of_a_dead_leg_are_excluded_from_the_baseline() -> None:
    bases = [
        run_of({"01": [case("a", 1.0, 100)]}, run_id=n, ending="deadline" if n < 3 else "completed")
        for n in range(1, 5)
    ]
    found = compare_run(run_of({"01": [case("a", 1.0, 160)]}, run_id=9), None, bases)
    (change,) = found.memory.losses
    assert (change.n, change.tier) == (2, "unjudged")
