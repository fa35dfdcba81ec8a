"""The charts of a report as geometry: where each mark stands, for the templates to draw. Pure.

A chart is a title, what it shows in a sentence, and shapes in its own units; a template knows
colours and text sizes, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.text import distinct_lines, duration, one_line, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ciguard.guard.verdict import Leg
    from ciguard.model import Plan, Record

MAX_LEGS: Final = 60  # bars; of more, the longest
MAX_CURVES: Final = 24
POINTS: Final = 160  # of a curve; the highest of each stretch is kept
HEADROOM: Final = 1.05
LABEL_ROOM: Final = 1.25  # above the values, for a mark at the edge
MAX_SCALE: Final = 2  # times the peak: a limit further above it is a mark at the edge
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
        limit_y: where the limit is; None where none is known or it is far above all values.
        limit_label: the limit in words, "" where none is known.
    """

    shard: str
    title: str
    points: str
    limit_y: float | None
    limit_label: str
    wall_label: str
    exceeds_limit: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A leg's wall time and, as a mark, what was predicted."""

    label: str
    title: str
    y: float
    width: float
    mark_x: float | None
    value_label: str
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """All of them, the longest first; `omitted` counts what has no room."""

    bars: tuple[Bar, ...]
    height: float
    omitted: int


def memory_chart(plan: Plan, records: Iterable[Record]) -> tuple[tuple[Curve, ...], int]:
    """Draw the newest record of each leg, those first that came nearest to their limit.

    Returns:
        at most `MAX_CURVES` of them, and how many legs have a curve that is not among them.
    """
    newest: dict[str, Record] = {}
    for record in records:
        head = record.header
        if head is None or head.plan_id != plan.id or not record.samples:
            continue
        known = newest.get(head.shard)
        before = known.header.run_attempt if known is not None and known.header else 0
        if known is None or (head.run_attempt or 1) >= (before or 1):
            newest[head.shard] = record
    budgets = {shard.key: shard.budget_bytes for shard in plan.shards}
    found = [
        drawn
        for shard, record in newest.items()
        if (drawn := _curve(shard, record, budgets.get(shard))) is not None
    ]
    found.sort(key=lambda pair: (-pair[0], pair[1].shard))
    return tuple(one for _, one in found[:MAX_CURVES]), max(0, len(found) - MAX_CURVES)


def _curve(shard: str, record: Record, budget: int | None) -> tuple[float, Curve] | None:
    seen = sorted(
        (one.at_s, one.tree_bytes) for one in record.samples if one.tree_bytes is not None
    )
    if not seen:
        return None
    runner = record.header.runner if record.header else None
    limit = budget or (runner.memory_bytes if runner is not None else None)
    word = "budget" if budget else "memory"
    peak = max(value for _, value in seen)
    is_near = limit is not None and limit <= MAX_SCALE * peak
    most = max(peak, limit or 0, 1) * HEADROOM if is_near else max(peak, 1) * LABEL_ROOM
    wall_s = max(record.wall_s or 0.0, seen[-1][0], 0.001)
    points = " ".join(
        f"{CURVE_WIDTH * at_s / wall_s:.1f},{CURVE_HEIGHT * (1 - value / most):.1f}"
        for at_s, value in _downsample(seen)
    )
    of = f" of {size(limit)} {word}" if limit else ""
    drawn = Curve(
        shard,
        f"shard {one_line(shard, 40)}: {size(peak)}{of}",
        points,
        round(CURVE_HEIGHT * (1 - limit / most), 1) if limit and is_near else None,
        f"{word} {size(limit)}" if limit else "",
        duration(wall_s),
        limit is not None and peak > limit,
    )
    return peak / limit if limit else 0.0, drawn


def _downsample(samples: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The highest sample of each stretch: what is near the limit must not be thinned away."""
    each = math.ceil(len(samples) / POINTS)
    return [
        max(samples[at : at + each], key=lambda pair: pair[1])
        for at in range(0, len(samples), each)
    ]


def wall_chart(legs: Sequence[Leg]) -> Bars:
    """Actual beside predicted, the longest first; a leg without a time has an empty bar."""
    known = [leg for leg in legs if leg.wall_s is not None or leg.predicted_wall_s is not None]
    known.sort(key=lambda leg: (-max(leg.wall_s or 0.0, leg.predicted_wall_s or 0.0), leg.shard))
    most = max((max(leg.wall_s or 0.0, leg.predicted_wall_s or 0.0) for leg in known), default=0.0)
    scale = BAR_ROOM / (most or 1.0)
    shown = known[:MAX_LEGS]
    labels = distinct_lines([leg.shard for leg in shown], LABEL)
    bars = tuple(
        Bar(
            label,
            f"shard {one_line(leg.shard, 40)}: {duration(leg.wall_s)}, "
            f"predicted {duration(leg.predicted_wall_s)}, {leg.ending.replace('_', ' ')}",
            y=at * BAR_HEIGHT,
            width=round((leg.wall_s or 0.0) * scale, 1),
            mark_x=None
            if leg.predicted_wall_s is None
            else round(BAR_X + leg.predicted_wall_s * scale, 1),
            value_label=duration(leg.wall_s) if leg.recorded else "no record",
            is_bad=leg.ending != "completed",
        )
        for at, (label, leg) in enumerate(zip(labels, shown, strict=True))
    )
    return Bars(bars, len(bars) * BAR_HEIGHT, len(known) - len(shown))
