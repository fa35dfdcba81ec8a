"""Resident memory of a process tree on Linux; shared pages count in each process.

The sizes come from `statm` of each process (4-420 us for 1-100 processes), the tree from a scan
twice a second, and after a new process of the machine, as far as scans then take no more than 0.5 %
of a core (3.8 ms for 24 processes of 10 threads). Without /proc every number is None: not measured
is not 0.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import deque
from typing import Final, Mapping, Sequence

from ciguard.model import EventLine, PeakLine, Result, StartLine, UnitKey

assert sys.platform != "win32"

RESCAN_S = 0.5
MAX_SCAN_COST_RATIO: Final = 200
MAX_NAMED: Final = 16  # processes of a tree, the largest ones
NAME_CHARACTERS: Final = 40
# Of other programs the arguments are not shown: one may be a secret.
LARGE_BYTES: Final = 16 << 20
CODE: Final = re.compile(r"-$|-[A-Za-z]*c$|-[pne]+$|-r$|--eval|--print")
INTERPRETER: Final = re.compile(r"(python|pypy|node|ruby|perl|php|dotnet|bash|dash|sh)[\d.]*$")
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
        self._pids: dict[int, int] = {}  # process -> its parent
        self._sizes: dict[int, int] = {}  # by process, of the last reading
        self._peaks: dict[int, int] = {}  # by running process, as `has_changed` saw them
        self._scanned_s = float("-inf")
        self._last_pid, self._is_new = b"", False
        self._scan_cost_s = 0.0
        self.seen_s: dict[int, float] = {}  # by process, when it was first seen
        # Of readings of several processes, when each was first seen and its size; None: not kept.
        self.samples: deque[tuple[float, Sequence[tuple[float, int]]]] | None = None

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
            for pid in self.seen_s.keys() - self._pids.keys():
                if not os.path.exists(f"/proc/{pid}"):  # a scan may miss a process that runs
                    del self.seen_s[pid]
            self._scan_cost_s = time.thread_time() - start_s
        self._sizes, known = {}, set(self.seen_s)
        for pid in tuple(self._pids):
            try:
                with open(f"/proc/{pid}/statm", "rb", buffering=0) as stream:
                    size = int(stream.read(256).split(b" ", 2)[1]) * PAGE_BYTES
                self.seen_s.setdefault(pid, now_s)
                self._sizes[pid] = size if pid in known or not known else 0
            except (OSError, IndexError):
                del self._pids[pid]
        if self.samples is not None and len(self._sizes) > 1:
            sizes = [(self.seen_s[pid], size) for pid, size in self._sizes.items()]
            self.samples.append((now_s, sizes))
        return sum(self._sizes.values()) or None

    def has_changed(self) -> bool:
        """Return whether a process is larger than at any earlier call, or a large one ended.

        What the others hold after that end tells whether they can run without it.
        """
        peaks = {pid: self._peaks.get(pid, 0) for pid in self._sizes}
        grown = {pid: size for pid, size in self._sizes.items() if size > peaks[pid] + CHILD_BYTES}
        ended = any(size > LARGE_BYTES for pid, size in self._peaks.items() if pid not in peaks)
        self._peaks = {**peaks, **grown}
        return bool(grown) or ended

    def named_sizes(self) -> Mapping[str, int]:
        """Return the largest sizes of the last reading by the names of the process's ancestors.

        The name is "make/test.py" for a child of the program; equal names count together.
        """
        named: dict[str, int] = {}
        largest = sorted(self._sizes, key=lambda pid: self._sizes[pid], reverse=True)[:MAX_NAMED]
        for pid in filter(self._sizes.get, largest):
            names, ancestor = "", pid
            while ancestor in self._pids:
                names = f"{program_name(ancestor)}/{names}"
                ancestor = self._pids[ancestor]
            named[names[:-1]] = named.get(names[:-1], 0) + self._sizes[pid]
        return named

    def pids(self) -> frozenset[int]:
        """Return the processes of the last scan."""
        return frozenset(self._pids)

    def rescan(self) -> None:
        """Scan for processes that began or ended."""
        to_scan = [(pid, self.root) for pid in children(self.root)]
        self._pids = {}
        while to_scan:
            pid, parent = to_scan.pop()
            if pid not in self._pids:
                self._pids[pid] = parent
                to_scan.extend((child, pid) for child in children(pid))


class ChildPeaks:
    """Peaks of units with their child processes, where the process measures its own peaks itself.

    A sample of the tree between a unit's start and its result is a lower bound of the unit's peak,
    without the children of earlier units: a server that one starts is no memory of all others. Of
    units side by side nothing is known, because the children could be of any.
    """

    def __init__(self, tree: TreeMemory) -> None:
        self._samples = tree.samples = deque()
        self._first_s = float("inf")  # start of the first unit
        self._peaks: list[PeakLine] = []  # of new results
        # The unit that started last, until its result, and its largest sample so far.
        self._unit: UnitKey | None = None
        self._start_s, self._largest = float("inf"), 0
        self.peak_bytes = 0  # of a single process: that is its own mark

    def poll(self, now_s: float) -> None:
        """Do nothing: the leg samples the tree."""

    def end(self, peak_bytes: int | None) -> None:
        """Do nothing: the mark of an ended process says nothing about its children."""

    def add_line(self, line: StartLine | Result | EventLine) -> None:
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


def program_name(pid: int) -> str:
    """Return the name of a program, or of the script or module that an interpreter runs."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read(4096).decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    name = os.path.basename(words[0])
    if INTERPRETER.match(name):
        name = _script(f"/proc/{pid}/cwd", words[1:], name.startswith("py")) or name
    return name[:NAME_CHARACTERS] or "?"


def _script(folder: str, words: Sequence[str], takes_module: bool) -> str:
    """Return the file that an interpreter runs, or its module; "" for code in an argument."""
    for word, following in zip(words, [*words[1:], ""]):
        if CODE.match(word):
            break
        if word == "-m" and takes_module:
            return following
        if word and not word.startswith("-") and os.path.isfile(os.path.join(folder, word)):
            return os.path.basename(word)
    return ""


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
