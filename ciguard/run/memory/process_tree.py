"""Memory of a tree of processes, from outside: resident bytes, shared pages counted in each.

Linux: `statm` of each process (4-420 us for 1-100 of them); the tree itself is looked up anew twice
a second. Where there is no /proc every number is None: not measured is not 0.
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
    """Direct children, by any thread; () for a process that is gone or a kernel without the file.

    `/proc/PID/task/TID/children` needs CONFIG_PROC_CHILDREN, which distributions set.
    """
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                found.extend(map(int, stream.read().split()))
    except OSError:
        pass  # a thread or the process ended while we looked
    return tuple(found)


class TreeMemory:
    """The processes below one reaper; the reaper itself is not counted."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._pids: set[int] = set()
        self._scanned_s = float("-inf")

    def read_bytes(self, now_s: float) -> int | None:
        """Resident memory of the tree now; None where no process of it can be read.

        Of one that has ended and that was not waited for it says 0, which is no size.
        """
        if now_s - self._scanned_s >= RESCAN_S or not self._pids:
            self._scanned_s = now_s
            self.rescan()
        total = 0
        for pid in tuple(self._pids):
            try:
                with open(f"/proc/{pid}/statm", "rb", buffering=0) as stream:
                    total += _resident_bytes(stream.read(256))
            except (OSError, IndexError):
                self._pids.discard(pid)
        return total or None

    def pids(self) -> frozenset[int]:
        """The processes that the last look found."""
        return frozenset(self._pids)

    def rescan(self) -> None:
        """Look for processes that began or ended."""
        waiting = list(children(self.root))
        self._pids = set()
        while waiting:
            pid = waiting.pop()
            if pid not in self._pids:
                self._pids.add(pid)
                waiting.extend(children(pid))


def _resident_bytes(statm: bytes) -> int:
    return int(statm.split(b" ", 2)[1]) * PAGE_BYTES


class Pressure:
    """How long programs of the machine have waited for memory, since this was made.

    Args:
        path: of the kernel's file (Documentation/accounting/psi); where there is none, nothing.
    """

    def __init__(self, path: str = PRESSURE) -> None:
        self._path = path
        self._initial_totals = self._totals()

    def _totals(self) -> tuple[int, ...]:
        """Microseconds: some of them, all of them."""
        with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as stream:
            words = stream.read().split()
            return tuple(int(word[6:]) for word in words if word.startswith(b"total="))
        return ()  # a kernel that was told to keep no account

    def stalled_s(self) -> tuple[float | None, float | None]:
        """Seconds in which some, and in which all of them waited; None where that is not known."""
        now = [(one - was) / 1e6 for one, was in zip(self._totals(), self._initial_totals)]
        return (now[0], now[1]) if len(now) == 2 else (None, None)  # noqa: PLR2004
