"""Values of metrics over past runs: one a run and series. Pure.

A series is what has one name, unit and key; of several values of a run the median stands for it,
beside their number. At most `MAX_SERIES` series are kept, those with the newest runs, each with the
values of its last `VALUES_PER_SERIES` runs.

Merging does not care for order, with one exception as in `merge`: a series that had no room does
not get its older values back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec.record.lines import CHECKS, LineError, LineSchema, each

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import MetricLine

    MetricKey = tuple[str, str, tuple[tuple[str, str], ...]]  # name, unit, key

ITERATION: Final = "iteration"
VALUES_PER_SERIES: Final = 20  # as of a case: older ones tell of another program
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
        """Series are sorted by it."""
        return (self.name, self.unit, tuple(sorted(self.key.items())))


def metric_key(line: MetricLine) -> MetricKey:
    """What a value is compared by; the number of an iteration only says which of them it is."""
    key = tuple(sorted(item for item in line.key.items() if item[0] != ITERATION))
    return line.name, line.unit, key


def _series(key: MetricKey, values: tuple[RunValue, ...]) -> MetricSeries:
    return MetricSeries(key[0], values, key[1], dict(key[2]))


def series_of(
    lines: Iterable[MetricLine], patterns: Sequence[str], run_id: int, run_attempt: int
) -> tuple[MetricSeries, ...]:
    """The series of one run whose names match a pattern, as `[metrics] keep` has them.

    Args:
        lines: of the legs that ended by themselves: another one has only a part of its values.
    """
    found: dict[MetricKey, list[float]] = defaultdict(list)
    for line in lines:
        if any(fnmatchcase(line.name, pattern) for pattern in patterns):
            found[metric_key(line)].append(line.value)
    return tuple(
        _series(key, (RunValue(run_id, median(values), len(values), run_attempt),))
        for key, values in sorted(found.items())
    )


def merge_series(
    a: tuple[MetricSeries, ...], b: tuple[MetricSeries, ...], places: Mapping[int, int]
) -> tuple[MetricSeries, ...]:
    """What both know, of the runs in `places`: run id to position, oldest first."""
    merged: dict[MetricKey, dict[int, RunValue]] = {one.identity: {} for one in (*a, *b)}
    for one in (*a, *b):
        values = merged[one.identity]
        for value in one.values:
            if value.run_id in places:
                known = values.get(value.run_id)
                values[value.run_id] = max(known, value, key=_weight) if known else value
    found = [
        _series(key, _newest(values.values(), places)) for key, values in merged.items() if values
    ]
    found.sort(key=lambda one: (-places[one.values[-1].run_id], one.identity))
    return tuple(sorted(found[:MAX_SERIES], key=lambda one: one.identity))


def _weight(value: RunValue) -> tuple[int, int, float]:
    """Of two medians of a run that of more values counts, then that of the newer attempt.

    A leg that is run again, or added, alone has fewer values than the run has.
    """
    return (value.n, value.run_attempt, value.value)


def _newest(values: Iterable[RunValue], places: Mapping[int, int]) -> tuple[RunValue, ...]:
    return tuple(sorted(values, key=lambda one: places[one.run_id])[-VALUES_PER_SERIES:])


def count_without_room(a: Iterable[MetricSeries], b: Iterable[MetricSeries]) -> int:
    """How many series of two histories are not kept once they are joined."""
    return max(0, len({one.identity for one in (*a, *b)}) - MAX_SERIES)


def series_as_json(series: tuple[MetricSeries, ...]) -> list[Any]:
    """What `series_of_json` reads back."""
    return [asdict(one) for one in series]


_CHECKS: Final = {**CHECKS, "tuple[RunValue, ...]": each(LineSchema(RunValue, CHECKS).build)}
_SERIES: Final = each(LineSchema(MetricSeries, _CHECKS).build)


def series_of_json(content: Any, places: Mapping[int, int]) -> tuple[MetricSeries, ...]:
    """The series in JSON.

    Raises:
        LineError: a value is not what its key says or of no run of the history, or series or
            values are not sorted or not unique.
    """
    series: tuple[MetricSeries, ...] = _SERIES(content)
    identities = [one.identity for one in series]
    if identities != sorted(set(identities)):
        raise LineError("metrics out of order, or a metric twice")
    for one in series:
        runs = [places.get(value.run_id, -1) for value in one.values]
        if not runs or min(runs) < 0 or runs != sorted(set(runs)):
            raise LineError(f"metric {one.name!r:.80}: runs out of order, twice or unknown")
        if min(value.n for value in one.values) < 1:
            raise LineError(f"metric {one.name!r:.80}: a median of no value")
    return series
