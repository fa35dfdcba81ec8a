"""macOS (never tested there): tree sizes by `ps` once a second, no guard rail.

There is no /proc and no subreaper. The headroom is not estimated: macOS compresses and swaps by
itself, and a kill because of a wrong number would be worse than no kill.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Final

assert sys.platform != "win32"

from ciguard.run.platforms.base import Headroom, MemoryInstruments, TestedProcess, Tree
from ciguard.run.process import reaper
from ciguard.run.process.received_signals import EXIT_CODE_BY_SIGNAL, wait, wakeup
from ciguard.run.process.spawn import SupervisedProcess

__all__ = ["EXIT_CODE_BY_SIGNAL", "LIMITATIONS", "PsTree", "adopt_orphans", "cpus"]
__all__ += ["headroom", "instruments", "start", "tree", "wait", "wakeup"]

LIMITATIONS: Final[tuple[str, ...]] = (
    "the guard rail (needs Linux or Windows): nothing is stopped before memory runs out",
    "memory samples more than once a second (need Linux or Windows)",
)
PS_EVERY_S: Final = 1.0  # `ps` takes 10-20 ms of a core each time


class PsTree:
    """The processes below one reaper, without the reaper, as `ps` listed them last.

    Sizes are resident bytes; shared pages count in each process.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._sizes: dict[int, int] = {}
        self._listed_s = float("-inf")

    def read_bytes(self, now_s: float) -> int | None:
        """Return the tree's memory, up to a second old; None if no process of it was listed."""
        if now_s - self._listed_s >= PS_EVERY_S:
            self._listed_s = now_s
            listed = reaper.list_by_ps()
            parents = {pid: (parent, 0) for pid, (parent, _) in listed.items()}
            self._sizes = {pid: listed[pid][1] for pid in reaper.below(self._root, parents)}
        return sum(self._sizes.values()) if self._sizes else None


class MachineSize(Headroom):
    """The size of the machine's memory; its headroom is not known, so nothing is guarded."""

    def memory_bytes(self) -> int | None:
        """Return hw.memsize, as POSIX gives it in pages."""
        with contextlib.suppress(OSError, ValueError):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return None


start = functools.partial(SupervisedProcess, bare=True)
headroom = MachineSize
instruments = MemoryInstruments
cpus = os.cpu_count  # there is no container and no taskset


def adopt_orphans() -> None:
    """Do nothing: there is no subreaper."""


def tree(process: TestedProcess) -> Tree:
    """Return the memory as listed by `ps`."""
    return PsTree(process.root)
