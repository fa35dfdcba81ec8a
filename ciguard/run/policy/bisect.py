"""Who ended a process that named none: the next ones get ever fewer of its units. Pure.

Where a framework announces each unit, a process that ends before the first one died of what it
read to come so far: of a file, which is searched for whole. Where it does not, any unit may be it.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, AbstractSet, Callable, Final, Sequence

if TYPE_CHECKING:
    from ciguard.model import Ending
    from ciguard.run.policy.process_state import ProcessState

FileOf = Callable[[int], str]  # of a unit that is announced; "" of one that may not be

SEARCHED: Final = frozenset({"crash", "out_of_memory", "memory_guard", "timeout"})


def died_unattributed(running: ProcessState, ending: Ending) -> bool:
    """Whether a process ended so that one of several units, or their file, may have done it."""
    return ending in SEARCHED and not running.died and not running.refuses_exit


def crashing_file(
    running: ProcessState, ending: Ending, suspects: AbstractSet[int], file_of: FileOf
) -> str:
    """The file that a process died of before it began a unit; "" where that is not shown.

    Shown by two deaths: of a process with other files in it or the same again, and of one with
    this file alone. Once may be chance: memory, or somebody else's kill.

    Args:
        running: as it ended. suspects: units of earlier processes that ended so.
    """
    units = running.start.units
    if (
        not died_unattributed(running, ending)
        or running.has_started_unit()
        or not suspects >= set(units)
    ):
        return ""
    files = {file_of(unit) for unit in units}
    return files.pop() if len(files) == 1 else ""


def bisect(suspects: Sequence[int], file_of: FileOf, *, back: bool) -> tuple[int, ...]:
    """Half of them for the next process, whole files where there are several; at least one unit.

    A culprit so costs log2(files), or log2(units), processes: cheap ones where the program reports
    as it goes, for what is left begins with the culprit.

    Args:
        suspects: in order, not empty. file_of: "" for all where units are searched for.
        back: the second half.
    """
    groups: dict[object, list[int]] = {}
    for unit in suspects:
        groups.setdefault(file_of(unit) or unit, []).append(unit)
    files = list(groups)
    count = max(1, len(files) // 2)
    chosen = files[-count:] if back else files[:count]
    return tuple(unit for file in chosen for unit in groups[file])
