"""A tested process as the leg's rules see it: what it was given, what it is at, what it has done.

Changed by `state` alone. Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from ciguard.run.policy.actions import NO_TIME_S, Start

if TYPE_CHECKING:
    from ciguard.model import Ending, Result

Unit = TypeVar("Unit")


class UnitProgress(Generic[Unit]):
    """Which units are begun and which are over, by the start and result lines of one program."""

    def __init__(self, *, closes: bool = False) -> None:
        self.closes = closes  # its program says when a unit is over, and nothing else does
        self.open_units: dict[Unit, float] = {}  # unit -> at_s of its start
        self.has_result: set[Unit] = set()  # has a result, and may get more cases
        self.overlap = False  # units run side by side: one began while another was open
        self.finished: set[Unit] = set()

    def close(self, unit: Unit) -> None:
        """No more results of this unit are expected."""
        self.open_units.pop(unit, None)
        self.has_result.discard(unit)
        self.finished.add(unit)

    def close_reported(self) -> None:
        """A unit with several cases ends where the next one begins, or where its process does;
        none of a program that says it itself.
        """
        if self.closes:
            return
        for unit in tuple(self.has_result):
            self.close(unit)

    def begin(self, unit: Unit, at_s: float) -> None:
        """A unit starts; of one that did before, only the time is news."""
        if (
            unit not in self.open_units
            and unit not in self.has_result
            and unit not in self.finished
        ):
            self.overlap = self.overlap or bool(self.open_units.keys() - self.has_result)
        if not self.overlap:
            self.close_reported()
        self.open_units[unit] = at_s

    def report(self, unit: Unit, result: Result) -> bool:
        """Take in a result of a case; return whether the unit is over with it.

        A unit is over with the result that it died, or that is its own and no case's; with none, of
        a program that closes its units itself. Where units run side by side, only that, or the end
        of the process, says that it is over: it is no culprit then, its time is not watched, and
        after a death it runs again.
        """
        if not self.overlap and unit not in self.has_result:
            self.close_reported()
        self.has_result.add(unit)
        if self.overlap and not self.closes:
            self.open_units.pop(unit, None)
        is_own = result.case in ("", result.unit) and not self.closes
        is_over = is_own or result.outcome == "died"
        if is_over:
            self.close(unit)
        return is_over

    def may_be_running(self, unit: Unit) -> bool:
        """Return whether a unit that began may not be over: no result, or its program closes it."""
        return self.closes or unit not in self.has_result

    def reported(self) -> set[Unit]:
        """Return the units that are over or have some result."""
        return self.finished | self.has_result


@dataclass
class ProcessState(UnitProgress[int]):
    """A live process: what it was given, what it is at, what it has finished."""

    start: Start
    closes: bool = False
    open_units: dict[int, float] = field(default_factory=dict)
    has_result: set[int] = field(default_factory=set)
    overlap: bool = False
    finished: set[int] = field(default_factory=set)
    received: dict[int, float] = field(default_factory=dict)  # unit -> at_s, by the leg's own lines
    rss_before_bytes: dict[int, int] = field(
        default_factory=dict
    )  # unit -> resident where it began
    code_positions: dict[int, tuple[str, int | None]] = field(default_factory=dict)  # file and line
    failed: set[int] = field(default_factory=set)  # some case of it went wrong here
    last_failure_s: float = 0.0  # the last of those
    stopped: set[int] = field(default_factory=set)  # by the leg's deadline, or at a checkpoint
    wrote_lines: bool = False  # it wrote a line itself
    died: dict[int, Result] = field(default_factory=dict)
    had_concurrent_process: bool = False  # another process of the leg ran at some time of its life
    done_s: float | None = None  # its last unit was over, and it need only end
    thread_left_s: float | None = None  # its session was over, and a thread was not
    refuses_exit: bool = False  # the Stop was for that, or for another reason after its last unit
    finished_late: set[int] = field(default_factory=set)  # ended by themselves, after their limit
    max_bytes: int = 0  # that was seen of it since its last unit began
    resident_bytes: int | None = None  # after its last result
    resident_s: float = 0.0  # its moment: files of workers are read in any order
    stopping: Ending | None = None
    stop_unit: int | None = None  # by the Stop
    at_checkpoint: bool = False  # the Stop was one
    longest_s: float = NO_TIME_S  # the longest limit of its units; one without any has no end
    last_activity_s: float = NO_TIME_S  # its last result, or its start
    recycled: bool = False
    _next_index: int = 0  # start.units before it are closed or open

    def next_unit(self) -> int | None:
        """The first that was not begun; the supervisor asks 50 times a second, so no list."""
        units = self.start.units
        while self._next_index < len(units) and (
            units[self._next_index] in self.finished or units[self._next_index] in self.open_units
        ):
            self._next_index += 1
        return units[self._next_index] if self._next_index < len(units) else None

    def note_finished(self, at_s: float | None) -> None:
        """Take in that one of its units is over; after the last one it need only end."""
        if len(self.finished) == len(self.start.units):
            self.done_s = at_s

    def is_at_last_unit(self) -> bool:
        """Return whether it has begun all that it was given, so that the leg may ask for more."""
        return not self.recycled and self.stopping is None and self.next_unit() is None

    def has_started_unit(self) -> bool:
        """Return whether it came to any of its units."""
        return bool(self.reported() or self.open_units)

    def unfinished_units(self) -> tuple[int, ...]:
        """What it was given and has not finished, in order."""
        return tuple(unit for unit in self.start.units if unit not in self.finished)

    def was_cut_short(self, ending: Ending) -> bool:
        """Return whether what it has not finished would have run without that end.

        Of an undisturbed one a second process would not give it a result either. Where a worker of
        it died, its framework may have lost what that was to do, or want no other in its place.
        """
        is_over = ending == "completed" or self.refuses_exit
        return self.recycled or not is_over or bool(self.died)

    def unstarted_units(self) -> tuple[int, ...]:
        """What it was given and is not at yet, in order."""
        at = self.reported() | self.open_units.keys()
        return tuple(unit for unit in self.start.units if unit not in at)
