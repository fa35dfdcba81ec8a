"""What is executed again when a process has ended: all of it, or the victim of memory alone. Pure.

A failing unit is tried again with everything that ran before it in its process, in that order: by
itself it would pass wherever another unit's leftovers made it fail. What memory killed beside
others, or in a process that others had filled, gets one turn with the whole budget to itself.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.model import SLOTS
from ciguard.run.wording import counted

if TYPE_CHECKING:
    from ciguard.model import Ending
    from ciguard.run.state import Running

MIB: Final = 1 << 20
MEMORY: Final[tuple[Ending, ...]] = ("memory_guard", "out_of_memory")
FILLED_BYTES: Final = 50 * MIB  # retained by others: enough to have made the difference


@dataclass(frozen=True, **SLOTS)
class Again:
    """A process to come. `repeats`: how often this one was begun before; 0 for a victim alone."""

    units: tuple[int, ...]
    reason: str
    repeats: int = 0
    alone: bool = False


def victims_alone(
    running: Running, ending: Ending, base_bytes: int, most_bytes: int | None
) -> tuple[Again, ...]:
    """One turn alone for each victim of memory that something else may have been in the way of.

    Args:
        running: as it ended. base_bytes: of a fresh process of its suite.
        most_bytes: what a unit that runs alone may take; None: nobody knows.
    """
    if ending not in MEMORY or running.start.alone:
        return ()
    before = base_bytes if running.resident_bytes is None else running.resident_bytes
    filled = before - base_bytes > FILLED_BYTES
    if not (running.beside or filled or len(running.died) > 1):
        return ()
    found = []
    for unit, size_bytes in sorted(running.died.items()):
        need_bytes = max(0, size_bytes - before) + base_bytes
        if most_bytes is None or need_bytes <= most_bytes:
            reason = f"again, alone: memory ran out at {size_bytes // MIB} MiB of its process"
            found.append(Again((unit,), reason, alone=True))
    return tuple(found)


def whole_process(
    running: Running, left_out: frozenset[int], failures: Mapping[int, int], tries: int
) -> Again | None:
    """The process again, up to the last unit that went wrong and may be tried again.

    Args:
        left_out: units that get another turn in another way.
        failures: executions of a unit that went wrong, this one with them.
        tries: how many of those a unit has. A process is repeated at most twice as often as that
            allows: company that fails for the first time in a repeat has its tries too.
    """
    start, bad = running.start, running.bad & running.closed - left_out
    again = [unit for unit in start.units if unit in bad and failures[unit] < tries]
    if not again or start.repeats >= 2 * (tries - 1):
        return None
    units = start.units[: start.units.index(again[-1]) + 1]
    kept = tuple(unit for unit in units if unit in running.closed and unit not in left_out)
    reason = f"again: {counted(len(again), 'unit')} went wrong in process {start.process}"
    return Again(kept, reason, start.repeats + 1)
