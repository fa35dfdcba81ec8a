"""The step of a job to which a line of its log belongs: GitHub's log of a job is one text. Pure.

GitHub gives the start of each step to the second, and each line has its own time. In the second in
which one step ends and the next begins, the step begins at the line that the runner prints first.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ciguard.logs.log_reader import LogReading
from ciguard.logs.values import Place
from ciguard.model.jobs import Step

_SECOND: Final = len("2026-06-08T13:58:54")
_BOM: Final = b"\xef\xbb\xbf"
_FIRST_LINES: Final = (b"##[group]Run ", b"Post job cleanup.", b"Cleaning up orphan processes")


def started_steps(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that began, in order."""
    started = (step for step in steps if step.started_at and step.conclusion != "skipped")
    return sorted(started, key=lambda step: step.number)


def find_steps(log: Iterable[bytes], steps: Iterable[Step]) -> dict[int, Step]:
    """Return by line of the job's log, from 1, the step whose output begins there. O(lines).

    Steps that did not run, or printed nothing, are left out.
    """
    later = deque(
        (f"{step.started_at:%Y-%m-%dT%H:%M:%S}".encode(), step) for step in started_steps(steps)
    )
    starts: dict[int, Step] = {}
    for number, line in enumerate(log, 1):
        second = line.removeprefix(_BOM)[:_SECOND]
        current = None
        begins = not starts or line.partition(b" ")[2].startswith(_FIRST_LINES)
        while later and later[0][0] <= second and (begins or later[0][0] < second):
            start, current = later.popleft()
            if later and later[0][0] == second == start:
                break  # each of two steps in one second has its own first line
        if current is not None:
            starts[number] = current
    return starts


def with_steps(
    reading: LogReading, starts: Mapping[int, Step], *, named: bool = True
) -> LogReading:
    """Return the values of a job's log, each with its step and its line in the step.

    Args:
        named: put the name of the step into the place of a value, so that only values of steps with
            this name are compared.
    """
    lines = list(starts)

    def place_of(place: Place) -> Place:
        position = bisect.bisect_right(lines, place.line) - 1
        if position < 0:
            return place
        step, line = starts[lines[position]], place.line - lines[position] + 1
        return replace(place, step=step.name if named else "", line=line, step_number=step.number)

    return replace(
        reading,
        values=tuple(replace(value, place=place_of(value.place)) for value in reading.values),
        unreadable=tuple(replace(text, place=place_of(text.place)) for text in reading.unreadable),
    )
