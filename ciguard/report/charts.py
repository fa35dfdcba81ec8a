"""The charts of a report as geometry, which the templates draw. Pure.

A chart has a title, a sentence and shapes in its own units; a template adds colours and text sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ciguard.guard.verdict import Leg
from ciguard.guard.wording import note_text
from ciguard.model import Plan, Record, SampleLine
from ciguard.model.record import newest_by_shard
from ciguard.text import distinct_lines, duration, one_line, size

MAX_LEGS: Final = 60  # bars; of more shards, the longest
MAX_CURVES: Final = 24
POINTS: Final = 160  # of a curve: the highest sample of each interval
HEADROOM: Final = 1.05
LABEL_ROOM: Final = 1.25  # above the values, for the label of a limit that is not drawn
MAX_SCALE: Final = 2  # times the peak: a higher limit is a label, and not drawn
LABEL: Final = 12  # characters of a shard's key

CURVE_WIDTH: Final = 300.0
CURVE_HEIGHT: Final = 90.0
BAR_X: Final = 96.0
BAR_ROOM: Final = 660.0
BAR_HEIGHT: Final = 18.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Memory of one leg over time.

    Attributes:
        points: the samples.
        peak_y: position of a peak between samples, known by a high-water mark; otherwise None.
        limit_y: position of the limit; None if it is unknown or far above all values.
        limit_label: the limit in words, "" if it is unknown.
    """

    shard: str
    title: str
    points: str
    peak_y: float | None
    limit_y: float | None
    limit_label: str
    wall_label: str
    exceeds_limit: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of a shard's wall time, with a mark at the predicted time."""

    label: str
    title: str
    y: float
    width: float
    mark_x: float | None
    value_label: str
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of a chart, the longest first; `omitted` counts the shards without room."""

    bars: tuple[Bar, ...]
    height: float
    omitted: int


def memory_chart(
    plan: Plan, legs: Sequence[Leg], records: Iterable[Record]
) -> tuple[tuple[Curve, ...], int]:
    """Draw the samples and the peak of each shard, those nearest to their limit first.

    Returns:
        at most `MAX_CURVES` curves, empty without a record, and the number of further shards.
    """
    newest = newest_by_shard(
        record for record in records if record.header and record.header.plan_id == plan.id
    )
    samples = {shard: record.samples for shard, record in newest.items()}
    budgets = {shard.key: shard.budget_bytes for shard in plan.shards}
    drawn = [_curve(leg, samples.get(leg.shard, ()), budgets.get(leg.shard)) for leg in legs]
    drawn.sort(key=lambda pair: (-pair[0], pair[1].shard))
    return tuple(curve for _, curve in drawn[:MAX_CURVES]), max(0, len(drawn) - MAX_CURVES)


def _curve(leg: Leg, lines: Sequence[SampleLine], budget: int | None) -> tuple[float, Curve]:
    samples = sorted((line.at_s, line.tree_bytes) for line in lines if line.tree_bytes is not None)
    limit = budget or leg.memory_bytes
    word = "budget" if budget else "memory"
    peak = leg.peak_bytes or 0
    sampled = max((value for _, value in samples), default=0)
    is_near = limit is not None and limit <= MAX_SCALE * peak
    top = max(peak, limit or 0, 1) * HEADROOM if is_near else max(peak, 1) * LABEL_ROOM
    wall_s = max(leg.wall_s or 0.0, samples[-1][0] if samples else 0.0, 0.001)

    def y(value: float) -> float:
        return round(CURVE_HEIGHT * (1 - value / top), 1)

    # The first sample twice: a browser draws no line of one point.
    points = " ".join(
        f"{CURVE_WIDTH * at_s / wall_s:.1f},{y(value)}"
        for at_s, value in (*samples[:1], *_downsample(samples))
    )
    shown = size(leg.peak_bytes) if leg.recorded else "no record"
    of_limit = f" of {size(limit)} {word}" if limit and peak else ""
    fewer = f"; {note_text(leg.fewer_at_once)}" if leg.fewer_at_once is not None else ""
    of_samples = f"; samples up to {size(sampled)}" if sampled else "; no samples"
    curve = Curve(
        leg.shard,
        f"shard {one_line(leg.shard, 40)}: {shown}{of_limit}{of_samples * (sampled < peak)}{fewer}",
        points,
        y(peak) if sampled < peak else None,
        y(limit) if limit and is_near else None,
        f"{word} {size(limit)}" if limit else "",
        duration(wall_s) if leg.recorded else "",
        limit is not None and peak > limit,
    )
    return (peak or leg.predicted_peak_bytes or 0) / limit if limit else 0.0, curve


def _downsample(samples: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the highest sample of each interval, so that no peak near the limit is lost."""
    each = math.ceil(len(samples) / POINTS) or 1
    return [
        max(samples[start : start + each], key=lambda pair: pair[1])
        for start in range(0, len(samples), each)
    ]


def wall_chart(legs: Sequence[Leg]) -> Bars:
    """Draw actual and predicted wall times, the longest first; unknown times as empty bars."""
    longest_s = {leg.shard: max(leg.wall_s or 0.0, leg.predicted_wall_s or 0.0) for leg in legs}
    known = sorted(legs, key=lambda leg: (-longest_s[leg.shard], leg.shard))
    scale = BAR_ROOM / (max(longest_s.values(), default=0.0) or 1.0)
    shown = known[:MAX_LEGS] if any(longest_s.values()) else []
    labels = distinct_lines([leg.shard for leg in shown], LABEL)
    bars = tuple(
        Bar(
            label,
            f"shard {one_line(leg.shard, 40)}: {duration(leg.wall_s)}, "
            f"predicted {duration(leg.predicted_wall_s)}, {leg.ending.replace('_', ' ')}",
            y=index * BAR_HEIGHT,
            width=round((leg.wall_s or 0.0) * scale, 1),
            mark_x=None
            if leg.predicted_wall_s is None
            else round(BAR_X + leg.predicted_wall_s * scale, 1),
            value_label=duration(leg.wall_s) if leg.recorded else "no record",
            is_bad=leg.ending != "completed",
        )
        for index, (label, leg) in enumerate(zip(labels, shown, strict=True))
    )
    return Bars(bars, len(bars) * BAR_HEIGHT, len(known) - len(shown))
