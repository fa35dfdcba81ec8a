"""Numbers that programs and logs gave, in both runs: by name, unit and conditions. Pure.

What stands in a metric's key are its conditions: other ones are another row, and never pooled. Of
several values of one run the median stands for it. The history keeps no metrics, so there is no
scale to judge them by: they are numbers beside each other, and no verdict.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from ciguard.compare.run_changes import NO_METRICS, MetricChange, Metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.compare.run_columns import MetricKey, Run
    from ciguard.model import Record


def metrics_of(records: Iterable[Record]) -> Mapping[MetricKey, tuple[float, ...]]:
    """The values of a run's legs, in their order."""
    found: dict[MetricKey, list[float]] = defaultdict(list)
    for record in records:
        for one in record.metrics:
            found[one.name, one.unit, tuple(sorted(one.key.items()))].append(one.value)
    return {key: tuple(values) for key, values in found.items()}


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
