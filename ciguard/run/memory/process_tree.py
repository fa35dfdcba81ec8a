"""Resident memory of a process tree on Linux; shared pages count in each process.

The sizes come from `statm` of each process (4-420 us for 1-100 processes), the tree from a scan
twice a second. Without /proc every number is None: not measured is not 0.
"""

from __future__ import annotations

import contextlib
import os
import sys

assert sys.platform != "win32"

RESCAN_S = 0.5
PRESSURE = "/proc/pressure/memory"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> tuple[int, ...]:
    """Return the direct children of all threads; () if the process or the kernel's file is missing.

    `/proc/PID/task/TID/children` needs CONFIG_PROC_CHILDREN, which distributions set.
    """
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                pids.extend(map(int, stream.read().split()))
    except OSError:
        pass  # a thread or the process ended meanwhile
    return tuple(pids)


class TreeMemory:
    """The processes below one reaper, without the reaper."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._pids: set[int] = set()
        self._scanned_s = float("-inf")

    def read_bytes(self, now_s: float) -> int | None:
        """Return the resident memory now; None if no process of the tree can be read.

        A process that has ended and was not waited for has 0, which counts as unreadable.
        """
        if now_s - self._scanned_s >= RESCAN_S or not self._pids:
            self._scanned_s = now_s
            self.rescan()
        total = 0
        for pid in tuple(self._pids):
            try:
                with open(f"/proc/{pid}/statm", "rb", buffering=0) as stream:
                    total += int(stream.read(256).split(b" ", 2)[1]) * PAGE_BYTES
            except (OSError, IndexError):
                self._pids.discard(pid)
        return total or None

    def pids(self) -> frozenset[int]:
        """Return the processes of the last scan."""
        return frozenset(self._pids)

    def rescan(self) -> None:
        """Scan for processes that began or ended."""
        to_scan = list(children(self.root))
        self._pids = set()
        while to_scan:
            pid = to_scan.pop()
            if pid not in self._pids:
                self._pids.add(pid)
                to_scan.extend(children(pid))


class Pressure:
    """Memory pressure: time that programs of the machine waited for memory since the constructor.

    Args:
        path: file of the kernel (Documentation/accounting/psi), which may be missing.
    """

    def __init__(self, path: str = PRESSURE) -> None:
        self._path = path
        self._initial_totals = self._totals()

    def _totals(self) -> tuple[int, ...]:
        """Return the microseconds in which some, and in which all programs waited."""
        with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as stream:
            words = stream.read().split()
            return tuple(int(word[6:]) for word in words if word.startswith(b"total="))
        return ()  # the kernel keeps no account

    def stalled_s(self) -> tuple[float | None, float | None]:
        """Return the seconds in which some, and in which all programs waited; None if not known."""
        waited_s = [(now - then) / 1e6 for now, then in zip(self._totals(), self._initial_totals)]
        return (waited_s[0], waited_s[1]) if len(waited_s) == 2 else (None, None)  # noqa: PLR2004
