"""State of one tested process for the rules of a leg: its units, its memory, its stop.

`State` (state.py) alone changes it. Units are positions in the shard; moments are seconds since the
leg's start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ciguard.run.policy.actions import NO_TIME_S, Start
from ciguard.run.policy.unit_progress import UnitProgress

if TYPE_CHECKING:
    from ciguard.model import Ending, Result


@dataclass
class ProcessState(UnitProgress[int]):
    """A live process: the units that it was given, their progress, its memory and its stop."""

    start: Start
    closes_units: bool = False  # this and the next four: as of `UnitProgress`
    open_units: dict[int, float] = field(default_factory=dict)
    partial_units: set[int] = field(default_factory=set)
    has_overlap: bool = False
    finished: set[int] = field(default_factory=set)
    # Units.
    code_positions: dict[int, tuple[str, int | None]] = field(default_factory=dict)  # file and line
    failed_units: set[int] = field(default_factory=set)  # a case failed or errored
    deaths: dict[int, Result] = field(default_factory=dict)  # unit -> result of its death
    stopped_units: set[int] = field(default_factory=set)  # by the deadline or a checkpoint
    late_units: set[int] = field(default_factory=set)  # ended by themselves after their timeout
    # Unit -> at_s of its start as the leg received it, for start lines without a time.
    start_received_s: dict[int, float] = field(default_factory=dict)
    _next_index: int = 0  # all units before this index of start.units are finished or open
    # The process as a whole.
    wrote_lines: bool = False  # the process wrote a line: not all lines are the leg's assumptions
    had_concurrent_process: bool = False  # another process of the leg ran during its life
    longest_timeout_s: float = NO_TIME_S  # of its units; NO_TIME_S if one of them has none
    last_activity_at_s: float = NO_TIME_S  # last result, or the start of the process
    last_failure_at_s: float = 0.0  # last failed result
    done_s: float | None = None  # its last unit was over: the process need only exit
    thread_left_s: float | None = None  # its session was over, but a thread was still running
    # Memory, in bytes.
    rss_before_bytes: dict[int, int] = field(default_factory=dict)  # unit -> resident at its start
    max_bytes_in_unit: int = 0  # largest sample since the last start of a unit
    resident_bytes: int | None = None  # after the last result that measured it
    resident_at_s: float = 0.0  # of that result: files of workers are read in any order
    # The end of the process by the leg.
    stopping: Ending | None = None
    stop_unit: int | None = None  # the unit that the Stop blames
    at_checkpoint: bool = False  # only a step of the leg is over
    refuses_exit: bool = False  # stopped because it did not exit after its last unit
    recycled: bool = False  # exits after its current unit; a fresh process takes the rest

    def next_unit(self) -> int | None:
        """Return the first unit that has not begun.

        The supervisor asks 50 times a second, so the search starts where the last one ended.
        """
        units = self.start.units
        while self._next_index < len(units) and (
            units[self._next_index] in self.finished or units[self._next_index] in self.open_units
        ):
            self._next_index += 1
        return units[self._next_index] if self._next_index < len(units) else None

    def note_finished(self, at_s: float | None) -> None:
        """Note the moment if all units are over."""
        if len(self.finished) == len(self.start.units):
            self.done_s = at_s

    def is_at_last_unit(self) -> bool:
        """Return whether the process has begun all its units, so that the leg may claim more."""
        return not self.recycled and self.stopping is None and self.next_unit() is None

    def has_started_unit(self) -> bool:
        """Return whether the process began any of its units."""
        return bool(self.units_with_result() or self.open_units)

    def unfinished_units(self) -> tuple[int, ...]:
        """Return the units that are not over, in order."""
        return tuple(unit for unit in self.start.units if unit not in self.finished)

    def unstarted_units(self) -> tuple[int, ...]:
        """Return the units that have neither begun nor a result, in order."""
        started = self.units_with_result() | self.open_units.keys()
        return tuple(unit for unit in self.start.units if unit not in started)

    def was_cut_short(self, ending: Ending) -> bool:
        """Return whether a fresh process may give the unfinished units a result.

        After an undisturbed end a second process would leave them without a result, too. If a
        worker of the process died, the framework may have lost the rest of the worker's units.
        """
        is_over = ending == "completed" or self.refuses_exit
        return self.recycled or not is_over or bool(self.deaths)
