"""Linux: everything is measured and guarded, from /proc and the cgroups above the leg."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, List, Mapping, Optional, Sequence, Tuple, cast

assert sys.platform != "win32"

from ciguard.run.memory import peak_windows
from ciguard.run.memory.gpus import Gpus
from ciguard.run.memory.headroom import LinuxHeadroom
from ciguard.run.memory.process_tree import Pressure, TreeMemory
from ciguard.run.platforms.base import MemoryInstruments
from ciguard.run.process.spawn import (
    EXIT_CODE_BY_SIGNAL,
    SupervisedProcess,
    adopt_orphans,
    wait,
    wakeup,
)

if TYPE_CHECKING:
    from ciguard.run.platforms.base import PeakTracker, Process, Tree

__all__ = ["EXIT_CODE_BY_SIGNAL", "LIMITATIONS", "NAME", "adopt_orphans", "cpus", "headroom"]
__all__ += ["instruments", "start", "tree", "wait", "wakeup"]

NAME: Final = "linux"
LIMITATIONS: Final[Tuple[str, ...]] = ()


class LinuxInstruments(MemoryInstruments):
    """Marks that can be reset, pressure, GPUs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._gpus = Gpus(environ.get("PATH"))
        self._pressure = Pressure()

    def windows(self, tree: Tree) -> Optional[PeakTracker]:
        """Of the processes that have this leg's pid as PEAK_RESET_BY."""
        return peak_windows.PeakTracker(cast("TreeMemory", tree), str(os.getpid()))

    def poll(self, now_s: float, trees: Sequence[Tree]) -> Mapping[str, Any]:
        """Ask for the memory of GPUs when it is due."""
        pids: List[int] = [pid for tree in trees for pid in cast("TreeMemory", tree).pids()]
        gpu_bytes = self._gpus.poll(now_s, pids)
        return {"gpu_bytes": gpu_bytes} if gpu_bytes else {}

    def pressure(self) -> Mapping[str, float]:
        """Since the leg's start."""
        some_s, all_s = self._pressure.stalled_s()
        if some_s is None or all_s is None:
            return {}
        return {"stalled_s": some_s, "fully_stalled_s": all_s}

    def close(self) -> None:
        """Stop asking."""
        self._gpus.close()


start = SupervisedProcess
headroom = LinuxHeadroom
instruments = LinuxInstruments


def tree(process: Process) -> Tree:
    """From `statm` of each process."""
    return TreeMemory(process.root)


def cpus() -> Optional[int]:
    """Fewer than there are in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):  # another Unix has not
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
