"""Each arm beside the first, block by block: effect, interval, and what is no chance. Pure.

The two runs of a block give one difference, of logarithms where all values are above 0, so that
what slows the machine for both of them cancels. Student's t on those. Wall time decides, so its
rows (arms x conditions) are a family, and all others another one; in each the rate of experiments
with any false alarm is controlled by Holm's method, which needs nothing of how the rows hang
together: all rows share the runs of the first arm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.statistics import MIB, holm, student_975, student_p
from ciguard.experiment.measurement import CPU, GPU, PEAK, WALL, Metric
from ciguard.model import TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.compare.statistics import Flags, Floats

MIN_PAIRS: Final = 2  # without two differences there is no spread
EQUAL_PAIRS: Final = 4  # of constant values: fewer that agree may be luck
NEGLIGIBLE: Final = 0.01  # of a value: less is no headline, however sure it is
NOISY_RATIO: Final = 0.20  # of a value, by which one run differs from the next
MAX_LOG_RATIO: Final = 50.0  # of a logarithm: larger ratios are all alike
WIDE_INTERVAL_RATIO: Final = 0.25  # a change of a quarter could hide in the interval


@dataclass(frozen=True, slots=True)
class Resolution:
    """What is measured no finer, in the metric's unit.

    `ratio` of a value and `resolution` bound the spread from below, as equal values may be luck;
    `amount` is the least that matters.
    """

    ratio: float
    resolution: float
    amount: float


def resolution_of(metric: Metric) -> Resolution:
    """Of what the leg measures from outside; a program's own number is as fine as it says."""
    if metric in (WALL, CPU):
        return Resolution(0.001, 0.001, 0.002)
    if metric == PEAK:
        return Resolution(0.0, MIB / 16, MIB)
    if metric.name == GPU.name:
        return Resolution(0.0, MIB, MIB)  # what nvidia-smi says is in MiB
    return Resolution(0.001 if metric.unit in TIME_UNITS else 1e-6, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One row's values, block by block: of the first arm, and of the one compared with it."""

    condition: int
    arm: str
    metric: Metric
    baseline: Floats
    candidate: Floats


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one arm in one condition, compared with the first arm; `n` runs of each.

    Attributes:
        before, after: geometric means; plain ones where a value is 0 or below.
        ratio: the change, 0.25 is +25 %; None of 0. `low`, `high`: its 95 % interval.
        p: that chance alone does this, two-sided; None where it cannot be told.
        noise: by what share one run differs from the next, the arm aside.
        differs: it is no chance, and large enough to matter.
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
        """Less of it is faster."""
        return self.metric.unit in TIME_UNITS

    @property
    def is_memory(self) -> bool:
        """Less of it is smaller."""
        return self.metric.unit == "bytes"

    @property
    def is_material(self) -> bool:
        """Say that the change is large enough for a headline, were it sure."""
        amount = abs(self.after - self.before)
        ratio = abs(self.ratio) if self.ratio is not None else float("inf")
        return ratio >= NEGLIGIBLE and amount >= resolution_of(self.metric).amount

    @property
    def is_equivalent(self) -> bool:
        """Say that the whole interval is below what matters."""
        if self.low is None or self.high is None:
            return self.before == self.after and self.n >= EQUAL_PAIRS
        widest = max(abs(self.low), abs(self.high))
        return widest < NEGLIGIBLE or widest * self.before < resolution_of(self.metric).amount

    @property
    def interval_width(self) -> float:
        """Of the change, as a ratio; infinite without an interval."""
        return float("inf") if self.low is None or self.high is None else self.high - self.low

    @property
    def is_noisy(self) -> bool:
        """Say that its runs swing so much that much could hide."""
        if self.noise is None or self.low is None or self.high is None:
            return False
        return self.noise > NOISY_RATIO and (self.high - self.low) / 2 > WIDE_INTERVAL_RATIO


def evaluate_rows(series: Sequence[Series], level: float) -> tuple[Row, ...]:
    """Each row with its test.

    Args:
        level: share of experiments without a difference that may have one, in each family.
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
    """The rows of one family; `differs` stays only where it is no chance, over all of them."""
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
    row = Row(*name, n, before, after, _ratio(before, after))
    if n < MIN_PAIRS:
        return row
    fine = resolution_of(series.metric)
    finest = max(fine.ratio, fine.resolution / min(before, after)) if in_logs else fine.resolution
    return _fitted(row, y - x, finest, in_logs=in_logs)


def _ratio(before: float, after: float) -> float | None:
    return after / before - 1 if before > 0 else None


def _fitted(row: Row, difference: Floats, finest: float, *, in_logs: bool) -> Row:
    """The row with its interval."""
    spread = max(float(difference.std(ddof=1)), finest)

    def as_ratio(value: float) -> float | None:
        return _as_ratio(value, row.before, in_logs=in_logs)

    found = with_interval(row, float(difference.mean()), spread, row.n - 1, as_ratio)
    return replace(found, noise=as_ratio(spread / np.sqrt(2)))


def with_interval(
    row: Row,
    center: float,
    spread: float,
    degrees: int,
    as_ratio: Callable[[float], float | None],
) -> Row:
    """The row with Student's t on the mean of its differences.

    Args:
        center: that mean.
        spread: of one difference, with its degrees of freedom.
        as_ratio: what such a difference is of the value before.
    """
    error = spread / float(np.sqrt(row.n))
    p = student_p(center / error, degrees) if error else float(center == 0)
    width = student_975(degrees) * error
    low, ratio, high = (as_ratio(center + w) for w in (-width, 0.0, width))
    return replace(row, ratio=ratio, low=low, high=high, p=p)


def _as_ratio(difference: float, before: float, *, in_logs: bool) -> float | None:
    if in_logs:
        return float(np.expm1(min(difference, MAX_LOG_RATIO)))
    return float(difference / before) if before > 0 else None
