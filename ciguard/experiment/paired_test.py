"""The comparison of each arm with the first, by pairs of runs: effect, interval, significance.

The two runs of a block give one difference, of logarithms if all values are above 0, so that a
slowdown of the machine cancels. The test is Student's t on these differences. Wall time decides the
verdict: its rows (arms x conditions) are one family, all other rows another. In each family Holm's
method controls the rate of experiments with any false alarm. It allows any dependence of the rows,
which all share the runs of the first arm. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ciguard.compare.statistics import MIB, Flags, Floats, holm, student_975, student_p
from ciguard.experiment.measurement import CPU, GPU, PEAK, WALL, Metric
from ciguard.model import TIME_UNITS

MIN_PAIRS: Final = 2  # without two differences there is no spread
EQUAL_PAIRS: Final = 4  # pairs of equal values that prove no change: fewer may be chance
NEGLIGIBLE: Final = 0.01  # of a value: a smaller change is not reported, even if significant
NOISY_RATIO: Final = 0.20  # of a value: difference of one run from the next
MAX_LOG_RATIO: Final = 50.0  # of a logarithm, so that no ratio overflows
WIDE_INTERVAL_RATIO: Final = 0.25  # half width of an interval that may hide a large change


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolution of a metric, in its unit.

    `ratio` of a value and `resolution` bound the spread from below, because equal values may be
    chance; `amount` is the smallest change that matters.
    """

    ratio: float
    resolution: float
    amount: float


def resolution_of(metric: Metric) -> Resolution:
    """Return the resolution of a metric; that of a program's own metric is its last digit."""
    if metric in (WALL, CPU):
        return Resolution(0.001, 0.001, 0.002)
    if metric == PEAK:
        return Resolution(0.0, MIB / 16, MIB)
    if metric.name == GPU.name:
        return Resolution(0.0, MIB, MIB)  # nvidia-smi reports MiB
    return Resolution(0.001 if metric.unit in TIME_UNITS else 1e-6, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One row's values, block by block: of the first arm and of the compared arm."""

    condition: int
    arm: str
    metric: Metric
    baseline: Floats
    candidate: Floats


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one arm in one condition, compared with the first arm; `n` runs of each.

    Attributes:
        before, after: geometric means; arithmetic ones if a value is 0 or below.
        ratio: the change, 0.25 is +25 %; None from 0.
        low, high: 95 % interval of `ratio`.
        p: two-sided p-value; None if unknown.
        noise: relative difference of one run of an arm from the next.
        differs: the change is significant, and large enough to matter.
    """

    condition: int
    arm: str
    metric: Metric
    n: int
    before: float
    after: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    noise: float | None = None
    differs: bool = False

    @property
    def is_time(self) -> bool:
        """Return whether less of the metric is faster."""
        return self.metric.unit in TIME_UNITS

    @property
    def is_memory(self) -> bool:
        return self.metric.unit == "bytes"

    @property
    def is_material(self) -> bool:
        """Return whether the change is large enough to be reported, if significant."""
        amount = abs(self.after - self.before)
        ratio = abs(self.ratio) if self.ratio is not None else float("inf")
        return ratio >= NEGLIGIBLE and amount >= resolution_of(self.metric).amount

    @property
    def is_equivalent(self) -> bool:
        """Return whether the whole interval is too small to matter."""
        if self.low is None or self.high is None:
            return self.before == self.after and self.n >= EQUAL_PAIRS
        widest = max(abs(self.low), abs(self.high))
        return widest < NEGLIGIBLE or widest * self.before < resolution_of(self.metric).amount

    @property
    def interval_width(self) -> float:
        """Return the width of the interval, as a ratio; infinite without an interval."""
        return float("inf") if self.low is None or self.high is None else self.high - self.low

    @property
    def is_noisy(self) -> bool:
        """Return whether the runs vary so much that a large change may stay hidden."""
        if self.noise is None or self.low is None or self.high is None:
            return False
        return self.noise > NOISY_RATIO and (self.high - self.low) / 2 > WIDE_INTERVAL_RATIO


def evaluate_rows(series: Sequence[Series], level: float) -> tuple[Row, ...]:
    """Test each series.

    Args:
        level: share of experiments without a difference that may report one, in each family.
    """
    rows = [replace(row, differs=row.is_material) for row in map(_tested, series)]
    families = [
        [row for row in rows if (row.metric == WALL) is decides] for decides in (True, False)
    ]
    wall, others = (iter(keep_significant(family, holm, level)) for family in families)
    return tuple(next(wall if row.metric == WALL else others) for row in rows)


def keep_significant(
    rows: Sequence[Row], select: Callable[[Sequence[float], float], Flags], level: float
) -> tuple[Row, ...]:
    """Return the rows of one family; `differs` remains only if significant in the family."""
    selected = iter(select([row.p for row in rows if row.p is not None], level).tolist())
    return tuple(
        replace(row, differs=row.p is not None and next(selected) and row.differs) for row in rows
    )


def _tested(series: Series) -> Row:
    a, b, n = series.baseline, series.candidate, len(series.baseline)
    name = (series.condition, series.arm, series.metric)
    if not n:
        return Row(*name, 0, float("nan"), float("nan"))
    in_logs = bool((a > 0).all() and (b > 0).all())
    x, y = (np.log(a), np.log(b)) if in_logs else (a, b)
    before, after = (float(np.exp(v.mean()) if in_logs else v.mean()) for v in (x, y))
    row = Row(*name, n, before, after, after / before - 1 if before > 0 else None)
    if n < MIN_PAIRS:
        return row
    fine = resolution_of(series.metric)
    least = max(fine.ratio, fine.resolution / min(before, after)) if in_logs else fine.resolution
    spread = max(float((y - x).std(ddof=1)), least)

    def as_ratio(difference: float) -> float | None:
        if in_logs:
            return float(np.expm1(min(difference, MAX_LOG_RATIO)))
        return float(difference / before) if before > 0 else None

    fitted = with_interval(row, float((y - x).mean()), spread, n - 1, as_ratio)
    return replace(fitted, noise=as_ratio(spread / np.sqrt(2)))


def with_interval(
    row: Row, center: float, spread: float, degrees: int, as_ratio: Callable[[float], float | None]
) -> Row:
    """Add Student's t on the mean of the differences to a row.

    Args:
        center: that mean.
        spread: of one difference, with its degrees of freedom.
        as_ratio: converts a difference to a ratio of the value before.
    """
    error = spread / float(np.sqrt(row.n))
    p = student_p(center / error, degrees) if error else float(center == 0)
    width = student_975(degrees) * error
    low, ratio, high = (as_ratio(center + w) for w in (-width, 0.0, width))
    return replace(row, ratio=ratio, low=low, high=high, p=p)
