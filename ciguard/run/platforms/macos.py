"""macOS, never tried on one: trees by `ps` once a second, sizes from libproc, nothing guarded.

There is no /proc and no subreaper. What is left of the memory is not guessed at: macOS compresses
and swaps by itself, and a kill on a wrong number would be worse than none. Source:
<sys/resource.h>, struct rusage_info_v0; `ri_phys_footprint` is what Activity Monitor calls memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import sys
from typing import TYPE_CHECKING, Final, Optional, Tuple

assert sys.platform != "win32"

from ciguard.run.platforms.base import Headroom, MemoryInstruments
from ciguard.run.process import reaper
from ciguard.run.process.spawn import EXIT_CODE_BY_SIGNAL, SupervisedProcess, wait, wakeup

if TYPE_CHECKING:
    from typing import Callable, Dict

    from ciguard.run.platforms.base import Process, Tree

__all__ = [
    "EXIT_CODE_BY_SIGNAL",
    "LIMITATIONS",
    "NAME",
    "PsTree",
    "adopt_orphans",
    "cpus",
    "footprint_of",
]
__all__ += ["footprints", "headroom", "instruments", "start", "tree", "wait", "wakeup"]

NAME: Final = "macos"
LIMITATIONS: Final[Tuple[str, ...]] = (
    "the guard rail (needs Linux or Windows): nothing is stopped before memory runs out",
    "memory samples more than once a second (need Linux or Windows)",
)
PS_EVERY_S: Final = 1.0  # `ps` takes 10-20 ms of a core each time
RUSAGE_INFO_V0: Final = 0
# uuid[16], eight counters of which the last is ri_phys_footprint, start and exit time.
RUSAGE_INFO: Final = struct.Struct("=16s10Q")
FOOTPRINT: Final = 8


def footprints() -> Optional[Callable[[int], Optional[int]]]:
    """proc_pid_rusage's physical footprint by pid; None where libproc or ctypes is missing."""
    try:
        import ctypes  # noqa: PLC0415  # not every Python has it

        proc_pid_rusage = ctypes.CDLL(None).proc_pid_rusage
    except (ImportError, OSError, AttributeError, TypeError):
        return None

    def footprint(pid: int) -> Optional[int]:
        # Longer than any version of the structure: none can be written past its end.
        content = ctypes.create_string_buffer(1024)
        if proc_pid_rusage(ctypes.c_int(pid), ctypes.c_int(RUSAGE_INFO_V0), content) != 0:
            return None
        return footprint_of(content.raw)

    return footprint


def footprint_of(content: bytes) -> int:
    """`ri_phys_footprint` of a struct rusage_info_v0, in bytes."""
    return int(RUSAGE_INFO.unpack_from(content)[FOOTPRINT])


class PsTree:
    """The processes below one reaper, itself left out, as `ps` listed them last.

    Their sizes are resident bytes, shared pages in each; with `footprint`, what that says.
    """

    def __init__(self, root: int, footprint: Optional[Callable[[int], Optional[int]]]) -> None:
        self._root = root
        self._footprint = footprint
        self._sizes: Dict[int, int] = {}
        self._listed_s = float("-inf")

    def read_bytes(self, now_s: float) -> Optional[int]:
        """Memory of the tree now, or up to a second ago; None where no process of it was found."""
        if now_s - self._listed_s >= PS_EVERY_S:
            self._listed_s = now_s
            listed = reaper.list_by_ps()
            parents = {pid: (parent, 0) for pid, (parent, _) in listed.items()}
            self._sizes = {pid: listed[pid][1] for pid in reaper.below(self._root, parents)}
        if self._footprint is not None:
            for pid, size in tuple(self._sizes.items()):
                now = self._footprint(pid)
                self._sizes[pid] = size if now is None else now
        return sum(self._sizes.values()) if self._sizes else None

    def close(self) -> None:
        """Nothing is held."""


class MachineSize(Headroom):
    """The machine's size alone: what is free is not asked, and nothing is guarded."""

    def memory_bytes(self) -> Optional[int]:
        """hw.memsize, which POSIX has as pages."""
        with contextlib.suppress(OSError, ValueError):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return None


start = functools.partial(SupervisedProcess, bare=True)
headroom = MachineSize
instruments = MemoryInstruments
cpus = os.cpu_count  # there is no container and no taskset


def adopt_orphans() -> None:
    """There is no subreaper."""


def tree(process: Process) -> Tree:
    """By `ps`."""
    return PsTree(process.root, footprints())
