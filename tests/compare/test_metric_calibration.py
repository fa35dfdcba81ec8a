"""How often a metric is called worse or better that did not change, and a change is not seen.

Limits are what a rate of the stated size exceeds in one of 1,000 such samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compare.metric_simulation import score_metrics
from compare.test_calibration import at_least, at_most

from ciguard.compare.statistics import FALSE_ALARM_RATE

if TYPE_CHECKING:
    from compare.metric_simulation import Noise


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
