"""The change point of a series: literals, and rates of detection and false alarm, simulated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ciguard.render.change_point import MIN_RUNS, ChangePoint, find_change

SERIES = 1000
CREEP_RUNS, CREEP = 25, 0.03


def simulate(
    seed: int, series: int, n: int, noise: float, correlation: float
) -> NDArray[np.float64]:
    """Logarithms of AR(1) noise with this standard deviation."""
    random = np.random.default_rng(seed)
    steps = random.standard_normal((series, n))
    logs = np.empty_like(steps)
    logs[:, 0] = steps[:, 0]
    for at in range(1, n):
        logs[:, at] = correlation * logs[:, at - 1] + (1 - correlation**2) ** 0.5 * steps[:, at]
    return noise * logs


def test_step_and_creep_are_located() -> None:
    step = [100.0] * 15 + [130.0] * 10
    up, down = find_change(step), find_change(step[::-1])
    creep = find_change([100.0] * 20 + [100 * 1.03**run for run in range(1, 26)])
    assert up is not None
    assert down is not None
    assert creep is not None
    assert up == ChangePoint(14, 15, 1, up.ratio)
    assert down == ChangePoint(9, 10, 1, down.ratio)
    assert find_change([None, *step[:15], None, 0.0, *step[15:]]) == ChangePoint(
        15, 18, 1, up.ratio
    )
    assert (round(up.ratio, 6), round(down.ratio, 6)) == (0.3, -0.230769)
    assert creep.before + creep.values == 44
    assert abs(creep.before - 19) <= 1
    assert creep.ratio == pytest.approx(1.03**25 - 1, rel=0.05)


def test_equal_values_an_outlier_and_a_few_runs_are_no_change() -> None:
    assert find_change([7.0] * 50) is None
    assert find_change([7.0] * 49 + [70.0]) is None
    assert find_change([7.0] * 25 + [7.2] * 25) is None  # below 5 %
    assert find_change([7.0] * 10 + [70.0] * (MIN_RUNS - 11)) is None
    assert find_change([7.0] * 10 + [70.0] * (MIN_RUNS - 10)) is not None


@pytest.mark.parametrize("n", [MIN_RUNS, 60, 120])
@pytest.mark.parametrize(("noise", "correlation"), [(0.05, 0.0), (0.1, 0.3), (0.15, 0.5)])
def test_unchanged_series_alarm_in_at_most_2_percent(
    n: int, noise: float, correlation: float
) -> None:
    series = np.exp(simulate(1, SERIES, n, noise, correlation))
    assert sum(find_change(values) is not None for values in series.tolist()) <= 0.02 * SERIES


@pytest.mark.parametrize(
    ("noise", "correlation", "power"), [(0.05, 0.0, 1), (0.1, 0.3, 0.99), (0.15, 0.5, 0.9)]
)
def test_creep_of_3_percent_a_run_is_found(noise: float, correlation: float, power: float) -> None:
    before, series = 20, 200
    creep = np.log1p(CREEP) * np.clip(np.arange(before + CREEP_RUNS) - before + 1, 0, None)
    logs = simulate(2, series, before + CREEP_RUNS, noise, correlation) + creep
    found = [change for values in np.exp(logs).tolist() if (change := find_change(values))]
    assert len(found) >= power * series
    assert np.median([change.ratio for change in found]) == pytest.approx(1.09, abs=0.1)
    assert abs(np.median([change.before for change in found]) - (before - 1)) <= 2


@pytest.mark.parametrize(("begin", "end", "factor"), [(20, 80, 0.6), (10, 30, 1.5)])
def test_creep_after_an_earlier_change_is_found(begin: int, end: int, factor: float) -> None:
    series = 60
    creep = np.log1p(CREEP) * np.clip(np.arange(80) - 54, 0, None)
    earlier = np.where((np.arange(80) >= begin) & (np.arange(80) < end), np.log(factor), 0.0)
    logs = simulate(3, series, 80, 0.05, 0.0) + creep + earlier
    found = [change for values in np.exp(logs).tolist() if (change := find_change(values))]
    assert len([change for change in found if abs(change.before - 54) <= 6]) >= 0.9 * series
