"""The shard chart: a lane a shard, a rectangle a test as wide as its time. Pure.

Neighbours that would be too narrow to see are one rectangle, so that a page of 100,000 tests stays
small; a tooltip names them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.plan.inventory import class_of
from ciguard.run.frameworks.registry import framework
from ciguard.text import count_of, duration, one_line, size, unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ciguard.model import Plan, PlannedUnit, Shard

# In the picture's own units, which are pixels on a window of 1,000.
WIDTH: Final = 1000.0
LEFT: Final = 56.0
RIGHT: Final = 84.0
POOL_RIGHT: Final = 190.0  # where the pool is named too
TOP: Final = 40.0
BOTTOM: Final = 24.0
LANE_HEIGHTS: Final = ((16, 26.0), (48, 18.0), (256, 13.0))  # up to so many lanes
LANE_GAP: Final = 3.0

DEADLINE_WITHIN: Final = 1.6  # times the longest lane; a farther one would flatten the picture
HEADROOM: Final = 1.02
TICKS: Final = 8
STEPS_S: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200),
)

MIN_WIDTH: Final = 1.5
COARSENING: Final = 1.5
MAX_BLOCKS: Final = 6000  # about 1.2 MB
NAME_WIDTH: Final = 100

# "even" and "odd" take turns from file to file.
Kind = Literal["even", "odd", "merged", "guessed"]


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a lane that is no unit's."""

    x: float
    width: float
    title: str


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
    lane_height: float

    @classmethod
    def of(cls, plan: Plan, *, is_time: bool) -> Scale:
        if is_time:
            longest = max(
                max(shard.predicted.wall_s, shard.predicted.wall_p95_s) for shard in plan.shards
            )
            deadline_s = plan.policy.deadline_s
            if deadline_s is not None and longest < deadline_s <= DEADLINE_WITHIN * longest:
                longest = deadline_s
        else:
            longest = max(len(shard.units) for shard in plan.shards)
        return cls(
            is_time=is_time,
            maximum=(longest or 1.0) * HEADROOM,
            right=POOL_RIGHT if len(plan.pools) > 1 else RIGHT,
            lane_height=next(
                (height for most, height in LANE_HEIGHTS if len(plan.shards) <= most),
                LANE_HEIGHTS[-1][1],
            ),
        )

    @property
    def room(self) -> float:
        return WIDTH - LEFT - self.right

    def to_width(self, value: float) -> float:
        return value / self.maximum * self.room

    def x(self, value: float) -> float:
        return round(LEFT + self.to_width(value), 1)

    def span(self, begin: float, end: float, title: str) -> Span | None:
        """The part of a lane between two times; None where it has no width."""
        width = round(self.to_width(end - begin), 1)
        return Span(self.x(begin), width, title) if self.is_time and width > 0 else None


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle: one unit, or neighbours too narrow to be seen."""

    x: float
    width: float
    kind: Kind
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A shard. `rest` is set-up and overhead, `late` what the 95 % add."""

    key: str
    y: float
    height: float
    end_x: float
    title: str
    label: str
    blocks: tuple[Block, ...]
    overhead: Span | None
    p95_margin: Span | None


@dataclass(frozen=True, slots=True)
class ShardChart:
    """All that the template draws."""

    width: float
    height: float
    left: float
    lanes: tuple[Lane, ...]
    marks: tuple[ReferenceLine, ...]
    ticks: tuple[ReferenceLine, ...]
    notes: tuple[str, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """What the legend has to explain."""
        found: set[str] = {block.kind for lane in self.lanes for block in lane.blocks}
        found |= {"setup" for lane in self.lanes if lane.overhead}
        return frozenset(found | {"late" for lane in self.lanes if lane.p95_margin})


def shard_chart(plan: Plan, *, is_measured: bool) -> ShardChart:
    """Lay the plan out. Where no time was measured, all tests are of one width. O(units)."""
    scale = Scale.of(plan, is_time=is_measured)
    lanes = tuple(_lanes(plan, scale))
    bottom = TOP + len(lanes) * scale.lane_height
    marks, notes = reference_lines(plan, scale)
    return ShardChart(
        width=WIDTH,
        height=bottom + BOTTOM,
        left=LEFT,
        lanes=lanes,
        marks=tuple(marks),
        ticks=tuple(ticks(scale)) if scale.is_time else (),
        notes=tuple(notes),
    )


def _lanes(plan: Plan, scale: Scale) -> Iterator[Lane]:
    weights = [_weights(shard, scale) for shard in plan.shards]
    widths = [[scale.to_width(value) for value in values] for values in weights]
    home = _file_of(plan)
    homes = [[home(unit) for unit in shard.units] for shard in plan.shards]
    for number, (shard, runs) in enumerate(zip(plan.shards, _all_runs(widths), strict=True)):
        filled = math.fsum(weights[number])
        wall_s, late_s = shard.predicted.wall_s, shard.predicted.wall_p95_s
        yield Lane(
            key=one_line(shard.key, 8),
            y=TOP + number * scale.lane_height,
            height=scale.lane_height - LANE_GAP,
            end_x=WIDTH - scale.right,
            title=_shard_title(shard, scale),
            label=_lane_label(plan, shard, scale),
            blocks=tuple(_blocks(shard, widths[number], homes[number], runs, scale)),
            overhead=scale.span(filled, wall_s, _overhead_title(shard, wall_s - filled)),
            p95_margin=scale.span(wall_s, late_s, f"until {duration(late_s)} in 95 % of the runs"),
        )


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


def _all_runs(widths: Sequence[Sequence[float]]) -> list[list[tuple[int, int]]]:
    """Each lane's, as fine as the page's size allows."""
    narrowest, most = MIN_WIDTH, max(MAX_BLOCKS, len(widths))
    while True:
        found = [_runs(lane, narrowest) for lane in widths]
        if sum(map(len, found)) <= most:
            return found
        narrowest *= COARSENING


def _runs(widths: Sequence[float], narrowest: float) -> list[tuple[int, int]]:
    """Begin and end of what becomes one rectangle: a wide unit, or narrow neighbours together."""
    found: list[tuple[int, int]] = []
    begin, gathered = 0, 0.0
    for place, width in enumerate(widths):
        if begin < place and width >= narrowest:
            found.append((begin, place))
            begin, gathered = place, 0.0
        gathered += width
        if gathered >= narrowest:
            found.append((begin, place + 1))
            begin, gathered = place + 1, 0.0
    if begin < len(widths):
        found.append((begin, len(widths)))
    return found


def _file_of(plan: Plan) -> Callable[[PlannedUnit], str]:
    """The file of a unit, or its class where ids name no files."""
    ancestors = {name: framework(suite.framework).ancestors for name, suite in plan.suites.items()}

    def home(unit: PlannedUnit) -> str:
        head, separator, _ = unit.unit.partition("::")
        if separator and head:
            return head
        return class_of(unit.unit, ancestors[unit.suite](unit.unit)) or unit.unit

    return home


def _blocks(
    shard: Shard,
    widths: Sequence[float],
    homes: Sequence[str],
    runs: Sequence[tuple[int, int]],
    scale: Scale,
) -> Iterator[Block]:
    x, turn = LEFT, 0
    for begin, end in runs:
        units, files = shard.units[begin:end], homes[begin:end]
        turn += sum(homes[place] != homes[place - 1] for place in range(max(begin, 1), end))
        if scale.is_time and not any(unit.has_history for unit in units):
            kind: Kind = "guessed"
        elif len(set(files)) > 1:
            kind = "merged"
        else:
            kind = "odd" if turn % 2 else "even"
        width = math.fsum(widths[begin:end])
        yield Block(round(x, 1), round(width, 1), kind, _title(units, files, scale))
        x += width


def _title(units: Sequence[PlannedUnit], homes: Sequence[str], scale: Scale) -> str:
    known = sum(unit.has_history for unit in units)
    peaks = [unit.peak_delta_bytes for unit in units if unit.peak_delta_bytes is not None]
    wall_s = math.fsum(unit.wall_s for unit in units)
    if len(units) == 1:
        name = unit_name(units[0].key, NAME_WIDTH)
        parts = [duration(wall_s), f"peak {size(peaks[0])}" if peaks else "peak not measured"]
        parts += [] if known else ["guessed"]
    else:
        place = homes[0] if homes[0] == homes[-1] else f"{homes[0]} to {homes[-1]}"
        name = f"{count_of(len(units), 'test')}: {one_line(place, NAME_WIDTH)}"
        parts = [f"{duration(wall_s)} together"]
        parts += [f"largest peak {size(max(peaks))}"] if peaks else []
        parts += [f"{len(units) - known:,} guessed"] if known < len(units) else []
    return f"{name}\n{', '.join(parts)}" if scale.is_time else name


def _shard_title(shard: Shard, scale: Scale) -> str:
    text = f"shard {one_line(shard.key, 40)}, pool {one_line(shard.pool, 40)}: "
    text += count_of(len(shard.units), "test")
    if not scale.is_time:
        return text
    walls = f"{duration(shard.predicted.wall_s)}, 95 % {duration(shard.predicted.wall_p95_s)}"
    return f"{text}\n{walls}" + (f", {shard.processes} processes" * (shard.processes > 1))


def _overhead_title(shard: Shard, overhead_s: float) -> str:
    idle = " and idle processes" if shard.processes > 1 else ""
    return f"{duration(overhead_s)} of set-up and overhead{idle}"


def _lane_label(plan: Plan, shard: Shard, scale: Scale) -> str:
    """At the end of the lane."""
    text = duration(shard.predicted.wall_s) if scale.is_time else count_of(len(shard.units), "test")
    return f"{text}, {one_line(shard.pool, 16)}" if len(plan.pools) > 1 else text


def reference_lines(plan: Plan, scale: Scale) -> tuple[list[ReferenceLine], list[str]]:
    """The lower bound's and the deadline's lines, and a note where one is outside of the chart."""
    if not scale.is_time:
        return [], ["No timings yet: all tests are drawn with the same width."]
    marks = [_mark("bound", plan.lower_bound_s, "lower bound", scale)]
    deadline_s = plan.policy.deadline_s
    if deadline_s is None:
        return marks, []
    if deadline_s > scale.maximum:
        note = f"The deadline, {duration(deadline_s)}, is to the right of the chart."
        return marks, [note]
    return [*marks, _mark("deadline", deadline_s, "deadline", scale)], []


def _mark(kind: str, value_s: float, label: str, scale: Scale) -> ReferenceLine:
    anchor = "end" if scale.to_width(value_s) > scale.room / 2 else "start"
    return ReferenceLine(kind, scale.x(value_s), f"{label} {duration(value_s)}", anchor)


def ticks(scale: Scale) -> Iterator[ReferenceLine]:
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
