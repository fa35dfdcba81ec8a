"""Scale, z and interval of many cases at once, each with few values. Pure.

A case's own spread over 3-20 runs is too uncertain to judge by, so it is moderated: drawn towards
the spread of cases of like size, as if 4 more values had been seen there (limma's idea, Smyth 2004,
Statistical Applications in Genetics and Molecular Biology 3, with a fixed prior weight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

PRIOR: Final = 4  # values that the pool counts for
BINS: Final = 12
CASES_A_BIN: Final = 20  # with fewer, a bin's own spread is as uncertain as a case's
MAD_TO_SIGMA: Final = 1.4826
MEDIAN_VARIANCE: Final = 1.57  # pi / 2: a median of N is so much less certain than a mean
NORMAL_95: Final = 1.959964
MIN_BASELINE_RUNS: Final = 3  # baseline values without which no number is judged
MIN_RUNS_TO_CONFIRM: Final = 10  # baseline values without which nothing is confirmed
# "unjudged": too few baseline runs for a verdict; "not confirmed": re-runs did not show it again.
Tier = Literal["confirmed", "suspect", "not confirmed", "unjudged"]
MIB: Final = 1024 * 1024
# A delta may be 0, which has no logarithm: 1 MiB is added to each.
OFFSET_BYTES: Final = MIB
RESOLUTION_BYTES: Final = MIB // 16  # what 99 % of repeated measurements agree within


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a change must exceed: all three."""

    z: float
    ratio: float
    amount: float


def count_values(table: Floats) -> NDArray[np.int64]:
    """How many values each row has."""
    number: NDArray[np.int64] = (~np.isnan(table)).sum(axis=1)
    return number


def medians(table: Floats) -> Floats:
    """Median of each row's numbers, NaN where it has none (np.nanmedian loops, and warns)."""
    ordered = np.sort(table, axis=1)  # NaN last
    number = count_values(table)
    rows = np.arange(len(table))
    middle: Floats = ordered[rows, np.maximum(number - 1, 0) // 2] + ordered[rows, number // 2]
    return middle / 2


def mad_sigma(residuals: Floats) -> float:
    """The robust scale of numbers around 0; NaN of none."""
    return float(MAD_TO_SIGMA * np.median(np.abs(residuals))) if len(residuals) else float("nan")


def moderated_scale(table: Floats, size: Floats) -> Floats:
    """Each row's scale, s^2 = (4 pool^2 + (N-1) own^2) / (N+3).

    Args:
        table: values around any centre, NaN where there are fewer; rows of one value say nothing
            of spread, and are given the pool's.
        size: of each row; rows of like size share a pool, in at most 12 quantile bins.

    Returns:
        NaN for every row where no row has two values.
    """
    number = count_values(table)
    many = number >= 2  # noqa: PLR2004  # a spread takes two
    with np.errstate(invalid="ignore"):
        mean = np.nansum(table, axis=1) / np.maximum(number, 1)
        residuals = table - mean[:, None]
        own = np.nansum(residuals**2, axis=1) / np.maximum(number - 1, 1)
    # A residual from the mean of its own row is too small by this; from the median of few it would
    # be 0 for one of them, which a median of absolute residuals cannot bear.
    residuals *= np.sqrt(number / np.maximum(number - 1, 1))[:, None]
    pool = _pool(residuals, size, many)
    degrees = np.maximum(number - 1, 0)
    own = np.where(many, own, 0.0)
    scale: Floats = np.sqrt((PRIOR * pool**2 + degrees * own) / (PRIOR + degrees))
    return scale


def _pool(residuals: Floats, size: Floats, has_scale: Flags) -> Floats:
    """The robust scale over rows of like size, for each row."""
    rows = np.flatnonzero(has_scale & ~np.isnan(size))
    pool = np.full(len(size), np.nan)
    if not len(rows):
        return pool
    bins = int(np.clip(len(rows) // CASES_A_BIN, 1, BINS))
    edges = np.quantile(size[rows], np.linspace(0, 1, bins + 1)[1:-1])
    place = np.searchsorted(edges, size, side="right")
    for number in range(bins):
        members = rows[place[rows] == number]
        found = residuals[members]
        scale = mad_sigma(found[~np.isnan(found)])
        pool[place == number] = scale
    # Many like sizes leave a bin empty; whoever falls in it is judged by all.
    everything = residuals[rows]
    return np.where(np.isnan(pool), mad_sigma(everything[~np.isnan(everything)]), pool)


def prediction_error(scale: Floats, number: NDArray[np.int64]) -> Floats:
    """Standard error of one new value minus the median of `number` old ones."""
    # Of one value the median is the value: never more than twice the variance.
    wider: Floats = np.sqrt(1 + np.minimum(1, MEDIAN_VARIANCE / np.maximum(number, 1)))
    return scale * wider


def t_975(degrees: NDArray[np.int64]) -> Floats:
    """Student's t at 97.5 %, for a two-sided 95 % interval, of at least one degree of freedom.

    Exact for 1 and 2, else a series (Abramowitz and Stegun 26.7.5): 0.12 % too small at 3, and
    less than 0.04 % from 4 on.
    """
    z, n = NORMAL_95, degrees.astype(np.float64)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    series = z + sum(term / n**power for power, term in enumerate(terms, 1))
    two = 0.95 * np.sqrt(2 / (1 - 0.95**2))
    quantile: Floats = np.where(n == 1, np.tan(0.475 * np.pi), np.where(n == 2, two, series))  # noqa: PLR2004
    return quantile
