"""Where things stand in the shard picture: its frame, its scale, the lines over all lanes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.plan import key_facts
from ciguard.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.model import Plan

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
    def of(cls, plan: Plan) -> Scale:
        is_time = key_facts.is_measured(plan)
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
        width = round(self.to_width(end - begin), 1)
        return Span(self.x(begin), width, title) if width > 0 else None


def reference_lines(plan: Plan, scale: Scale) -> tuple[list[ReferenceLine], list[str]]:
    """The lower bound's and the deadline's lines, and what is said where one is out of sight."""
    if not scale.is_time:
        return [], ["No times are known: each unit is as wide as every other."]
    marks = [_mark("bound", plan.lower_bound_s, "lower bound", scale)]
    deadline_s = plan.policy.deadline_s
    if deadline_s is None:
        return marks, []
    if deadline_s > scale.maximum:
        note = f"The deadline, {duration(deadline_s)}, lies to the right of the picture."
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
