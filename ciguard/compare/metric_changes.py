"""Metrics that programs and logs gave in both runs, beside each other. Pure.

What stands in the key of a metric are its conditions: other ones are another row, and never pooled.
Of several values of one run the median stands for it. The history keeps no metrics, so there is no
scale to judge them by: they are numbers beside each other, and no verdict.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.run_columns import MetricKey, Run

NOTABLE_RATIO: Final = 0.05  # of a metric: less is not counted as a change


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


NO_METRICS: Final = Metrics()


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
