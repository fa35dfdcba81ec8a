"""Repeats of new and changed tests after the end of a leg: selection, number and order. Pure.

A repeat is a fresh process, in turn for the test alone and for the test after others of its file.
Repeats change no result. New units come before changed ones, cheap units first. A unit is repeated
at least `MIN_REPEATS` times, or not at all if time is short: few passes prove little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Final, Iterable, Sequence

from ciguard.model import PlannedUnit, Suite
from ciguard.run.policy.actions import NO_TIME_S, Reason, ReasonKind
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.reruns import RERUN_TIME_FACTOR, NewFailure, Rerun, with_time_for_probe

MIN_REPEATS: Final = 5
MAX_REPEATS: Final = 50
STOP_S: Final = 0.5  # time in which a stopped process ends, on a busy machine
MAX_NEIGHBOURS: Final = 20  # tests of the same file that run before the unit
# A unit that takes so many times longer than before counts as a hang.
LIMIT_FACTOR: Final = 10.0
MIN_LIMIT_S: Final = 20.0
_KINDS: Final[tuple[ReasonKind, ReasonKind]] = ("repeat_alone", "repeat_after")


@dataclass
class RepeatedUnit:
    """A new or changed unit that passed, and its repeats so far.

    Attributes:
        change: "new" or "changed".
        limit_s: time after which a repeat of the unit has failed.
        parts: units of its processes: alone, and after its neighbours; equal without neighbours.
        costs_s: time of each kind of process: first an estimate, then the longest measured time.
        started: number of its processes so far.
        ended: number of processes in which the unit got a verdict.
        failed: number of processes in which the unit failed.
    """

    unit: int
    change: str
    limit_s: float
    parts: tuple[tuple[int, ...], tuple[int, ...]]
    costs_s: list[float]
    started: int = 0
    ended: int = 0
    failed: int = 0

    @property
    def needed_s(self) -> float:
        """The time of the least number of repeats."""
        return sum(self.costs_s[number % 2] for number in range(MIN_REPEATS))

    @property
    def needs_more(self) -> bool:
        """Return whether the unit has too few verdicts, and further tries may give them."""
        return self.ended < MIN_REPEATS and self.started < 2 * MIN_REPEATS

    def next_rerun(self) -> Rerun:
        """Return the next repeat; the first, third, ... repeat runs the unit alone."""
        turn = self.started % 2
        kind = _KINDS[len(self.parts[turn]) > 1]
        return Rerun(self.parts[turn], Reason(kind), 1, True, self.costs_s[turn])

    def observe_end(self, running: ProcessState, ended_s: float) -> None:
        turn, took_s = self.started % 2, max(0.0, ended_s - running.start.at_s)
        is_measured = self.started > 1  # each kind of process has run once
        self.costs_s[turn] = max(took_s, self.costs_s[turn] if is_measured else 0.0)
        # A unit that hung has failed; more repeats would take the time of other units.
        self.started = MAX_REPEATS if running.stopping == "timeout" else self.started + 1
        has_ended = self.unit in running.finished - running.stopped_units
        if has_ended and running.stopping != "cancelled":
            self.ended += 1
            self.failed += self.unit in running.failed_units


def repeated_unit(
    unit: int,
    running: ProcessState,
    suite: Suite,
    units: Sequence[PlannedUnit],
    file_of: Callable[[int], str],
) -> RepeatedUnit:
    """Return the repeats of a unit that passed in a process that has ended.

    Its neighbours are the last units of the same file before it in that process, as many as take no
    longer than a process for the unit alone.
    """

    def wall_s(unit: int) -> float:
        return running.passed_s.get(unit, units[unit].wall_s)

    start, file = running.start, file_of(unit)
    overhead_s = running.first_start_s - start.at_s + running.exit_s
    if overhead_s == NO_TIME_S:  # the program reports no starts
        overhead_s = suite.setup_s + suite.teardown_s
    alone_s = overhead_s + wall_s(unit)
    neighbours: list[int] = []
    left_s = alone_s if file and not running.has_overlap else -1.0
    for before in reversed(start.units[: start.units.index(unit)]):
        left_s -= wall_s(before)
        if left_s < 0 or len(neighbours) == MAX_NEIGHBOURS or file_of(before) != file:
            break
        if before in running.finished:
            neighbours.insert(0, before)
    return RepeatedUnit(
        unit,
        units[unit].change,
        max(MIN_LIMIT_S, LIMIT_FACTOR * wall_s(unit)),
        ((unit,), (*neighbours, unit)),
        [alone_s, alone_s + sum(map(wall_s, neighbours))],
    )


def select_repeated(units: Iterable[RepeatedUnit], left_s: float) -> list[RepeatedUnit]:
    """Return the first units whose `MIN_REPEATS` repeats together fit into the time."""
    chosen = []
    for each in sorted(units, key=lambda each: (each.change != "new", each.needed_s, each.unit)):
        left_s -= RERUN_TIME_FACTOR * each.needed_s
        if left_s < 0:
            break
        chosen.append(each)
    return chosen


def next_repeated(chosen: Sequence[RepeatedUnit], left_s: float) -> RepeatedUnit | None:
    """Return the unit to repeat next; None if all have `MAX_REPEATS` or time is short.

    Units below the least number of repeats come first, in their order; then the unit with the
    fewest repeats.
    """
    if left_s == NO_TIME_S:
        return None
    short = (each for each in chosen if each.needs_more)
    for each in (*short, *sorted(chosen, key=lambda each: each.started)):
        if each.started < MAX_REPEATS and each.next_rerun().skip_reason(left_s) is None:
            return each
    return None


@dataclass
class ExtraTries:
    """The extra tries after the end of a leg: of new failures, then of new and changed units.

    Attributes:
        probed: new failures that are tried again.
        repeatable: new and changed units that passed, by unit.
        repeated: repeatable units that are repeated; `current` is repeated now.
    """

    probed: Sequence[NewFailure] = ()
    repeatable: dict[int, RepeatedUnit] = field(default_factory=dict)
    repeated: Sequence[RepeatedUnit] = ()
    current: RepeatedUnit | None = None

    def timeout_s(self, unit: int, limit_s: float | None) -> float | None:
        """Return the time that a unit may take now, at most its usual limit; None for no limit."""
        if self.current is None or self.current.unit != unit:
            return limit_s
        repeat_s = self.current.limit_s
        return repeat_s if limit_s is None else min(limit_s, repeat_s)

    def next_repeat(self, left_s: float) -> list[Rerun]:
        """Return the next repeat, if any fits into the time.

        All repeated units get their least number before more units are selected.
        """
        if not any(each.needs_more for each in self.repeated):
            chosen = {each.unit for each in self.repeated}
            rest = [each for unit, each in self.repeatable.items() if unit not in chosen]
            self.repeated = [*self.repeated, *select_repeated(rest, left_s)]
        self.current = next_repeated(self.repeated, left_s)
        return [self.current.next_rerun()] if self.current else []

    def observe_end(self, running: ProcessState, ended_s: float, left_s: float) -> list[Rerun]:
        """Process the end of a process; return the reruns that follow."""
        if self.repeated:
            if self.current is not None:
                self.current.observe_end(running, ended_s)
            return self.next_repeat(left_s)
        for failure in self.probed:
            failure.observe_end(running)
        return [failure.probe for failure in with_time_for_probe(self.probed, left_s)]
