"""What is executed again when a process has ended: all of it, or its victims alone. Pure.

A failing unit is tried again with everything that ran before it in its process, in that order: by
itself it would pass wherever another unit's leftovers made it fail. What memory killed among
others, or in a process that others had filled, runs once with the whole budget to itself; so
does each of several units that ran when their process crashed, for one of them did it.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, AbstractSet, Final, Iterator, Mapping

from ciguard.model import MEMORY_ENDINGS, SLOTS
from ciguard.run.policy.actions import Reason, Start

if TYPE_CHECKING:
    from ciguard.run.policy.process_state import ProcessState

MIB: Final = 1 << 20
# Units of a culprit set; a turn for each of more, which no test runner has, takes too long.
MAX_CULPRITS: Final = 32
# A repeat may take a tenth longer than the first time: the same units on the same machine.
RERUN_TIME_FACTOR: Final = 1.1
# Retained by others: enough to have made the difference.
SUSPICIOUS_RETAINED_BYTES: Final = 50 * MIB


@dataclass(frozen=True, **SLOTS)
class Rerun:
    """A process to come. `repeats`: how often this one was begun before; 0 for a victim alone.

    `duration_s`: what it took before, as far as it is repeated; 0 where that is not known.
    """

    units: tuple[int, ...]
    reason: Reason
    repeats: int = 0
    isolated: bool = False
    duration_s: float = 0.0

    def starts(self, action: Start) -> bool:
        """Whether it is this one that begins: another one may have the same units."""
        return (action.units, action.reason, action.repeats, action.isolated) == (
            *(self.units, self.reason, self.repeats, self.isolated),
        )

    def skip_reason(self, remaining_s: float) -> Reason | None:
        """Why it is not begun any more; None where it is.

        What the deadline cuts off takes results along that were there: those of the repeat count.

        Args:
            remaining_s: until the leg's deadline.
        """
        if RERUN_TIME_FACTOR * self.duration_s <= remaining_s:
            return None
        times = {"duration_s": self.duration_s, "remaining_s": max(0.0, remaining_s)}
        return Reason("rerun_skipped", {**self.reason.facts, **times})


def isolated_reruns(
    running: ProcessState, base_bytes: int, budget_bytes: int | None, had: AbstractSet[int]
) -> tuple[Rerun, ...]:
    """One run alone for each victim of memory that something else may have been in the way of.

    And for each unit of a culprit set: without it, all but one of them are called dead for nothing.

    Args:
        running: as it ended. base_bytes: of a fresh process of its suite.
        budget_bytes: what a unit that runs alone may take; None where that is not known.
        had: units that ran alone, and do not run alone a second time for memory.
    """
    if running.start.isolated:
        return ()
    memory = _memory_reruns(running, base_bytes, budget_bytes)
    return (*(one for one in memory if not had & set(one.units)), *_crash_reruns(running))


def _memory_reruns(
    running: ProcessState, base_bytes: int, budget_bytes: int | None
) -> Iterator[Rerun]:
    died = {unit: line for unit, line in running.died.items() if line.ending in MEMORY_ENDINGS}
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
        for unit, line in running.died.items()
        if line.ending == "crash" and (line.concurrent or 1) > 1
    ]
    if len(died) > MAX_CULPRITS:
        return
    reason = Reason("crash_retry", {"units": len(died), "process": running.start.process})
    for unit in sorted(died):
        yield Rerun((unit,), reason, isolated=True)


def process_rerun(
    running: ProcessState,
    excluded: frozenset[int],
    failures: Mapping[int, int],
    tries: int,
    end_s: float = 0.0,
) -> Rerun | None:
    """The process again, up to the last unit that went wrong and may be tried again.

    Args:
        excluded: units that are executed again in another way.
        failures: executions of a unit that went wrong, this one with them.
        tries: how many of those a unit has. A process is repeated at most twice as often as that
            allows: company that fails for the first time in a repeat has its tries too.
        end_s: when it ended.
    """
    start, bad = running.start, running.failed & running.finished - excluded
    rerun_units = [unit for unit in start.units if unit in bad and failures[unit] < tries]
    if not rerun_units or start.repeats >= 2 * (tries - 1):
        return None
    units = start.units[: start.units.index(rerun_units[-1]) + 1]
    finished_units = tuple(
        unit for unit in units if unit in running.finished and unit not in excluded
    )
    reason = Reason("failure_retry", {"units": len(rerun_units), "process": start.process})
    # Up to its last failure, and from its last result to its end.
    took_s = max(0.0, running.last_failure_s - start.at_s) + max(
        0.0, end_s - running.last_activity_s
    )
    return Rerun(finished_units, reason, start.repeats + 1, start.isolated, took_s)
