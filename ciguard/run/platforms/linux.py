"""Linux: memory is measured and guarded, from /proc and the cgroups above the leg."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Final, Mapping, Sequence, cast

assert sys.platform != "win32"

from ciguard.run.memory import peak_windows
from ciguard.run.memory.gpus import Gpus
from ciguard.run.memory.headroom import LinuxHeadroom
from ciguard.run.memory.process_tree import ChildPeaks, Pressure, TreeMemory
from ciguard.run.platforms.base import MemoryInstruments, PeakTracker, TestedProcess, Tree
from ciguard.run.process.received_signals import EXIT_CODE_BY_SIGNAL, wait, wakeup
from ciguard.run.process.spawn import SupervisedProcess, adopt_orphans

__all__ = ["EXIT_CODE_BY_SIGNAL", "LIMITATIONS", "adopt_orphans", "cpus", "headroom"]
__all__ += ["instruments", "start", "tree", "wait", "wakeup"]

LIMITATIONS: Final[tuple[str, ...]] = ()


class LinuxInstruments(MemoryInstruments):
    """Peaks by marks of the kernel that can be reset, memory pressure, GPUs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._gpus = Gpus(environ)
        self._pressure = Pressure()

    def peak_tracker(self, tree: Tree, *, has_own_marks: bool) -> PeakTracker | None:
        """Return a tracker of children, or of processes with this leg's pid as PEAK_RESET_BY."""
        if has_own_marks:
            return ChildPeaks(cast("TreeMemory", tree))
        return peak_windows.PeakTracker(cast("TreeMemory", tree), str(os.getpid()))

    def gpu_bytes(self, now_s: float, trees: Sequence[Tree]) -> Mapping[str, int]:
        """Return the largest memory by GPU since the last call, of those whose answer has come."""
        used = self._gpus.poll(now_s, cast("Sequence[TreeMemory]", trees))
        self.limitation = self._gpus.limitation
        return used

    def named_sizes(self, trees: Sequence[Tree]) -> Mapping[str, int]:
        """Return the largest processes, with the names of their ancestors."""
        memories = cast("Sequence[TreeMemory]", trees)
        changed = [memory.has_changed() for memory in memories]  # each takes note of its own
        if not any(changed):
            return {}
        return sum((Counter(memory.named_sizes()) for memory in memories), Counter())

    def pressure(self) -> Mapping[str, float]:
        """Return the seconds that programs waited for memory since the leg's start."""
        return self._pressure.stalled_s()

    def close(self) -> None:
        self._gpus.close()


start = SupervisedProcess
headroom = LinuxHeadroom
instruments = LinuxInstruments


def tree(process: TestedProcess) -> Tree:
    """Return the memory by `statm` of each process."""
    return TreeMemory(process.root)


def cpus() -> int | None:
    """Return the processors of the leg: fewer than the machine's in a container or by taskset."""
    if hasattr(os, "sched_getaffinity"):  # other Unix systems lack it
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
