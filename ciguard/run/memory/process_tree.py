"""Resident memory of a process tree on Linux; shared pages count in each process.

The sizes come from `statm` of each process (4-420 us for 1-100 processes), the tree from a scan
twice a second, and after a new process of the machine, as far as scans then take no more than 0.5 %
of a core (3.8 ms for 24 processes of 10 threads). Without /proc every number is None: not measured
is not 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from typing import Deque, Dict, Final, List, Mapping, Optional, Sequence, Tuple, Union

from ciguard.model import EventLine, PeakLine, Result, StartLine, UnitKey

assert sys.platform != "win32"

RESCAN_S = 0.5
MAX_SCAN_COST_RATIO: Final = 200
LATE_S: Final = 1.0  # a sample is kept: the line of a start before it may be read after it
CHILD_BYTES: Final = 1 << 20  # above the test's own peak; less is noise of shared pages
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
        self._last_pid, self._is_new = b"", False
        self._scan_cost_s = 0.0
        self.seen_s: Dict[int, float] = {}  # by process, when it was first seen
        # Of readings of several processes, when each was first seen and its size; None: not kept.
        self.samples: Optional[Deque[Tuple[float, Sequence[Tuple[float, int]]]]] = None

    def read_bytes(self, now_s: float) -> int | None:
        """Return the resident memory now; None if no process of the tree can be read.

        A process that has ended and was not waited for has 0, which counts as unreadable. A child
        counts from its second reading on: between fork and exec it shows its parent's pages.
        """
        before, self._last_pid = self._last_pid, last_pid()
        self._is_new |= self._last_pid != before
        every_s = MAX_SCAN_COST_RATIO * self._scan_cost_s if self._is_new else RESCAN_S
        if now_s - self._scanned_s >= min(every_s, RESCAN_S) or not self._pids:
            start_s = time.thread_time()
            self._scanned_s, self._is_new = now_s, False
            self.rescan()
            for pid in self.seen_s.keys() - self._pids:
                if not os.path.exists(f"/proc/{pid}"):  # a scan may miss a process that runs
                    del self.seen_s[pid]
            self._scan_cost_s = time.thread_time() - start_s
        sizes, known = [], set(self.seen_s)
        for pid in tuple(self._pids):
            try:
                with open(f"/proc/{pid}/statm", "rb", buffering=0) as stream:
                    size = int(stream.read(256).split(b" ", 2)[1]) * PAGE_BYTES
                seen_s = self.seen_s.setdefault(pid, now_s)
                sizes.append((seen_s, size if pid in known or not known else 0))
            except (OSError, IndexError):
                self._pids.discard(pid)
        if self.samples is not None and len(sizes) > 1:
            self.samples.append((now_s, sizes))
        return sum(size for _, size in sizes) or None

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


class ChildPeaks:
    """Peaks of units with their child processes, where the process measures its own peaks itself.

    A sample of the tree between a unit's start and its result is a lower bound of the unit's peak,
    without the children of earlier units: a server that one starts is no memory of all others. Of
    units side by side nothing is known, because the children could be of any.
    """

    def __init__(self, tree: TreeMemory) -> None:
        self._samples = tree.samples = deque()
        self._first_s = float("inf")  # start of the first unit
        self._peaks: List[PeakLine] = []  # of new results
        # The unit that started last, until its result, and its largest sample so far.
        self._unit: Optional[UnitKey] = None
        self._start_s, self._largest = float("inf"), 0
        self.peak_bytes = 0  # of a single process: that is its own mark

    def poll(self, now_s: float) -> None:
        """Do nothing: the leg samples the tree."""

    def end(self, peak_bytes: int | None) -> None:
        """Do nothing: the mark of an ended process says nothing about its children."""

    def add_line(self, line: Union[StartLine, Result, EventLine]) -> None:
        """Take in a line of the process."""
        if line.at_s is None:
            return
        if isinstance(line, StartLine):
            self._unit, self._start_s, self._largest = line.unit_key, line.at_s, 0
            self._first_s = min(self._first_s, line.at_s)
        elif isinstance(line, Result) and line.unit_key == self._unit:
            self._reduce(line.at_s)
            is_alone = (line.concurrent or 1) == 1
            if is_alone and self._largest > (line.peak_bytes or 0) + CHILD_BYTES:
                names = line.unit, line.suite, line.variant, line.case, line.process
                self._peaks.append(PeakLine(*names, peak_lower_bytes=self._largest))
            self._unit, self._start_s = None, float("inf")

    def take_peaks(self) -> Sequence[PeakLine]:
        """Return the peaks of new results that are above what the process itself measured."""
        peaks, self._peaks = self._peaks, []
        if self._samples:
            self._reduce(self._samples[-1][0] - LATE_S)
        return peaks

    def _reduce(self, end_s: float) -> None:
        """Reduce the samples until this time to the largest one since the unit's start."""
        while self._samples and self._samples[0][0] <= end_s:
            at_s, sizes = self._samples.popleft()
            if at_s >= self._start_s:
                # Of the processes before the first unit, the largest runs the units; a wrapper
                # such as `poetry run` is no memory of any.
                own = (size for seen_s, size in sizes if seen_s <= self._first_s)
                children = (size for seen_s, size in sizes if seen_s > self._start_s)
                self._largest = max(self._largest, max(own, default=0) + sum(children))


def last_pid() -> bytes:
    """Return the newest process or thread of the pid namespace; b"" if not known."""
    with contextlib.suppress(OSError, IndexError), open("/proc/loadavg", "rb") as stream:
        return stream.read().split()[4]
    return b""


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

    def stalled_s(self) -> Mapping[str, float]:
        """Return the seconds in which some, and all programs waited; empty if not known."""
        waited_s = [(now - then) / 1e6 for now, then in zip(self._totals(), self._initial_totals)]
        names = ("stalled_s", "fully_stalled_s")
        return dict(zip(names, waited_s)) if len(waited_s) == len(names) else {}
