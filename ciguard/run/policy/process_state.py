"""State of one tested process for the rules of a leg: its units, memory, and stop by the leg.

Only `State` (state.py) changes this state. A unit is its position in the shard; a moment is in
seconds since the leg's start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ciguard.model import Ending, Result
from ciguard.run.policy.actions import NO_TIME_S, Start

Unit = TypeVar("Unit")


class UnitProgress(Generic[Unit]):
    """The units of one process: running, partly reported, or over.

    A unit is over when it died, when a result of the unit itself arrives, when the next unit begins
    after results of its cases, or when its process completes. If the program reports the end of
    each unit (`Suite.closes_units`), only this report or a death ends the unit.
    """

    def __init__(self, *, closes_units: bool = False) -> None:
        self.closes_units = closes_units  # the program reports the end of each unit
        self.open_units: dict[Unit, float] = {}  # unit -> at_s of its start
        self.partial_units: set[Unit] = set()  # with a result; more cases may follow
        # If units ran side by side, only a report or the end of the process ends a unit with cases.
        self.has_overlap = False
        self.finished: set[Unit] = set()

    def close(self, unit: Unit) -> None:
        """Mark a unit as over: no more results of it follow."""
        self.open_units.pop(unit, None)
        self.partial_units.discard(unit)
        self.finished.add(unit)

    def close_partial(self) -> None:
        """Close the units that have results, unless their program reports the end of each unit."""
        if self.closes_units:
            return
        for unit in tuple(self.partial_units):
            self.close(unit)

    def begin(self, unit: Unit, at_s: float) -> None:
        """Mark a unit as running; a second start of the unit only sets its time."""
        has_begun = unit in self.open_units or unit in self.partial_units or unit in self.finished
        if not has_begun and self.open_units.keys() - self.partial_units:
            self.has_overlap = True
        if not self.has_overlap:
            self.close_partial()
        self.open_units[unit] = at_s

    def report(self, unit: Unit, result: Result) -> bool:
        """Store the result of a case; return whether the result ends its unit.

        If units overlap, a unit with a result is no longer open: a death does not blame it, and its
        time is not watched. The unit runs again if the process dies before the unit is over.
        """
        if not self.has_overlap and unit not in self.partial_units:
            self.close_partial()
        self.partial_units.add(unit)
        if self.has_overlap and not self.closes_units:
            self.open_units.pop(unit, None)
        is_own = result.case in ("", result.unit) and not self.closes_units
        is_over = is_own or result.outcome == "died"
        if is_over:
            self.close(unit)
        return is_over

    def may_be_running(self, unit: Unit) -> bool:
        """Return whether an open unit may still run: no result, or a program that reports ends."""
        return self.closes_units or unit not in self.partial_units

    def units_with_result(self) -> set[Unit]:
        """Return the units that are over or have any result."""
        return self.finished | self.partial_units


@dataclass
class ProcessState(UnitProgress[int]):
    """A live process: its assigned units, their progress, its memory and its stop by the leg."""

    start: Start
    closes_units: bool = False  # the program reports the end of each unit
    open_units: dict[int, float] = field(default_factory=dict)  # unit -> at_s of its start
    partial_units: set[int] = field(default_factory=set)  # with a result; cases may follow
    has_overlap: bool = False  # units ran side by side
    finished: set[int] = field(default_factory=set)  # over: no further result follows
    # Units.
    code_positions: dict[int, tuple[str, int | None]] = field(default_factory=dict)  # file and line
    failed_units: set[int] = field(default_factory=set)  # a case failed or errored
    failed_s: dict[int, tuple[float, float]] = field(default_factory=dict)  # start, end
    passed_s: dict[int, float] = field(default_factory=dict)  # units with a pass -> their time
    deaths: dict[int, Result] = field(default_factory=dict)  # unit -> result of its death
    stopped_units: set[int] = field(default_factory=set)  # by the deadline or a checkpoint
    late_units: set[int] = field(default_factory=set)  # ended unstopped after their timeout
    # Unit -> at_s of its start as the leg received it, for start lines without a time.
    start_received_s: dict[int, float] = field(default_factory=dict)
    _next_index: int = 0  # all units before this index of start.units are finished or open
    # The process as a whole.
    wrote_lines: bool = False  # lines of the process itself, without those of the leg
    had_concurrent_process: bool = False  # another process of the leg ran during its life
    longest_timeout_s: float = NO_TIME_S  # of its units; NO_TIME_S if any unit has no timeout
    last_activity_at_s: float = NO_TIME_S  # last result, or the start of the process
    first_start_s: float = NO_TIME_S  # first start of a unit
    exit_s: float = 0.0  # from the last activity to the end
    done_s: float | None = None  # end of its last unit, after which the process only exits
    thread_left_s: float | None = None  # end of its test session, if a thread still ran
    # Memory, in bytes.
    rss_before_bytes: dict[int, int] = field(default_factory=dict)  # unit -> resident at its start
    max_bytes_in_unit: int = 0  # largest sample since the last start of a unit
    resident_bytes: int | None = None  # after the last result that measured it
    resident_at_s: float = 0.0  # time of that result; results are not read in order of time
    # The end of the process by the leg.
    stopping: Ending | None = None
    stop_unit: int | None = None  # the unit for which the leg stops the process
    at_checkpoint: bool = False  # stopped at the end of a step; the leg continues
    refuses_exit: bool = False  # stopped because it did not exit after its last unit
    recycled: bool = False  # exits after its current unit; a fresh process runs the rest

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
        """Store the moment if all units are over."""
        if len(self.finished) == len(self.start.units):
            self.done_s = at_s

    def is_at_last_unit(self) -> bool:
        """Return whether the process has begun all its units, so that the leg may claim a block."""
        return not self.recycled and self.stopping is None and self.next_unit() is None

    def has_started_unit(self) -> bool:
        """Return whether the process began any of its units."""
        return bool(self.units_with_result() or self.open_units)

    def unfinished_units(self) -> tuple[int, ...]:
        """Return the units that are not over, in the order of the process."""
        return tuple(unit for unit in self.start.units if unit not in self.finished)

    def unstarted_units(self) -> tuple[int, ...]:
        """Return the units that have neither begun nor a result, in the order of the process."""
        started = self.units_with_result() | self.open_units.keys()
        return tuple(unit for unit in self.start.units if unit not in started)

    def was_cut_short(self, ending: Ending) -> bool:
        """Return whether the process could not run all its units, so that the rest must run again.

        Its units were cut if the leg recycled the process, if the process did not end by itself, or
        if a worker died with further units. Otherwise a second process would skip the same units.
        """
        is_over = ending == "completed" or self.refuses_exit
        return self.recycled or not is_over or bool(self.deaths)
