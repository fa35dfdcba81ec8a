"""Series: the values of a metric over time within a process, and their trend. Pure.

The memory of a process is a random walk. A line fitted through such a walk has a slope beyond 3
standard errors in 59 % of 4,000 walks. Therefore the steps between the means of ten blocks are
judged: a series has a trend if their mean is more than 4.5 standard errors from 0. Measured in
tests/compare/test_series.py, less than 1 % of random walks of 20 to 200 values get a trend, and no
independent noise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

import numpy as np

from ciguard.codec.columns import Floats
from ciguard.document import Code, Column, Row, Section, Table
from ciguard.history.metric_series import MetricKey as Identity
from ciguard.history.metric_series import metric_key
from ciguard.logs.values import LogValue
from ciguard.model import Record
from ciguard.render.changes import amount_text, exact_change
from ciguard.text import count_of

RESIDENT: Final = "resident memory"
_RESIDENT_KEY: Final[Identity] = (RESIDENT, "bytes", ())
MIN_SHOWN: Final = 5  # values of a series
MIN_JUDGED: Final = 20
BLOCKS: Final = 10
STANDARD_ERRORS: Final = 4.5
FLAT_RATIO: Final = 0.01  # of the median, between the smallest and the largest value
FLAT_BYTES: Final = 1 << 20
MAX_SERIES: Final = 10_000  # of a run

Trend = Literal["flat", "grows", "falls", "no clear trend", "not judged"]


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one metric in one process, in their order.

    Attributes:
        slope: mean step from one value to the next.
        n: number of values, at least 5.
    """

    shard: str
    process: int | None
    first: float
    last: float
    largest: float
    slope: float
    n: int
    trend: Trend


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """The series of one metric in all processes of a run.

    Attributes:
        trends: number of processes by trend.
        steepest: the series with a trend and the largest slope; without a trend, the largest slope.
    """

    name: str
    unit: str
    key: Mapping[str, str]
    trends: Mapping[Trend, int]
    steepest: Series


@dataclass(frozen=True, slots=True)
class SeriesChange:
    """The series of a metric in the candidate, and in the base if it has any."""

    after: SeriesSummary
    before: SeriesSummary | None


def measure_series(
    values: Sequence[float] | Floats,
    unit: str = "",
    shard: str = "",
    process: int | None = None,
) -> Series:
    """Describe a series of at least two values, in their order, of one process."""
    column = np.asarray(values, np.float64)
    return Series(
        shard,
        process,
        float(column[0]),
        float(column[-1]),
        float(column.max()),
        float(column[-1] - column[0]) / (len(column) - 1),
        len(column),
        _trend(column, unit),
    )


def _trend(column: Floats, unit: str) -> Trend:
    width = float(column.max() - column.min())
    middle = abs(float(np.median(column)))
    if width <= max(FLAT_RATIO * middle, FLAT_BYTES if unit == "bytes" else 0.0):
        return "flat"
    if len(column) < MIN_JUDGED:
        return "not judged"
    steps = np.diff([block.mean() for block in np.array_split(column, BLOCKS)])
    mean, error = float(steps.mean()), float(steps.std(ddof=1)) / len(steps) ** 0.5
    if abs(mean) <= STANDARD_ERRORS * error:
        return "no clear trend"
    return "grows" if mean > 0 else "falls"


def summarize_series(records: Iterable[Record]) -> tuple[SeriesSummary, ...]:
    """Return the series of a run by metric, first that of resident memory before each test."""
    by_metric: dict[Identity, list[Series]] = defaultdict(list)
    for record in records:
        for (process, identity), values in _values_of(record).items():
            if _is_series(identity[1], values) and len(by_metric) < MAX_SERIES:
                shard = record.identity.shard
                by_metric[identity].append(measure_series(values, identity[1], shard, process))
    ordered = sorted(by_metric.items(), key=lambda pair: (pair[0][0] != RESIDENT, pair))
    return tuple(_summary(identity, series) for identity, series in ordered)


def summarize_values(values: Iterable[LogValue]) -> tuple[SeriesSummary, ...]:
    """Return the series of a log, by place and metric."""
    by_metric: dict[Identity, list[float]] = defaultdict(list)
    for value in values:
        place = {name: text for name in ("job", "step") if (text := getattr(value.place, name))}
        key = {**place, **{field.name: field.value for field in value.key}}
        unit = "bytes" if value.unit == "B" else value.unit
        by_metric[value.name, unit, tuple(key.items())].append(value.value)
    return tuple(
        _summary(identity, [measure_series(numbers, identity[1])])
        for identity, numbers in by_metric.items()
        if _is_series(identity[1], numbers)
    )


def _is_series(unit: str, values: Sequence[float]) -> bool:
    """Return whether there are enough values; those of a counted line are all 1."""
    return len(values) >= MIN_SHOWN and (bool(unit) or set(values) != {1.0})


def compare_series(
    before: Sequence[SeriesSummary], after: Sequence[SeriesSummary]
) -> tuple[SeriesChange, ...]:
    """Pair the series of each metric of the candidate with those of the base."""
    known = {_identity(summary): summary for summary in before}
    return tuple(SeriesChange(summary, known.get(_identity(summary))) for summary in after)


def _identity(summary: SeriesSummary) -> Identity:
    return summary.name, summary.unit, tuple(sorted(summary.key.items()))


def _values_of(record: Record) -> dict[tuple[int | None, Identity], list[float]]:
    """Return the values by process and metric; those of concurrent tests have no order."""
    by_series: dict[tuple[int | None, Identity], list[float]] = defaultdict(list)
    shared = {line.process for line in record.results if (line.concurrent or 1) > 1}
    memory = (
        (line.process, _RESIDENT_KEY, line.rss_before_bytes or None) for line in record.starts
    )
    metrics = ((line.process, metric_key(line), line.value) for line in record.metrics)
    for process, identity, value in chain(memory, metrics):
        if value is not None and process not in shared:
            by_series[process, identity].append(float(value))
    return by_series


def _summary(identity: Identity, series: Sequence[Series]) -> SeriesSummary:
    name, unit, key = identity
    trends = Counter(item.trend for item in series)
    steepest = max(series, key=lambda item: (item.trend in ("grows", "falls"), abs(item.slope)))
    return SeriesSummary(name, unit, dict(key), dict(trends), steepest)


_ORDER: Final[tuple[Trend, ...]] = ("grows", "falls", "no clear trend", "not judged", "flat")


def series_section(changes: Sequence[SeriesChange]) -> Section:
    """Return the table with a row for each metric that has a series."""
    columns = (Column("metric"), Column("before"), Column("in this run"))
    ordered = sorted(changes, key=lambda change: _ORDER.index(change.after.steepest.trend))
    rows = tuple(map(_row, ordered))
    title = "Within the run"
    size_ = (len(rows), "metric")
    return Section("series", (Table(columns, rows, "metric"),), title, size_, drop=13, folded=True)


def _row(change: SeriesChange) -> Row:
    before, after = change.before, change.after
    return Code(series_title(after.name, after.key)), _side(before) if before else "-", _side(after)


def _side(summary: SeriesSummary) -> str:
    """Return "512 MiB -> 732 MiB, largest 740 MiB: grows 11.0 MiB a test (n=21)"."""
    steepest = summary.steepest
    numbers = (steepest.first, steepest.last, steepest.largest)
    first, last, largest = (amount_text(number, summary.unit) for number in numbers)
    return f"{first} -> {last}, largest {largest}: {summary_text(summary)}"


def series_title(name: str, key: Mapping[str, str]) -> str:
    """Return "xla.heap (ordinal=1)"."""
    text = ", ".join(f"{part}={value}" for part, value in sorted(key.items()))
    return f"{name} ({text})" if text else name


def summary_text(summary: SeriesSummary) -> str:
    """Return "grows 11.0 MiB a test (n=20) in process 2 of shard 03; flat in 7 others"."""
    steepest = summary.steepest
    others = {
        trend: number - (trend == steepest.trend)
        for trend in _ORDER
        if (number := summary.trends.get(trend, 0)) > (trend == steepest.trend)
    }
    count = sum(summary.trends.values())
    where = f" in {_place(steepest)}" if count > 1 else ""
    parts = [f"{trend_text(steepest, summary)}{where}"]
    parts += [f"{trend} in {count_of(number, 'other')}" for trend, number in others.items()]
    return "; ".join(parts)


def trend_text(series: Series, summary: SeriesSummary) -> str:
    """Return "flat over 20 tests (+410 KiB)", "grows 11.0 MiB a test (n=20)"."""
    item = "test" if summary.name == RESIDENT else "value"
    if series.trend in ("grows", "falls"):
        step = amount_text(abs(series.slope), summary.unit)
        return f"{series.trend} {step} a {item} (n={series.n:,})"
    change = exact_change(series.last - series.first, None, summary.unit)
    few = f" of {MIN_JUDGED}" if series.trend == "not judged" else ""
    return f"{series.trend} over {series.n}{few} {item}s ({change})"


def _place(series: Series) -> str:
    process = f"process {series.process}" if series.process is not None else ""
    shard = f"shard {series.shard}" if series.shard else ""
    return " of ".join(filter(None, (process, shard)))
