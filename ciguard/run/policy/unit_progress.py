"""When a unit is over: the rule over the start, result and `closed` lines of one process.

A unit is over with the result that it died, and with its own result, which is no case's. A unit
with several cases is over where the next unit begins, or where its process completes. If a program
reports the end of each unit (`Suite.closes_units`), only that report or a death ends the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from ciguard.model import Result

Unit = TypeVar("Unit")


class UnitProgress(Generic[Unit]):
    """The units of one process that are running, partly reported, and over."""

    def __init__(self, *, closes_units: bool = False) -> None:
        self.closes_units = closes_units  # the program reports the end of each unit
        self.open_units: dict[Unit, float] = {}  # unit -> at_s of its start
        self.partial_units: set[Unit] = set()  # with a result; more cases may follow
        # Units ran side by side: then a unit with cases is over only by its program or the end.
        self.has_overlap = False
        self.finished: set[Unit] = set()

    def close(self, unit: Unit) -> None:
        """Take a unit as over: no more results of it follow."""
        self.open_units.pop(unit, None)
        self.partial_units.discard(unit)
        self.finished.add(unit)

    def close_partial(self) -> None:
        """Close the units with results, unless their program reports the end of each unit."""
        if self.closes_units:
            return
        for unit in tuple(self.partial_units):
            self.close(unit)

    def begin(self, unit: Unit, at_s: float) -> None:
        """Take in the start of a unit; a second start of it only sets the time."""
        has_begun = unit in self.open_units or unit in self.partial_units or unit in self.finished
        if not has_begun and self.open_units.keys() - self.partial_units:
            self.has_overlap = True
        if not self.has_overlap:
            self.close_partial()
        self.open_units[unit] = at_s

    def report(self, unit: Unit, result: Result) -> bool:
        """Take in a result of a case; return whether the unit is over with it.

        Where units overlap, a unit with a result is no longer open: a death does not blame it and
        its time is not watched. It runs again if the process dies before it is over.
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
        """Return whether an open unit may still run: no result yet, or its program closes it."""
        return self.closes_units or unit not in self.partial_units

    def units_with_result(self) -> set[Unit]:
        """Return the units that are over or have some result."""
        return self.finished | self.partial_units
