"""Which step of its job a line of a log is of: GitHub's log of a job is one text. Pure.

GitHub says when a step began, to the second; each line has its own time. In the second in which one
step ends and the next begins, the line decides with which the runner begins a step's output.
"""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ciguard.logs.log_reader import LogReading
    from ciguard.logs.values import Place

_SECOND: Final = len("2026-06-08T13:58:54")
_BOM: Final = b"\xef\xbb\xbf"
_FIRST_LINES: Final = (b"##[group]Run ", b"Post job cleanup.", b"Cleaning up orphan processes")


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step as GitHub lists it; `started_at` is in UTC."""

    number: int
    name: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class StepStart:
    """From which line of the job's log on a step prints, from 1."""

    line: int
    step: TimedStep


def find_steps(log: IO[bytes], steps: Iterable[TimedStep]) -> tuple[StepStart, ...]:
    """Say where each step begins; none of a step that printed nothing. O(lines)."""
    waiting = deque(
        (one.started_at.strftime("%Y-%m-%dT%H:%M:%S").encode(), one)
        for one in sorted(steps, key=lambda one: one.number)
    )
    found: list[StepStart] = []
    for number, line in enumerate(log, 1):
        second = line.removeprefix(_BOM)[:_SECOND]
        current = None
        while waiting and waiting[0][0] <= second and (
            not found or waiting[0][0] < second or _begins_step(line)
        ):  # fmt: skip
            current = waiting.popleft()[1]
            if waiting and waiting[0][0] == second:
                break  # of two in one second, each has a first line
        if current is not None:
            found.append(StepStart(number, current))
    return tuple(found)


def _begins_step(line: bytes) -> bool:
    return line.partition(b" ")[2].startswith(_FIRST_LINES)


def with_steps(
    reading: LogReading, starts: Sequence[StepStart], *, named: bool = True
) -> LogReading:
    """The values of a job's log at their step, with the line in it.

    Args:
        named: the step's name is part of a value's place, and so of what it is compared with.
    """
    lines = [one.line for one in starts]

    def place_of(place: Place) -> Place:
        position = bisect.bisect_right(lines, place.line) - 1
        if position < 0:
            return place
        step = starts[position].step
        return replace(
            place,
            step=step.name if named else "",
            line=place.line - lines[position] + 1,
            step_number=step.number,
        )

    return replace(
        reading,
        values=tuple(replace(one, place=place_of(one.place)) for one in reading.values),
        unreadable=tuple(replace(one, place=place_of(one.place)) for one in reading.unreadable),
    )
