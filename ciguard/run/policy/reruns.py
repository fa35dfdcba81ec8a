"""Reruns after the end of a process: of its failed units, and of units that others killed. Pure.

A failed unit runs again after all units that ran before it in its process, in the same order. Alone
it would pass if the leftovers of another unit made it fail. A unit that ran out of memory with
other units, or in a process that others had filled, runs once alone with the whole budget. If
several units ran when their process crashed, each of them runs once alone, as one is the culprit.

After the end of the leg, new failures run once more ("probes"), which change no result: alone, and
after the units before them, unless a retry did this. If a unit passes alone and fails again, the
units before it are halved until one is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Final, Generator, Iterator, Mapping, Sequence

from ciguard.model import MEMORY_ENDINGS, SLOTS
from ciguard.run.policy.actions import Reason, ReasonKind, Start
from ciguard.run.policy.process_state import ProcessState

MIB: Final = 1 << 20
# Units that may have crashed a process. For more units, runs of each alone take too long.
MAX_CULPRITS: Final = 32
# A rerun may take a tenth longer than the first run of the same units on the same machine.
RERUN_TIME_FACTOR: Final = 1.1
# Memory retained by other units that may have caused an out-of-memory death.
SUSPICIOUS_RETAINED_BYTES: Final = 50 * MIB
MAX_PROBED: Final = 20
PROBE_RATIO: Final = 0.05  # of the run's longest leg, for all probes of one leg
MIN_PROBE_S: Final = 20.0  # at least, because 5 % of a short leg are no time for a process


@dataclass(frozen=True, **SLOTS)
class Rerun:
    """A process to start.

    `repeats`: number of earlier starts of the same process; 0 for a unit that others killed.
    `duration_s`: time of the repeated part in the earlier process; 0 if unknown.
    """

    units: tuple[int, ...]
    reason: Reason
    repeats: int = 0
    isolated: bool = False
    duration_s: float = 0.0

    def starts(self, action: Start) -> bool:
        """Return whether a Start begins this rerun; other reruns may have the same units."""
        return (action.units, action.reason, action.repeats, action.isolated) == (
            *(self.units, self.reason, self.repeats, self.isolated),
        )

    def skip_reason(self, remaining_s: float) -> Reason | None:
        """Return why the rerun is skipped; None if there is time for it.

        If the deadline cut off a rerun, results would be lost, because a rerun supersedes the first
        run.

        Args:
            remaining_s: time until the leg's deadline.
        """
        if RERUN_TIME_FACTOR * self.duration_s <= remaining_s:
            return None
        times = {"duration_s": self.duration_s, "remaining_s": max(0.0, remaining_s)}
        return Reason("rerun_skipped", {**self.reason.facts, **times})


def isolated_reruns(
    running: ProcessState, base_bytes: int, budget_bytes: int | None, ran_isolated: AbstractSet[int]
) -> tuple[Rerun, ...]:
    """Return a rerun alone for each unit that other units may have killed.

    These units ran out of memory beside others, or ran when their process crashed.

    Args:
        running: state of the process at its end.
        base_bytes: size of a fresh process of the suite.
        budget_bytes: memory for a unit that runs alone; None if unknown.
        ran_isolated: units that ran alone; they do not run alone a second time for memory.
    """
    if running.start.isolated:
        return ()
    memory = _memory_reruns(running, base_bytes, budget_bytes)
    return (
        *(rerun for rerun in memory if not ran_isolated & set(rerun.units)),
        *_crash_reruns(running),
    )


def _memory_reruns(
    running: ProcessState, base_bytes: int, budget_bytes: int | None
) -> Iterator[Rerun]:
    died = {unit: line for unit, line in running.deaths.items() if line.ending in MEMORY_ENDINGS}
    before = base_bytes if running.resident_bytes is None else running.resident_bytes
    filled = before - base_bytes > SUSPICIOUS_RETAINED_BYTES
    if not (running.had_concurrent_process or filled or len(died) > 1):
        return
    for unit, line in sorted(died.items()):
        size_bytes = line.peak_lower_bytes or 0
        need_bytes = max(0, size_bytes - before) + base_bytes
        if budget_bytes is None or need_bytes <= budget_bytes:
            reason = Reason("memory_retry", {"process_bytes": size_bytes})
            yield Rerun((unit,), reason, isolated=True)


def _crash_reruns(running: ProcessState) -> Iterator[Rerun]:
    died = [
        unit
        for unit, line in running.deaths.items()
        if line.ending == "crash" and (line.concurrent or 1) > 1
    ]
    if len(died) > MAX_CULPRITS:
        return
    reason = Reason("crash_retry", {"units": len(died), "process": running.start.process})
    for unit in sorted(died):
        yield Rerun((unit,), reason, isolated=True)


def process_rerun(
    running: ProcessState, excluded: frozenset[int], failures: Mapping[int, int], tries: int
) -> Rerun | None:
    """Return the rerun of a process up to its last failed unit with tries left, or None.

    Args:
        excluded: units that run again alone.
        failures: unit -> failed executions, this one included.
        tries: executions that a failing unit may have. The process is repeated at most twice as
            often as `tries` allows: a unit that fails for the first time in a rerun has tries, too.
    """
    start, bad = running.start, running.failed_units & running.finished - excluded
    rerun_units = [unit for unit in start.units if unit in bad and failures[unit] < tries]
    if not rerun_units or start.repeats >= 2 * (tries - 1):
        return None
    units = start.units[: start.units.index(rerun_units[-1]) + 1]
    finished_units = tuple(
        unit for unit in units if unit in running.finished and unit not in excluded
    )
    reason = Reason("failure_retry", {"units": len(rerun_units), "process": start.process})
    last_failure_s = max(at_s for _, at_s in running.failed_s.values())
    duration_s = max(0.0, last_failure_s - start.at_s) + running.exit_s
    return Rerun(finished_units, reason, start.repeats + 1, start.isolated, duration_s)


@dataclass
class NewFailure:
    """A unit that failed here but not on the base, with answers from extra tries (None: unknown).

    Attributes:
        running: the unit's last process, at its end.
        alone, again: the unit failed alone, or again after the units before it.
        after: the unit directly after which the unit failed, without the others.
        probe: the current try, or the last one.
    """

    unit: int
    running: ProcessState
    again: bool | None = None
    alone: bool | None = None
    after: int | None = None
    is_over: bool = False

    def __post_init__(self) -> None:
        self._probes = self._each_probe()
        self.probe = next(self._probes)

    def _each_probe(self) -> Generator[Rerun, bool | None, None]:
        """Yield each try; the caller sends whether the unit failed."""
        start, (began_s, failed_s) = self.running.start, self.running.failed_s[self.unit]
        ready_s = min(began_s, self.running.first_start_s)
        # If results have no times, the whole time of the process counts as its exit.
        own_s = ready_s - start.at_s + max(0.0, failed_s - began_s) + self.running.exit_s
        units = start.units[: start.units.index(self.unit)]
        # Units that ran side by side have no order.
        ended = () if self.running.has_overlap else self.running.finished
        before = tuple(unit for unit in units if unit in ended)

        def probe(part: tuple[int, ...], kind: ReasonKind) -> Rerun:
            part_s = (began_s - ready_s) * len(part) / max(1, len(units))
            return Rerun((*part, self.unit), Reason(kind), 1, True, own_s + part_s)

        self.alone = yield probe((), "probe_alone")
        if before and self.again is None:
            self.again = yield probe(before, "probe_again")
        while self.again and self.alone is False and self.after is None:
            middle = len(before) // 2 or 1
            for part in filter(None, (before[:middle], before[middle:])):
                if (yield probe(part, "probe_after")):
                    break
            else:
                return
            before, self.after = part, part[0] if len(part) == 1 else None

    def observe_end(self, running: ProcessState) -> None:
        """Process the end of a try, of this unit or another one."""
        if self.is_over or not self.probe.starts(running.start):
            return
        has_ended = self.unit in running.finished - running.stopped_units
        is_answered = has_ended and running.stopping != "cancelled"
        try:
            self.probe = self._probes.send(
                self.unit in running.failed_units if is_answered else None
            )
        except StopIteration:
            self.is_over = True


def with_time_for_probe(failures: Sequence[NewFailure], left_s: float) -> list[NewFailure]:
    """Return failures whose next try fits into the time: tries alone first, short ones first."""
    fitting = [each for each in failures if not (each.is_over or each.probe.skip_reason(left_s))]
    return sorted(fitting, key=lambda each: (len(each.probe.units) > 1, each.probe.duration_s))
