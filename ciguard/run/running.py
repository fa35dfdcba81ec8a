"""A tested process as the leg's rules see it: what it was given, what it is at, what it has done.

Changed by `state` alone. Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ciguard.run.actions import NEVER_S

if TYPE_CHECKING:
    from ciguard.model import Ending, Result
    from ciguard.run.actions import Start


@dataclass
class Running:
    """A live process: what it was given, what it is at, what it has finished."""

    start: Start
    open: dict[int, float] = field(default_factory=dict)  # unit -> at_s of its start
    reported: set[int] = field(default_factory=set)  # has a result, and may get more cases
    heard: dict[int, float] = field(default_factory=dict)  # unit -> at_s, by the leg's own lines
    before: dict[int, int] = field(default_factory=dict)  # unit -> resident where it began
    places: dict[int, tuple[str, int | None]] = field(default_factory=dict)  # file and line
    overlap: bool = False  # units of it run side by side: one began while another was open
    closed: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)  # some case of it went wrong here
    bad_s: float = 0.0  # the last of those
    stopped: set[int] = field(default_factory=set)  # by the leg's deadline, or at a checkpoint
    spoke: bool = False  # it wrote a line itself
    died: dict[int, Result] = field(default_factory=dict)
    beside: bool = False  # another process of the leg ran at some time of its life
    done_s: float | None = None  # its last unit was over, and it need only end
    late: set[int] = field(default_factory=set)  # ended by themselves, behind their limit
    largest_bytes: int = 0  # that was seen of it since its last unit began
    resident_bytes: int | None = None  # behind its last result
    resident_s: float = 0.0  # its moment: of files of workers, nobody knows which was read first
    stopping: Ending | None = None
    blamed: int | None = None  # by the Stop
    at_checkpoint: bool = False  # the Stop was one
    longest_s: float = NEVER_S  # the longest limit of its units; one without any has no end
    quiet_s: float = NEVER_S  # its last result, or its start
    recycled: bool = False
    told_s: float = NEVER_S  # when it was recycled
    goes_on: bool = False  # it began a unit although it had been told to stop
    _ahead: int = 0  # start.units before it are closed or open

    def next_unit(self) -> int | None:
        """The first that was not begun; the supervisor asks 50 times a second, so no list."""
        units = self.start.units
        while self._ahead < len(units) and (
            units[self._ahead] in self.closed or units[self._ahead] in self.open
        ):
            self._ahead += 1
        return units[self._ahead] if self._ahead < len(units) else None

    def close(self, unit: int) -> None:
        """No more results of this unit are expected."""
        self.open.pop(unit, None)
        self.reported.discard(unit)
        self.closed.add(unit)

    def close_reported(self) -> None:
        """A unit with several cases ends where the next one begins, or where its process does."""
        for unit in tuple(self.reported):
            self.close(unit)

    def begin(self, unit: int, at_s: float) -> None:
        """A unit starts; of one that did before, only the time is news."""
        if unit not in self.open and unit not in self.reported and unit not in self.closed:
            self.overlap = self.overlap or bool(self.open.keys() - self.reported)
        if not self.overlap:
            self.close_reported()
        self.open[unit] = at_s

    def report(self, unit: int) -> None:
        """A case of it has a result.

        Where units run side by side, only a result of the unit itself, or the end of the process,
        says that it is over: it is no culprit then, its time is not watched, and after a death it
        gets another turn.
        """
        if not self.overlap and unit not in self.reported:
            self.close_reported()
        self.reported.add(unit)
        if self.overlap:
            self.open.pop(unit, None)

    def has_begun(self) -> bool:
        """Whether it came to any of its units."""
        return bool(self.closed or self.reported or self.open)

    def unfinished(self) -> tuple[int, ...]:
        """What it was given and has not finished, in order."""
        return tuple(unit for unit in self.start.units if unit not in self.closed)

    def was_disturbed(self, ending: Ending) -> bool:
        """Whether what it has not finished would have had its turn without that end.

        Of an undisturbed one a second process would not give it a result either. Where a worker of
        it died, its framework may have lost what that was to do, or want no other in its place.
        """
        return self.recycled or ending != "completed" or bool(self.died)

    def not_begun(self) -> tuple[int, ...]:
        """What it was given and is not at yet, in order."""
        at = self.closed | self.reported | self.open.keys()
        return tuple(unit for unit in self.start.units if unit not in at)
