"""What a comparison shows of numbers that changed within the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.series import FLAT_BYTES, MIN_JUDGED, RESIDENT
from ciguard.document import Code, Column, Section, Table
from ciguard.text import count_of, duration, one_line, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.series import Series, SeriesChange, SeriesSummary, Trend
    from ciguard.document import Row

_AMOUNTS: Final = {"s": duration, "bytes": size}
_ORDER: Final[tuple[Trend, ...]] = ("grows", "falls", "no clear trend", "not judged", "flat")


def series_section(changes: Sequence[SeriesChange]) -> Section:
    """A row for each metric with several values in one process; nothing without any."""
    columns = (
        Column("metric"), Column("first and last"), Column("largest", "right", drop=2),
        Column("in this run"), Column("before"),
    )  # fmt: skip
    rows = tuple(_row(one) for one in sorted(changes, key=_rank))
    title = "Within the run"
    size_ = (len(rows), "metric")
    return Section("series", (Table(columns, rows, "metric"),), title, size_, drop=13, folded=True)


def _rank(change: SeriesChange) -> int:
    steepest = change.after.steepest
    return _ORDER.index(steepest.trend) if steepest is not None else len(_ORDER)


def _row(change: SeriesChange) -> Row:
    after, steepest = change.after, change.after.steepest
    assert steepest is not None
    return (
        Code(_title(after)),
        f"{_amount(steepest.first, after.unit)} -> {_amount(steepest.last, after.unit)}",
        _amount(steepest.largest, after.unit),
        summary_text(after),
        summary_text(change.before) if change.before is not None else "-",
    )


def _title(one: SeriesSummary) -> str:
    key = ", ".join(f"{name}={value}" for name, value in sorted(one.key.items()))
    return f"{one.name} ({key})" if key else one.name


def summary_text(summary: SeriesSummary) -> str:
    """ "grows 11.0 MiB a test (n=20) in process 2 of shard 03; flat in 7 others"."""
    steepest = summary.steepest
    if steepest is None:
        return ""
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


def trend_text(one: Series, summary: SeriesSummary) -> str:
    """ "flat over 20 tests (+0.4 MiB)", "grows 11.0 MiB a test (n=20)"."""
    item = "test" if summary.name == RESIDENT else "value"
    if one.trend in ("grows", "falls"):
        step = _amount(abs(one.slope), summary.unit)
        return f"{one.trend} {step} a {item} (n={one.n:,})"
    change = one.last - one.first
    sign = "+" if change >= 0 else "-"
    few = f" of {MIN_JUDGED}" if one.trend == "not judged" else ""
    amount = _amount(abs(change), summary.unit)
    return f"{one.trend} over {one.n}{few} {item}s ({sign}{amount})"


def _place(one: Series) -> str:
    process = f"process {one.process}" if one.process is not None else ""
    shard = f"shard {one.shard}" if one.shard else ""
    return " of ".join(filter(None, (process, shard)))


def _amount(value: float, unit: str) -> str:
    show = _AMOUNTS.get(unit)
    if show is None or value < 0:
        return f"{value:,.4g}{f' {one_line(unit, 20)}' if unit else ''}"
    if unit == "bytes" and value < FLAT_BYTES:
        return f"{value / FLAT_BYTES:.1f} MiB"
    return show(value)
