"""Bisection of a crash without a known culprit: the next processes get ever fewer units. Pure.

Some frameworks announce each unit. If their process dies before its first unit, it died while it
read a file, and files are bisected. Otherwise any unit may be the culprit.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Final, Sequence

from ciguard.model import Ending
from ciguard.run.policy.process_state import ProcessState

FileOf = Callable[[int], str]  # file that is read before a unit is announced; "" if unannounced

SEARCHED: Final = frozenset({"crash", "out_of_memory", "memory_guard", "timeout"})


def died_unattributed(running: ProcessState, ending: Ending) -> bool:
    """Return whether a process died, and the culprit is one of several units or a file."""
    return ending in SEARCHED and not running.deaths and not running.refuses_exit


def crashing_file(
    running: ProcessState, ending: Ending, suspects: AbstractSet[int], file_of: FileOf
) -> str:
    """Return the file that killed a process at import; "" if two deaths do not prove a file.

    The first death is that of a process whose files include the file, the second that of a process
    with this file alone. One death may be chance: memory, or a kill from outside.

    Args:
        running: state of the process at its end.
        suspects: units of earlier such deaths.
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


def bisect(suspects: Sequence[int], file_of: FileOf, *, second_half: bool) -> tuple[int, ...]:
    """Return half of the suspects, in whole files if there are several; at least one unit.

    The search for a culprit takes log2(files), or log2(units), processes. The processes are short
    if the program reports while it runs, because the remaining units then begin with the culprit.

    Args:
        suspects: in order, not empty.
        file_of: returns "" for all units if units are bisected.
        second_half: return the second half, not the first.
    """
    groups: dict[object, list[int]] = {}
    for unit in suspects:
        groups.setdefault(file_of(unit) or unit, []).append(unit)
    files = list(groups)
    count = max(1, len(files) // 2)
    chosen = files[-count:] if second_half else files[:count]
    return tuple(unit for file in chosen for unit in groups[file])
