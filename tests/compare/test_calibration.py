"""How often the rule is wrong: A/A pull requests that confirm something, A/B ones that do not.

Limits are what a rate of the stated size exceeds in one of 1,000 such samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from compare.metric_simulation import Noise, score_metrics
from compare.simulation import CachingSuite, score, score_few

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.statistics import FALSE_ALARM_RATE


def at_most(rate: float, trials: int) -> int:
    """The smallest count that a Poisson of this mean exceeds in fewer than one of 1,000 samples."""
    mean = rate * trials
    term = total = math.exp(-mean)
    count = 0
    while total < 0.999:
        count += 1
        term *= mean / count
        total += term
    return count


def at_least(rate: float, trials: int) -> int:
    """What a binomial of this rate stays below in about one of 1,000 samples."""
    return math.floor(trials * rate - 3.09 * math.sqrt(trials * rate * (1 - rate)))


def test_few_pull_requests_meet_false_alarm_and_power_limits() -> None:
    same = score(pulls=6, tests=600, runs=20, growth=0.0)
    assert same.false_durations <= at_most(0.2, same.pulls)
    assert same.false_memory <= at_most(0.05, same.pulls)
    assert same.slower <= at_most(0.02, same.pulls)
    assert same.named_durations <= at_most(0.3, same.pulls)
    hurt = score(pulls=6, tests=600, runs=20, growth=0.5, seed=100)
    assert hurt.found_durations >= at_least(0.8, hurt.changed)
    assert hurt.found_memory >= at_least(0.95, hurt.changed)


def test_small_suite_is_judged() -> None:
    same = score_few(pulls=10, tests=12, runs=10, growth=0.0, legs=2)
    assert same.false_durations == 0
    hurt = score_few(pulls=10, tests=12, runs=10, growth=1.0, legs=2)
    assert hurt.found_durations >= at_least(0.8, hurt.pulls)


@pytest.mark.parametrize(
    ("runs", "seeds", "found"),
    [
        (10, (1,), 0.9),
        pytest.param(10, range(2, 22), 0.9, marks=pytest.mark.soak),
        pytest.param(20, range(2, 22), 0.95, marks=pytest.mark.soak),
    ],
)
def test_memory_that_a_process_pays_once_is_no_loss_of_a_test(
    runs: int, seeds: Sequence[int], found: float
) -> None:
    confirmed = unchanged = crashed = planted = named = 0
    for one in seeds:
        suite = CachingSuite(one)
        bases = [suite.run(n) for n in range(runs)]
        for n in range(10):
            previous = suite.run(20)
            head = compare_run(suite.run(21), None, bases, previous=previous)
            confirmed += bool(head.memory.of_tier("confirmed"))
            assert head.memory.paid_once
            unchanged += bool(head.memory.losses or head.durations.listed)
            head = compare_run(suite.run(22, crash=50 + 10 * n), None, bases, previous=previous)
            crashed += bool(head.memory.losses or head.durations.listed)
            test, mib = (0, 60.0) if n % 2 else (10 + n, 100.0)
            change = {test: mib}
            head = compare_run(suite.run(24, change), None, bases, previous=suite.run(23, change))
            planted += 1
            found_losses = (*head.memory.losses, *head.durations.listed)
            named += [loss.key.unit for loss in found_losses] == [f"t{test:05}"]
    print(f"{unchanged} of {planted} unchanged, {crashed} crashed, {named} of {planted} changed")
    assert confirmed <= planted // 100
    assert unchanged <= max(1, planted // 20)
    assert crashed <= planted // 50
    assert named >= found * planted - 1


@pytest.mark.soak
@pytest.mark.parametrize(("tests", "legs"), [(5, 1), (12, 2), (18, 4)])
@pytest.mark.parametrize("runs", [10, 20])
def test_small_suites_meet_false_alarm_and_power_limits(tests: int, legs: int, runs: int) -> None:
    same = score_few(400, tests, runs, 0.0, legs=legs)
    print(f"{tests} tests, {legs} legs, n={runs}: {same}")
    assert same.false_durations <= at_most(0.02, same.pulls)
    hurt = score_few(100, tests, runs, 1.0, legs=legs)
    print(hurt)
    assert hurt.found_durations >= at_least(0.8, hurt.pulls)


@pytest.mark.soak
@pytest.mark.parametrize("runs", [10, 20])
def test_false_alarm_rate(runs: int) -> None:
    found = score(pulls=400, tests=2000, runs=runs, growth=0.0, seed=1000)
    print(f"n={runs}: {found}")
    assert found.false_durations <= at_most(0.2, found.pulls)
    assert found.false_memory <= at_most(0.2 if runs < 20 else 0.05, found.pulls)
    assert found.slower <= at_most(0.02, found.pulls)
    assert found.named_durations <= at_most(0.3, found.pulls)
    assert found.doubled == 0


@pytest.mark.soak
def test_power() -> None:
    found = score(pulls=100, tests=2000, runs=20, growth=0.25, seed=5000)
    print(found)
    assert found.found_durations >= at_least(0.5, found.changed)
    assert found.found_memory >= at_least(0.9, found.changed)


@pytest.mark.soak
def test_suite_ten_percent_slower_is_detected() -> None:
    found = score(pulls=100, tests=2000, runs=20, growth=0.0, seed=9000, pace=0.10)
    print(found)
    assert found.slower >= at_least(0.9, found.pulls)
    assert found.false_durations <= at_most(0.2, found.pulls)


@pytest.mark.soak
def test_three_baseline_runs_confirm_nothing() -> None:
    found = score(pulls=50, tests=2000, runs=3, growth=0.5)
    assert found.found_durations == found.found_memory == 0


@pytest.mark.parametrize(("noise", "spread", "runs"), [("normal", 0.01, 10), ("heavy", 0.05, 20)])
def test_unchanged_metrics_raise_no_more_alarms_than_stated(
    noise: Noise, spread: float, runs: int
) -> None:
    found = score_metrics(200, runs=runs, noise=noise, spread=spread, seed=runs)
    assert found.alarmed <= at_most(FALSE_ALARM_RATE, found.comparisons)


def test_changes_are_found_as_often_as_stated() -> None:
    quiet = score_metrics(100, noise="heavy", spread=0.01, growth=0.10)
    assert quiet.found >= at_least(0.85, quiet.comparisons)
    noisy = score_metrics(100, noise="heavy", spread=0.05, growth=0.50)
    assert noisy.found >= at_least(0.75, noisy.comparisons)
    alone = score_metrics(100, series=1, noise="heavy", spread=0.05, growth=0.20)
    assert alone.found >= at_least(0.70, alone.comparisons)


def test_nine_past_runs_give_no_verdict() -> None:
    found = score_metrics(5, runs=9, growth=3.0)
    assert (found.found, found.alarms) == (0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("series", [1, 5, 20, 100])
@pytest.mark.parametrize("runs", [10, 20])
@pytest.mark.parametrize(("noise", "spread"), [("normal", 0.01), ("normal", 0.05), ("heavy", 0.05)])
def test_false_alarm_rate_of_metrics(series: int, runs: int, noise: Noise, spread: float) -> None:
    found = score_metrics(2000, series=series, runs=runs, noise=noise, spread=spread, seed=series)
    print(f"{noise} {spread}, {series} series, n={runs}: {found}")
    assert found.alarmed <= at_most(FALSE_ALARM_RATE, found.comparisons)
