"""What is executed again when a process has ended: all of it, or its victims alone. Pure.

A failing unit is tried again with everything that ran before it in its process, in that order: by
itself it would pass wherever another unit's leftovers made it fail. What memory killed beside
others, or in a process that others had filled, gets one turn with the whole budget to itself; so
does each of several units that ran when their process crashed, for one of them did it.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, AbstractSet, Final, Iterator, Mapping

from ciguard.model import MEMORY, SLOTS
from ciguard.run.wording import counted

if TYPE_CHECKING:
    from ciguard.run.running import Running

MIB: Final = 1 << 20
SET_MOST: Final = 32  # units of a culprit set; of more, which no test runner has, turns are dear
NOT_AGAIN: Final = "not_again"  # the event of a repeat that is left out
LONGER: Final = 1.1  # than the first time, by a tenth: the same units on the same machine
FILLED_BYTES: Final = 50 * MIB  # retained by others: enough to have made the difference


@dataclass(frozen=True, **SLOTS)
class Again:
    """A process to come. `repeats`: how often this one was begun before; 0 for a victim alone.

    `took_s`: what it took before, as far as it is repeated; 0 where nobody knows.
    """

    units: tuple[int, ...]
    reason: str
    repeats: int = 0
    alone: bool = False
    took_s: float = 0.0

    def left_out(self, left_s: float) -> str:
        """Why it is not begun any more; "" where it is.

        What the deadline cuts off takes results along that were there: those of the repeat count.

        Args:
            left_s: until the leg's deadline.
        """
        if LONGER * self.took_s <= left_s:
            return ""
        why = self.reason.partition(": ")[2]
        return f"{why}: it took {self.took_s:.0f} s, and {max(0.0, left_s):.0f} s are left"


def victims_alone(
    running: Running, base_bytes: int, most_bytes: int | None, had: AbstractSet[int]
) -> tuple[Again, ...]:
    """One turn alone for each victim of memory that something else may have been in the way of.

    And for each unit of a culprit set: without it, all but one of them are called dead for nothing.

    Args:
        running: as it ended. base_bytes: of a fresh process of its suite.
        most_bytes: what a unit that runs alone may take; None: nobody knows.
        had: units that had a turn alone, and get no second one for memory.
    """
    if running.start.alone:
        return ()
    memory = _of_memory(running, base_bytes, most_bytes)
    return (*(one for one in memory if not had & set(one.units)), *_of_a_crash(running))


def _of_memory(running: Running, base_bytes: int, most_bytes: int | None) -> Iterator[Again]:
    died = {unit: line for unit, line in running.died.items() if line.ending in MEMORY}
    before = base_bytes if running.resident_bytes is None else running.resident_bytes
    filled = before - base_bytes > FILLED_BYTES
    if not (running.beside or filled or len(died) > 1):
        return
    for unit, line in sorted(died.items()):
        size_bytes = line.peak_lower_bytes or 0
        need_bytes = max(0, size_bytes - before) + base_bytes
        if most_bytes is None or need_bytes <= most_bytes:
            reason = f"again, alone: memory ran out at {size_bytes // MIB} MiB of its process"
            yield Again((unit,), reason, alone=True)


def _of_a_crash(running: Running) -> Iterator[Again]:
    died = [
        unit
        for unit, line in running.died.items()
        if line.ending == "crash" and (line.concurrent or 1) > 1
    ]
    if len(died) > SET_MOST:
        return
    ran = f"one of {counted(len(died), 'unit')} that ran when process {running.start.process}"
    for unit in sorted(died):
        yield Again((unit,), f"again, alone: {ran} crashed", alone=True)


def whole_process(
    running: Running,
    left_out: frozenset[int],
    failures: Mapping[int, int],
    tries: int,
    end_s: float = 0.0,
) -> Again | None:
    """The process again, up to the last unit that went wrong and may be tried again.

    Args:
        left_out: units that get another turn in another way.
        failures: executions of a unit that went wrong, this one with them.
        tries: how many of those a unit has. A process is repeated at most twice as often as that
            allows: company that fails for the first time in a repeat has its tries too.
        end_s: when it ended.
    """
    start, bad = running.start, running.bad & running.closed - left_out
    again = [unit for unit in start.units if unit in bad and failures[unit] < tries]
    if not again or start.repeats >= 2 * (tries - 1):
        return None
    units = start.units[: start.units.index(again[-1]) + 1]
    kept = tuple(unit for unit in units if unit in running.closed and unit not in left_out)
    reason = f"again: {counted(len(again), 'unit')} went wrong in process {start.process}"
    # Up to its last failure, and from its last result to its end.
    took_s = max(0.0, running.bad_s - start.at_s) + max(0.0, end_s - running.quiet_s)
    return Again(kept, reason, start.repeats + 1, start.alone, took_s)
