"""The shard chart: a lane a shard, a rectangle a test as wide as its time. Pure.

Neighbours that would be too narrow to see are one rectangle, so that a page of 100,000 tests stays
small; a tooltip names them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.text import count_of, duration, one_line, size, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import Plan, PlannedUnit, Shard

# In the picture's own units, which are pixels on a window of 1,000.
WIDTH: Final = 1000.0
LEFT: Final = 56.0
RIGHT: Final = 84.0
POOL_RIGHT: Final = 190.0  # where the pool is named too
TOP: Final = 40.0
BOTTOM: Final = 24.0
LANE_HEIGHT: Final = 20.0

DEADLINE_WITHIN: Final = 1.6  # times the longest lane; a farther one would flatten the picture
HEADROOM: Final = 1.02
TICKS: Final = 8
STEPS_S: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200),
)

MIN_WIDTH: Final = 1.5
MAX_BLOCKS: Final = 6000  # about 1.2 MB
NAME_WIDTH: Final = 100

# "even" and "odd" take turns from file to file; the last two are no tests' part of a lane.
Kind = Literal["even", "odd", "merged", "guessed", "setup", "late"]


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle: one unit, neighbours too narrow to be seen, or what is no unit's."""

    x: float
    width: float
    kind: Kind
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A shard."""

    key: str
    y: float
    title: str
    label: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A line over all lanes, or a tick of the axis; `anchor` is SVG's, of its text."""

    kind: str
    x: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much fits on a lane: seconds, or units where no time is known."""

    is_time: bool
    maximum: float
    right: float

    @classmethod
    def of(cls, plan: Plan, *, is_time: bool) -> Scale:
        longest = float(max(len(shard.units) for shard in plan.shards))
        if is_time:
            predictions = [shard.predicted for shard in plan.shards]
            longest = max(max(one.wall_s, one.wall_p95_s) for one in predictions)
            deadline_s = plan.policy.deadline_s
            if deadline_s is not None and longest < deadline_s <= DEADLINE_WITHIN * longest:
                longest = deadline_s
        right = WIDTH - (POOL_RIGHT if len(plan.pools) > 1 else RIGHT)
        return cls(is_time, (longest or 1.0) * HEADROOM, right)

    def to_width(self, value: float) -> float:
        return value / self.maximum * (self.right - LEFT)

    def x(self, value: float) -> float:
        return round(LEFT + self.to_width(value), 1)


@dataclass(frozen=True, slots=True)
class ShardChart:
    """All that the template draws; `hidden_deadline` is one to the right of the chart, or ""."""

    scale: Scale
    height: float
    lanes: tuple[Lane, ...]
    marks: tuple[ReferenceLine, ...]
    ticks: tuple[ReferenceLine, ...]
    hidden_deadline: str

    @property
    def kinds(self) -> frozenset[str]:
        """What the legend has to explain."""
        return frozenset(block.kind for lane in self.lanes for block in lane.blocks)


def shard_chart(plan: Plan, *, is_measured: bool) -> ShardChart:
    """Lay the plan out. Where no time was measured, all tests are of one width. O(units)."""
    scale = Scale.of(plan, is_time=is_measured)
    deadline_s = plan.policy.deadline_s
    marks = [_mark("bound", plan.lower_bound_s, "lower bound", scale)]
    is_hidden = deadline_s is not None and deadline_s > scale.maximum
    if deadline_s is not None and not is_hidden:
        marks.append(_mark("deadline", deadline_s, "deadline", scale))
    return ShardChart(
        scale=scale,
        height=TOP + len(plan.shards) * LANE_HEIGHT + BOTTOM,
        lanes=tuple(_lanes(plan, scale)),
        marks=tuple(marks) if is_measured else (),
        ticks=tuple(_ticks(scale)) if is_measured else (),
        hidden_deadline=duration(deadline_s) if is_measured and is_hidden else "",
    )


def _lanes(plan: Plan, scale: Scale) -> Iterator[Lane]:
    # As fine as the page's size allows.
    room = scale.right - LEFT
    narrowest = max(MIN_WIDTH, 2 * room * len(plan.shards) / MAX_BLOCKS)
    for number, shard in enumerate(plan.shards):
        label = count_of(len(shard.units), "test")
        title = f"shard {one_line(shard.key, 40)}, pool {one_line(shard.pool, 40)}: {label}"
        if scale.is_time:
            label = duration(shard.predicted.wall_s)
            title += f"\n{label}, 95 % {duration(shard.predicted.wall_p95_s)}"
            title += f", {shard.processes} processes" * (shard.processes > 1)
        if len(plan.pools) > 1:
            label += f", {one_line(shard.pool, 16)}"
        yield Lane(
            key=one_line(shard.key, 8),
            y=TOP + number * LANE_HEIGHT,
            title=title,
            label=label,
            blocks=tuple(_blocks(shard, scale, narrowest)),
        )


def _blocks(shard: Shard, scale: Scale, narrowest: float) -> Iterator[Block]:
    weights = _weights(shard, scale)
    widths = [scale.to_width(value) for value in weights]
    files = [_file_of(unit.unit) for unit in shard.units]
    x, turn = LEFT, 0
    for begin, end in _runs(widths, narrowest):
        units, theirs = shard.units[begin:end], files[begin:end]
        turn += sum(files[place] != files[place - 1] for place in range(max(begin, 1), end))
        if scale.is_time and not any(unit.has_history for unit in units):
            kind: Kind = "guessed"
        elif len(set(theirs)) > 1:
            kind = "merged"
        else:
            kind = "odd" if turn % 2 else "even"
        width = math.fsum(widths[begin:end])
        yield Block(round(x, 1), round(width, 1), kind, _title(units, theirs, scale))
        x += width
    if scale.is_time:
        wall_s, late_s = shard.predicted.wall_s, shard.predicted.wall_p95_s
        idle = " and idle processes" if shard.processes > 1 else ""
        filled_s = math.fsum(weights)
        setup = f"{duration(wall_s - filled_s)} of set-up and overhead{idle}"
        yield from _span("setup", filled_s, wall_s, setup, scale)
        yield from _span("late", wall_s, late_s, f"95 % of the runs: {duration(late_s)}", scale)


def _span(kind: Kind, begin: float, end: float, title: str, scale: Scale) -> Iterator[Block]:
    """The part of a lane between two times; none where it has no width."""
    width = round(scale.to_width(end - begin), 1)
    if width > 0:
        yield Block(scale.x(begin), width, kind, title)


def _weights(shard: Shard, scale: Scale) -> list[float]:
    """What each unit takes of the lane: its time over the processes that share it."""
    if not scale.is_time:
        return [1.0] * len(shard.units)
    concurrent = max(1, min(shard.processes, len(shard.units)))
    walls_s = [unit.wall_s / concurrent for unit in shard.units]
    total_s = math.fsum(walls_s)
    # What units of one process share is saved: then they take less than their sum.
    ratio = min(1.0, shard.predicted.wall_s / total_s) if total_s > 0 else 1.0
    return [wall_s * ratio for wall_s in walls_s]


def _runs(widths: Sequence[float], narrowest: float) -> Iterator[tuple[int, int]]:
    """Begin and end of what becomes one rectangle: a wide unit, or narrow neighbours together."""
    begin, gathered = 0, 0.0
    for place, width in enumerate(widths):
        if begin < place and width >= narrowest:
            yield begin, place
            begin, gathered = place, 0.0
        gathered += width
        if gathered >= narrowest:
            yield begin, place + 1
            begin, gathered = place + 1, 0.0
    if begin < len(widths):
        yield begin, len(widths)


def _file_of(unit: str) -> str:
    """The file of a unit, or its class where ids name no files."""
    return unit.partition("::")[0] if "::" in unit else unit.rpartition(".")[0]


def _title(units: Sequence[PlannedUnit], files: Sequence[str], scale: Scale) -> str:
    known = sum(unit.has_history for unit in units)
    peaks = [unit.peak_delta_bytes for unit in units if unit.peak_delta_bytes is not None]
    wall = duration(math.fsum(unit.wall_s for unit in units))
    if len(units) == 1:
        name = unit_name(units[0].key, NAME_WIDTH)
        facts = [wall, f"peak {size(peaks[0])}" if peaks else "peak not measured"]
        facts += [] if known else ["guessed"]
    else:
        place = files[0] if files[0] == files[-1] else f"{files[0]} to {files[-1]}"
        name = f"{count_of(len(units), 'test')}: {one_line(place, NAME_WIDTH)}"
        facts = [f"{wall} together"]
        facts += [f"largest peak {size(max(peaks))}"] if peaks else []
        facts += [f"{len(units) - known:,} guessed"] if known < len(units) else []
    return f"{name}\n{', '.join(facts)}" if scale.is_time else name


def _mark(kind: str, value_s: float, label: str, scale: Scale) -> ReferenceLine:
    anchor = "end" if scale.to_width(value_s) > (scale.right - LEFT) / 2 else "start"
    return ReferenceLine(kind, scale.x(value_s), f"{label} {duration(value_s)}", anchor)


def _ticks(scale: Scale) -> Iterator[ReferenceLine]:
    step_s = next((step for step in STEPS_S if scale.maximum / step <= TICKS), scale.maximum)
    for number in range(int(scale.maximum / step_s) + 1):
        yield ReferenceLine("tick", scale.x(number * step_s), _axis(number * step_s, step_s))


def _axis(value_s: float, step_s: float) -> str:
    """Short, as the steps are round."""
    if step_s >= 3600:  # noqa: PLR2004
        return f"{value_s / 3600:.3g} h"
    if step_s >= 60:  # noqa: PLR2004
        return f"{value_s / 60:g} min"
    return f"{value_s:g} s"
