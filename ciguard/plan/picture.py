"""The shard picture: a lane a shard, a rectangle a unit as wide as its time. Pure.

Neighbours that would be too narrow to see are one rectangle, so that a page of 100,000 units stays
small; what they are is told when the pointer rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.model import UnitKey
from ciguard.plan import facts
from ciguard.plan.axis import BOTTOM, LANE_GAP, LEFT, TOP, WIDTH, Scale, marks_of, ticks
from ciguard.plan.inventory import class_of
from ciguard.rendering import render
from ciguard.run.frameworks.table import framework
from ciguard.text import counted, duration, one_line, size, unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ciguard.model import Plan, PlannedUnit, Shard
    from ciguard.plan.axis import Mark, Span

TEMPLATE: Final = "plan.html.j2"
LISTED: Final = 200  # rows of a table

NARROWEST: Final = 1.5
COARSER: Final = 1.5
NEAR_RATIO: Final = 1 / 3  # of the narrowest: so wide, a rectangle rather ends with its file
MOST_BLOCKS: Final = 6000  # about 1.2 MB
NAME_WIDTH: Final = 100

# "one" and "two" take turns from file to file.
Kind = Literal["one", "two", "several", "guessed"]


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
    end: float
    title: str
    said: str
    blocks: tuple[Block, ...]
    rest: Span | None
    late: Span | None


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the template draws."""

    width: float
    height: float
    left: float
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    notes: tuple[str, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """What the legend has to explain."""
        found: set[str] = {block.kind for lane in self.lanes for block in lane.blocks}
        found |= {"setup" for lane in self.lanes if lane.rest}
        return frozenset(found | {"late" for lane in self.lanes if lane.late})


def html(plan: Plan, split: Sequence[str]) -> str:
    """The whole page: one file without scripts that opens offline."""
    guessed = [(shard.key, unit) for shard in plan.shards for unit in shard.units if not unit.known]
    return render(
        TEMPLATE,
        plan=plan,
        headline=facts.headline(plan),
        facts=facts.facts(plan, split, NAME_WIDTH),
        picture=picture(plan),
        choice_head=facts.CHOICE_HEAD,
        choices=list(zip(plan.choices, facts.choice_rows(plan), strict=False)),
        notes=facts.choice_notes(plan, NAME_WIDTH),
        guessed=guessed if facts.is_measured(plan) else [],
        rows=LISTED,
        name=lambda one: unit_name(UnitKey(one.suite, one.variant, one.unit), 200),
    )


def picture(plan: Plan) -> Picture:
    """Lay the plan out; without any history a unit is as wide as every other. O(units)."""
    scale = Scale.of(plan)
    lanes = tuple(_lanes(plan, scale))
    bottom = TOP + len(lanes) * scale.lane_height
    marks, notes = marks_of(plan, scale)
    return Picture(
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
    widths = [[scale.wide(value) for value in values] for values in weights]
    home = _home(plan)
    homes = [[home(unit) for unit in shard.units] for shard in plan.shards]
    for number, (shard, runs) in enumerate(zip(plan.shards, _all_runs(widths, homes), strict=True)):
        filled = math.fsum(weights[number])
        wall_s, late_s = shard.predicted.wall_s, shard.predicted.wall_p95_s
        yield Lane(
            key=one_line(shard.key, 8),
            y=TOP + number * scale.lane_height,
            height=scale.lane_height - LANE_GAP,
            end=WIDTH - scale.right,
            title=_shard_title(shard, scale),
            said=_said(plan, shard, scale),
            blocks=tuple(_blocks(shard, widths[number], homes[number], runs, scale)),
            rest=scale.span(filled, wall_s, _rest_title(shard, wall_s - filled))
            if scale.is_time
            else None,
            late=scale.span(wall_s, late_s, f"until {duration(late_s)} in 95 % of the runs")
            if scale.is_time
            else None,
        )


def _weights(shard: Shard, scale: Scale) -> list[float]:
    """What each unit takes of the lane: its time over the processes that share it."""
    if not scale.is_time:
        return [1.0] * len(shard.units)
    beside = max(1, min(shard.processes, len(shard.units)))
    walls_s = [unit.wall_s / beside for unit in shard.units]
    total_s = math.fsum(walls_s)
    # What units of one process share is saved: then they take less than their sum.
    ratio = min(1.0, shard.predicted.wall_s / total_s) if total_s > 0 else 1.0
    return [wall_s * ratio for wall_s in walls_s]


def _all_runs(
    widths: Sequence[Sequence[float]], homes: Sequence[Sequence[str]]
) -> list[list[tuple[int, int]]]:
    """Each lane's, as fine as the page's size allows."""
    narrowest, most = NARROWEST, max(MOST_BLOCKS, len(widths))
    while True:
        lanes = zip(widths, homes, strict=True)
        found = [_runs(lane, of_lane, narrowest) for lane, of_lane in lanes]
        if sum(map(len, found)) <= most:
            return found
        narrowest *= COARSER


def _runs(widths: Sequence[float], homes: Sequence[str], narrowest: float) -> list[tuple[int, int]]:
    """Begin and end of what becomes one rectangle: a wide unit, or narrow neighbours together."""
    found: list[tuple[int, int]] = []
    begin, gathered = 0, 0.0
    for place, width in enumerate(widths):
        is_new = begin < place and homes[place] != homes[place - 1]
        if begin < place and (
            width >= narrowest or (is_new and gathered >= NEAR_RATIO * narrowest)
        ):
            found.append((begin, place))
            begin, gathered = place, 0.0
        gathered += width
        if gathered >= narrowest:
            found.append((begin, place + 1))
            begin, gathered = place + 1, 0.0
    if begin < len(widths):
        found.append((begin, len(widths)))
    return found


def _home(plan: Plan) -> Callable[[PlannedUnit], str]:
    """The file of a unit, or its class where ids name no files."""
    kin = {name: framework(suite.framework).kin for name, suite in plan.suites.items()}

    def home(unit: PlannedUnit) -> str:
        head, separator, _ = unit.unit.partition("::")
        if separator and head:
            return head
        return class_of(unit.unit, kin[unit.suite](unit.unit)) or unit.unit

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
        if scale.is_time and not any(unit.known for unit in units):
            kind: Kind = "guessed"
        elif len(set(files)) > 1:
            kind = "several"
        else:
            kind = "two" if turn % 2 else "one"
        width = math.fsum(widths[begin:end])
        yield Block(round(x, 1), round(width, 1), kind, _title(units, files, scale))
        x += width


def _title(units: Sequence[PlannedUnit], homes: Sequence[str], scale: Scale) -> str:
    known = sum(unit.known for unit in units)
    peaks = [unit.peak_delta_bytes for unit in units if unit.peak_delta_bytes is not None]
    wall_s = math.fsum(unit.wall_s for unit in units)
    if len(units) == 1:
        name = unit_name(units[0].key, NAME_WIDTH)
        told = [duration(wall_s), f"peak {size(peaks[0])}" if peaks else "peak not measured"]
        told += [] if known else ["guessed"]
    else:
        place = homes[0] if homes[0] == homes[-1] else f"{homes[0]} to {homes[-1]}"
        name = f"{counted(len(units), 'unit')}: {one_line(place, NAME_WIDTH)}"
        told = [f"{duration(wall_s)} together"]
        told += [f"largest peak {size(max(peaks))}"] if peaks else []
        told += [f"{len(units) - known:,} guessed"] if known < len(units) else []
    return f"{name}\n{', '.join(told)}" if scale.is_time else name


def _shard_title(shard: Shard, scale: Scale) -> str:
    said = f"shard {one_line(shard.key, 40)}, pool {one_line(shard.pool, 40)}: "
    said += counted(len(shard.units), "unit")
    if not scale.is_time:
        return said
    walls = f"{duration(shard.predicted.wall_s)}, 95 % {duration(shard.predicted.wall_p95_s)}"
    beside = f", {shard.processes} processes" if shard.processes > 1 else ""
    return f"{said}\n{walls}, peak {facts.peak(shard)}{beside}"


def _rest_title(shard: Shard, rest_s: float) -> str:
    idle = " and idle processes" if shard.processes > 1 else ""
    return f"{duration(rest_s)} of set-up and overhead{idle}"


def _said(plan: Plan, shard: Shard, scale: Scale) -> str:
    """Beside the lane."""
    said = duration(shard.predicted.wall_s) if scale.is_time else counted(len(shard.units), "unit")
    return f"{said}, {one_line(shard.pool, 16)}" if len(plan.pools) > 1 else said
