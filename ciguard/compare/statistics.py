"""Scales, significance tests and intervals of `compare` and `experiment`. Pure.

The spread of one case over 3-20 runs is uncertain. It is therefore moderated: combined with the
spread of cases of similar size, which counts as 4 more values (limma's idea, Smyth 2004,
Statistical Applications in Genetics and Molecular Biology 3, with a fixed prior weight).

The spread of a metric is not moderated, because other metrics do not predict it. Its scale is the
standard deviation of logarithms (of the values if one is not above 0). A difference in scales has
the p-value of Student's t with `DEGREES` degrees of freedom for any number of runs, because noise
has heavier tails than a normal distribution. A new value must also lie outside of all past values,
as it may belong to a mode that occurred before. docs/explanation/statistics.md has the measurements
of `benchmarks/metric_calibration.py`.

Over many metrics, the rate of false discoveries is controlled (Benjamini and Hochberg 1995, JRSS B
57): at most `FALSE_ALARM_RATE` of unchanged runs have one. Over the rows of an experiment, the
chance of any false alarm is controlled (Holm 1979, Scand. J. Statistics 6), for any dependence of
the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import exp, lgamma, log, log1p
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ciguard.history.query import medians as medians  # noqa: PLC0414  # for all of `compare`

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PRIOR: Final = 4  # weight of the pooled spread, in values
BINS: Final = 12
CASES_A_BIN: Final = 20  # with fewer, the spread of a bin is as uncertain as that of a case
MAD_TO_SIGMA: Final = 1.4826
MEDIAN_VARIANCE: Final = 1.57  # pi / 2: variance of a median divided by that of a mean
CONVERGED: Final = 1e-15
MIN_BASELINE_RUNS: Final = 3  # with fewer baseline values no number is judged
# With fewer baseline values no change is confirmed, and no metric is judged: a metric with two
# modes raises an alarm in 4 % of the runs with 6 values, and in 1 % with 10.
MIN_RUNS_TO_CONFIRM: Final = 10
# "unjudged": too few baseline runs for a verdict; "not confirmed": re-runs did not show it again.
Tier = Literal["confirmed", "suspect", "not confirmed", "unjudged"]
MIB: Final = 1024 * 1024
# A delta may be 0, which has no logarithm: 1 MiB is added to each.
OFFSET_BYTES: Final = MIB
RESOLUTION_BYTES: Final = MIB // 16  # 99 % of repeated measurements agree within it


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Three thresholds, all of which a change must exceed."""

    z: float
    ratio: float
    amount: float


def count_values(table: Floats) -> NDArray[np.int64]:
    number: NDArray[np.int64] = (~np.isnan(table)).sum(axis=1)
    return number


def mad_sigma(residuals: Floats) -> float:
    """Return the robust scale of numbers around 0; NaN for no numbers."""
    return float(MAD_TO_SIGMA * np.median(np.abs(residuals))) if len(residuals) else float("nan")


def moderated_scale(table: Floats, size: Floats) -> Floats:
    """Return each row's scale, s^2 = (4 pool^2 + (N-1) own^2) / (N+3).

    Args:
        table: values around any centre, padded with NaN; a row of one value gets the pool's scale.
        size: size of each row; rows of similar size share a pool, in at most 12 quantile bins.

    Returns:
        NaN for all rows if no row has two values.
    """
    number = count_values(table)
    has_spread = number >= 2  # noqa: PLR2004
    with np.errstate(invalid="ignore"):
        mean = np.nansum(table, axis=1) / np.maximum(number, 1)
        residuals = table - mean[:, None]
        own = np.nansum(residuals**2, axis=1) / np.maximum(number - 1, 1)
    # Residuals from the mean of their own row are too small by this factor. Residuals from a median
    # are no alternative, because one of each row would be 0.
    residuals *= np.sqrt(number / np.maximum(number - 1, 1))[:, None]
    pool = _pool(residuals, size, has_spread)
    degrees = np.maximum(number - 1, 0)
    own = np.where(has_spread, own, 0.0)
    scale: Floats = np.sqrt((PRIOR * pool**2 + degrees * own) / (PRIOR + degrees))
    return scale


def _pool(residuals: Floats, size: Floats, has_scale: Flags) -> Floats:
    """Return for each row the robust scale over rows of similar size."""
    rows = np.flatnonzero(has_scale & ~np.isnan(size))
    pool = np.full(len(size), np.nan)
    if not len(rows):
        return pool
    bins = int(np.clip(len(rows) // CASES_A_BIN, 1, BINS))
    edges = np.quantile(size[rows], np.linspace(0, 1, bins + 1)[1:-1])
    bin_of_row = np.searchsorted(edges, size, side="right")
    for number in range(bins):
        members = rows[bin_of_row[rows] == number]
        values = residuals[members]
        scale = mad_sigma(values[~np.isnan(values)])
        pool[bin_of_row == number] = scale
    # Equal sizes may leave a bin empty; its rows get the scale over all rows.
    values = residuals[rows]
    return np.where(np.isnan(pool), mad_sigma(values[~np.isnan(values)]), pool)


def prediction_error(scale: Floats, number: NDArray[np.int64]) -> Floats:
    """Return the standard error of a new value minus the median of `number` old values."""
    # The median of one value is the value itself, so that the variance is at most doubled.
    wider: Floats = np.sqrt(1 + np.minimum(1, MEDIAN_VARIANCE / np.maximum(number, 1)))
    return scale * wider


FALSE_ALARM_RATE: Final = 0.05  # of unchanged runs, over all metrics of a run
DEGREES: Final = 4  # tails of the noise, as in tests/compare/simulation.py
T_975: Final = 2.776445  # of `DEGREES`, for a two-sided 95 % interval
MIN_SPREAD: Final = 0.005  # of a value: 20 equal values do not prove that a metric is constant
NEGLIGIBLE: Final = 0.01  # of a value: a smaller change is none, however significant


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """The change of a metric against its past values.

    Attributes:
        before: median of the past values.
        p: chance of a value as far away if nothing changed; 1 within the past values.
        low, high: 95 % interval of the relative change; None if `before` is not above 0.
    """

    before: float
    p: float
    low: float | None = None
    high: float | None = None


def metric_effect(past: Sequence[float], value: float) -> MetricEffect:
    """Compare a value with at least 2 past values."""
    values = np.array(past, np.float64)
    before = float(np.median(values))
    is_positive = bool((values > 0).all()) and value > 0
    scaled = np.log(values) if is_positive else values
    middle = float(np.median(scaled))
    difference = (float(np.log(value)) if is_positive else value) - middle
    least = MIN_SPREAD * (1.0 if is_positive else abs(middle))
    spread = max(float(scaled.std(ddof=1)), least)
    error = float(prediction_error(np.array([spread]), np.array([len(values)]))[0])
    p = student_p(difference / error, DEGREES) if error else 0.0  # all past values are 0
    if not _is_outside(values, before, value):
        p = 1.0
    if before <= 0:
        return MetricEffect(before, p)
    ends = (difference - T_975 * error, difference + T_975 * error)
    low, high = (float(np.expm1(end)) if is_positive else end / before for end in ends)
    return MetricEffect(before, p, low, high)


def _is_outside(values: Floats, before: float, value: float) -> bool:
    """Return whether a value lies beyond all past values and their median, by a notable amount."""
    nearest = float(values.max() if value > before else values.min())
    return all(
        abs(value - other) > NEGLIGIBLE * abs(other) and (value > other) == (value > before)
        for other in (before, nearest)
    )


def benjamini_hochberg(chances: Sequence[float], rate: float = FALSE_ALARM_RATE) -> Flags:
    """Select the significant changes; on average at most a share `rate` of them is chance."""
    p = np.array(chances, np.float64)
    ordered = np.sort(p)
    passing = ordered[ordered <= rate * np.arange(1, len(p) + 1) / max(1, len(p))]
    selected: Flags = p <= np.max(passing, initial=-np.inf)
    return selected


def holm(chances: Sequence[float], level: float) -> Flags:
    """Select the significant changes; the chance of any false alarm is at most `level`."""
    p = np.array(chances, np.float64)
    ordered = np.sort(p)
    failing = ordered[ordered > level / np.arange(len(p), 0, -1)]
    selected: Flags = p < np.min(failing, initial=np.inf)
    return selected


def student_p(t: float, degrees: float) -> float:
    """Return the two-sided p-value of `t` under Student's t, to 12 digits.

    The p-value is the regularized incomplete beta function I_x(degrees / 2, 1 / 2) at
    x = degrees / (degrees + t^2) (DLMF 8.17).
    """
    square = t * t
    a, x = degrees / 2, degrees / (degrees + square)
    if not square:
        return 1.0
    # The continued fraction converges fast only on one side of the mean.
    if x < (a + 1) / (a + 2.5):
        return _incomplete_beta(x, a, 0.5)
    return 1 - _incomplete_beta(square / (degrees + square), 0.5, a)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b) by the continued fraction of DLMF 8.17.22, evaluated by Lentz's method."""
    if not x:
        return 0.0
    factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = lower
    for m in count(1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            upper, lower = 1 + term / upper, 1 / (1 + term * lower)
            value *= upper * lower
        if abs(upper * lower - 1) < CONVERGED:
            break
    return factor * value


@cache
def student_975(degrees: int) -> float:
    """Return the 97.5 % point of Student's t with >= 1 degrees of freedom, to 12 digits."""
    low, high = 0.0, 13.0  # the point of one degree of freedom is 12.7
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if student_p(middle, degrees) > 1 - 0.95 else (low, middle)
    return high
