"""Memory of a tree of processes, from outside: resident bytes, shared pages counted in each.

Linux: kept `statm` descriptors (1-92 us for 1-100 processes); the tree itself is looked up anew
twice a second. Where there is no /proc every number is None: not measured is not 0.
"""

from __future__ import annotations

import contextlib
import os
import sys

assert sys.platform != "win32"

RESCAN_S = 0.5
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
    """The processes below one keeper; the keeper itself is not counted."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._statm: dict[int, int] = {}
        self._scanned_s = float("-inf")

    def read_bytes(self, now_s: float) -> int | None:
        """Resident memory of the tree now; None where no process of it can be read."""
        if now_s - self._scanned_s >= RESCAN_S or not self._statm:
            self._scanned_s = now_s
            self._rescan()
        total = 0
        for pid, descriptor in tuple(self._statm.items()):
            try:
                total += int(os.pread(descriptor, 256, 0).split(b" ", 2)[1]) * PAGE_BYTES
            except (OSError, IndexError):
                self._drop(pid)
        return total if self._statm else None

    def _rescan(self) -> None:
        waiting = list(children(self._root))
        found = set()
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting.extend(children(pid))
        for pid in set(self._statm) - found:
            self._drop(pid)
        for pid in found - set(self._statm):
            with contextlib.suppress(OSError):  # gone already
                self._statm[pid] = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)

    def _drop(self, pid: int) -> None:
        os.close(self._statm.pop(pid))

    def close(self) -> None:
        """Give the descriptors back."""
        for pid in tuple(self._statm):
            self._drop(pid)
