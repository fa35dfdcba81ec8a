"""What is told of legs, jobs, processes and whole runs, and of metrics that programs and logs gave.

What stands in the key of a metric are its conditions: other ones are another row, and never pooled.
Of several values of one run the median stands for it. The history keeps no metrics, so there is no
scale to judge them by: they are numbers beside each other, and no verdict. Pure.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.history.query import STEADY_S
from ciguard.model import TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.run_columns import MetricKey, Run
    from ciguard.compare.statistics import Tier
    from ciguard.model import Ending

DOUBLE: Final = 2.0  # times the sum of before: no runner is half as fast as another
NOTABLE_RATIO: Final = 0.05  # of a metric: less is not counted as a change
JobTransition = Literal[
    "unblocked", "newly cancelled", "newly failing", "fixed", "newly skipped", "added", "removed"
]
SuiteSpeedState = Literal[
    "slower",
    "maybe slower",
    "faster",
    "maybe faster",
    "no significant difference",
    "unclear",
    "not enough data",
    "not measured",
]
TrendName = Literal["makespan_s", "sum_s", "peak_bytes"]


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `speed` is how slow this runner was: 1.3 took 30 % longer than usual for the same tests;
    `probe_ratio` is the same of a fixed piece of CPU work, against the baseline's median (the
    base's without a baseline). `predicted_...` are the candidate's plan's.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    budget_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None
    probe_ratio: float | None = None
    predicted_wall_s: float | None = None
    predicted_peak_bytes: int | None = None
    pool: str = ""


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job whose conclusion is another than on the base; None where it was not there.

    `word` is None for a pair of conclusions that has no name of its own.
    """

    name: str
    before: str | None
    after: str | None
    transition: JobTransition | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed minutes of legs, or of all jobs; the price where that of every pool is known."""

    minutes: int
    price_usd: float | None
    includes_all_jobs: bool


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: what all of its tests kept together.
        trimmed_growth_bytes: without the tenth that keeps most, of the tests that the base has too.
        before_bytes: the same of the baseline; None where it has too few of these tests.
    """

    shard: str
    process: int
    tests: int
    growth_bytes: int
    trimmed_growth_bytes: int
    before_bytes: int | None
    n: int
    tier: Tier


@dataclass(frozen=True, slots=True)
class SuiteSpeed:
    """The suite's own speed, that of the runners taken out by their probes: 0.1 is 10 % slower.

    `low` and `high` are its 95 % interval, `n` the baseline runs with a probe.
    `measured_ratio`: the same with the runners in it, where that contradicts `ratio`; else None.
    """

    verdict: SuiteSpeedState
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    measured_ratio: float | None = None


NO_SUITE_SPEED: Final = SuiteSpeed("not measured")


@dataclass(frozen=True, slots=True)
class TotalVsBaseline:
    """A measure of a whole run, and the median of `n` baseline runs."""

    name: TrendName
    before: float
    after: float
    n: int

    @property
    def is_doubled(self) -> bool:
        """Say that the sum is at least twice what it was."""
        return self.name == "sum_s" and _is_double(self.before, self.after)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A number that a program or a log gave in both runs, under the conditions of its `key`.

    `before` and `after` are the medians of `n_before` and `n_after` values; `ratio` is None where
    there was nothing, or less, before. Nothing says how far such a number moves by itself.
    """

    name: str
    unit: str
    key: Mapping[str, str]
    before: float
    after: float
    ratio: float | None
    n_before: int
    n_after: int

    @property
    def is_cost(self) -> bool:
        """Say that less of it is better: a time or a size. Of other numbers nobody knows."""
        return self.unit in TIME_UNITS or self.unit == "bytes"

    @property
    def relative_change(self) -> float:
        """How far it moved, in its own measure; a change from nothing is the farthest."""
        if self.ratio is None:
            return float("inf") if self.before != self.after else 0.0
        return abs(self.ratio)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of both runs; how many conditions and names only one of them has."""

    changes: tuple[MetricChange, ...] = ()
    only_before: int = 0
    only_after: int = 0

    @property
    def moved(self) -> tuple[MetricChange, ...]:
        """Those that changed by enough to be counted."""
        return tuple(one for one in self.changes if one.relative_change >= NOTABLE_RATIO)

    @property
    def is_mixed(self) -> bool:
        """Say that some costs rose and others fell."""
        return len({one.after > one.before for one in self.moved if one.is_cost}) > 1


NO_METRICS: Final = Metrics()


@dataclass(frozen=True, slots=True)
class Totals:
    """Whole runs. The makespan is told only of complete ones; the sum over `common` cases that
    passed in both, as measured."""

    makespan_before_s: float | None = None
    makespan_after_s: float | None = None
    common: int = 0
    sum_before_s: float | None = None
    sum_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None

    @property
    def is_doubled(self) -> bool:
        """Say that the sum is at least twice what it was on the base."""
        before, after = self.sum_before_s, self.sum_after_s
        return before is not None and after is not None and _is_double(before, after)


def _is_double(before_s: float, after_s: float) -> bool:
    return after_s >= max(DOUBLE * before_s, STEADY_S)


def compare_metrics(base: Run | None, candidate: Run) -> Metrics:
    """Those of both runs, the largest change first; how many only one of them has.

    Nothing where one has none at all: a run of the history never has.
    """
    if base is None or not base.metrics or not candidate.metrics:
        return NO_METRICS
    both = base.metrics.keys() & candidate.metrics.keys()
    changes = [_change(key, base.metrics[key], candidate.metrics[key]) for key in sorted(both)]
    return Metrics(
        changes=tuple(sorted(changes, key=lambda one: -one.relative_change)),
        only_before=len(base.metrics) - len(both),
        only_after=len(candidate.metrics) - len(both),
    )


def _change(
    key: MetricKey, values_before: tuple[float, ...], values_after: tuple[float, ...]
) -> MetricChange:
    before, after = (statistics.median(values) for values in (values_before, values_after))
    return MetricChange(
        name=key[0],
        unit=key[1],
        key=dict(key[2]),
        before=before,
        after=after,
        ratio=after / before - 1 if before > 0 else None,
        n_before=len(values_before),
        n_after=len(values_after),
    )
