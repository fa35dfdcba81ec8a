"""Values of metrics over past runs: one value for each series and run. Pure.

A series has one name, unit and key. Its value in a run is the median of the run's values, with
their number. At most `MAX_SERIES` series are kept, those with the newest runs, each with the values
of its last `VALUES_PER_SERIES` runs.

Merging is independent of the order, except that a dropped series does not get its older values
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import attrgetter
from statistics import median
from typing import Any, Final

from ciguard.codec.record.lines import CHECKS, LineError, LineSchema, each
from ciguard.model import MetricLine

MetricKey = tuple[str, str, tuple[tuple[str, str], ...]]  # name, unit, key

ITERATION: Final = "iteration"
VALUES_PER_SERIES: Final = 20  # as of a case: older ones were measured on another program
MAX_SERIES: Final = 500


@dataclass(frozen=True, slots=True)
class RunValue:
    """The median of `n` values of one run, in its newest attempt that has them."""

    run_id: int
    value: float
    n: int = 1
    run_attempt: int = 1


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The values of one name, unit and key, oldest first; never empty."""

    name: str
    values: tuple[RunValue, ...]
    unit: str = ""
    key: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> MetricKey:
        """Return name, unit and key, by which series are sorted."""
        return (self.name, self.unit, tuple(sorted(self.key.items())))


def metric_key(line: MetricLine) -> MetricKey:
    """Return the series of a value; the number of an iteration is not part of its key."""
    key = tuple(sorted(item for item in line.key.items() if item[0] != ITERATION))
    return line.name, line.unit, key


def _series(key: MetricKey, values: tuple[RunValue, ...]) -> MetricSeries:
    return MetricSeries(key[0], values, key[1], dict(key[2]))


def series_of(
    lines: Iterable[MetricLine], patterns: Sequence[str], run_id: int, run_attempt: int
) -> tuple[MetricSeries, ...]:
    """Collect the series of one run whose names match a pattern of `[metrics] keep`.

    Args:
        lines: of the legs that ended by themselves: any other leg has only a part of its values.
    """
    values_by_key: dict[MetricKey, list[float]] = defaultdict(list)
    for line in lines:
        if any(fnmatchcase(line.name, pattern) for pattern in patterns):
            values_by_key[metric_key(line)].append(line.value)
    return tuple(
        _series(key, (RunValue(run_id, median(values), len(values), run_attempt),))
        for key, values in sorted(values_by_key.items())
    )


def merge_series(
    a: tuple[MetricSeries, ...], b: tuple[MetricSeries, ...], run_positions: Mapping[int, int]
) -> tuple[MetricSeries, ...]:
    """Merge series, with the values of the runs in `run_positions` (by id, oldest first)."""
    merged: dict[MetricKey, dict[int, RunValue]] = defaultdict(dict)
    for series in (*a, *b):
        values = merged[series.identity]
        for value in series.values:
            if value.run_id in run_positions:
                known = values.get(value.run_id)
                # The median of more values: a leg that is run or added alone has fewer.
                values[value.run_id] = max(
                    (known or value, value), key=attrgetter("n", "run_attempt", "value")
                )
    newest_first = [
        _series(key, _newest(values.values(), run_positions))
        for key, values in merged.items()
        if values
    ]
    newest_first.sort(
        key=lambda series: (-run_positions[series.values[-1].run_id], series.identity)
    )
    return tuple(sorted(newest_first[:MAX_SERIES], key=lambda series: series.identity))


def _newest(values: Iterable[RunValue], run_positions: Mapping[int, int]) -> tuple[RunValue, ...]:
    return tuple(sorted(values, key=lambda value: run_positions[value.run_id])[-VALUES_PER_SERIES:])


def count_without_room(a: Iterable[MetricSeries], b: Iterable[MetricSeries]) -> int:
    """Return how many series of two histories are dropped when they are merged."""
    return max(0, len({series.identity for series in (*a, *b)}) - MAX_SERIES)


_CHECKS: Final = {**CHECKS, "tuple[RunValue, ...]": each(LineSchema(RunValue, CHECKS).build)}
_SERIES: Final = each(LineSchema(MetricSeries, _CHECKS).build)


def series_of_json(content: Any, run_positions: Mapping[int, int]) -> tuple[MetricSeries, ...]:
    """Read series from JSON.

    Raises:
        LineError: a value has the wrong type or is of no run of the history, or series or values
            are not sorted or not unique.
    """
    all_series: tuple[MetricSeries, ...] = _SERIES(content)
    identities = [series.identity for series in all_series]
    if identities != sorted(set(identities)):
        raise LineError("metrics out of order, or a metric twice")
    for series in all_series:
        runs = [run_positions.get(value.run_id, -1) for value in series.values]
        if not runs or min(runs) < 0 or runs != sorted(set(runs)):
            raise LineError(f"metric {series.name!r:.80}: runs out of order, twice or unknown")
        if min(value.n for value in series.values) < 1:
            raise LineError(f"metric {series.name!r:.80}: a median of no value")
    return all_series
