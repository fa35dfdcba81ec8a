"""Peaks of units measured from outside, by high-water marks of a process tree in time windows.

The leg reads each process's VmHWM and resets it (proc(5), clear_refs): the mark is the exact peak
of the window between two resets. The leg learns a little later that a unit began or ended, so the
unit's peak has bounds: the lower one is the peak of the windows surely inside its time, the upper
one that of all windows that overlap it. The leg resets only marks of processes that it started and
that do not reset their own.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Final, Mapping, NamedTuple, Sequence

from ciguard.model import EventLine, PeakLine, Result, StartLine, UnitKey
from ciguard.run.frameworks.base import PEAK_RESET_BY

assert sys.platform != "win32"


from ciguard.run.memory.process_tree import TreeMemory, last_pid

EVERY_S: Final = 0.04  # as often as the leg reads a program's lines
# To close windows takes at most 1 % of a core while no lines arrive.
MAX_COST_RATIO: Final = 100
UNKNOWN: Final = float("inf")


class Window(NamedTuple):
    """Sizes of the tree in one time window, in bytes.

    Attributes:
        lower: lower bound of the peak: the largest mark of one process plus the memory that the
            others held at both ends of the window. So a worker that lives for one unit counts
            together with its parent.
        upper: upper bound: the sum of all marks; UNKNOWN if a process ended in the window.
        size: resident memory of all processes at the end.
        largest: largest mark of one process.
    """

    lower: int
    upper: float
    size: int
    largest: int = 0


@dataclass
class UnitSpan:
    """Bounds of the peak of a unit that runs, and the units beside it."""

    upper: float
    rss_before: int
    lower: int = 0
    concurrent: int = 1
    reported: bool = False

    def add_windows(self, windows: Sequence[Window]) -> None:
        """Extend the upper bound by windows in which the unit may have run."""
        self.upper = max([self.upper, *(window.upper for window in windows)])


class UnitPeaks:
    """Bounds of the peak of each unit. Pure: takes windows and lines in the leg's order."""

    def __init__(self) -> None:
        self._open: dict[UnitKey, UnitSpan] = {}
        self._closed: list[Window] = []  # since the last lines
        self._tail: list[Window] = []  # the window closed after the last lines, until the next read
        self._size = 0
        self._unannounced = UnitSpan(0.0, 0)  # of a result without a start line
        self._has_overlap = False  # units ran side by side

    def close(self, window: Window) -> None:
        """Take in a window that ended before new lines are read."""
        self._closed.append(window)

    def no_lines(self) -> None:
        """Take in that no line arrived: the open units ran in all closed windows."""
        for span in self._open.values():
            span.add_windows(self._closed)
            span.lower = max([span.lower, *(window.lower for window in self._closed)])
        self._unannounced.add_windows(self._closed)
        self._size = self._closed[-1].size if self._closed else self._size
        # A unit of the next lines begins later: the tail would be its start, maybe seconds ago.
        self._closed, self._tail = [], []

    def add_lines(
        self, lines: Sequence[StartLine | Result | EventLine], last: Window
    ) -> list[PeakLine]:
        """Take in lines and the window closed after them; return the peaks of the results."""
        windows = [*self._tail, *self._closed, last]
        for span in (*self._open.values(), self._unannounced):
            span.add_windows(windows)
        peaks = []
        for line in lines:
            key = line.unit_key
            if isinstance(line, StartLine):
                self._begin(key, line.rss_before_bytes, windows)
            elif isinstance(line, EventLine):
                self._open.pop(key, None)
            else:
                peaks.append(self._peak(line, self._open.get(key, self._unannounced)))
                if key in self._open:
                    self._open[key].reported = True
                    if line.case in ("", line.unit):
                        del self._open[key]
        self._tail, self._closed, self._size = [last], [], last.size
        self._unannounced = UnitSpan(0.0, last.size)
        return [peak for peak in peaks if peak is not None]

    def _begin(self, key: UnitKey, before: int | None, windows: Sequence[Window]) -> None:
        if not all(span.reported for span in self._open.values()):
            self._has_overlap = True
        if not self._has_overlap:
            self._open = {}  # a unit with several cases ends where the next unit begins
        if before is None:  # else by the program: 0 for a new process
            before = min([self._size, *(window.size for window in windows)])
        span = UnitSpan(0.0, before)
        span.add_windows(windows)
        self._open.setdefault(key, span)
        for other in self._open.values():
            other.concurrent = max(other.concurrent, len(self._open))

    def _peak(self, result: Result, span: UnitSpan) -> PeakLine | None:
        measured = (result.peak_bytes, result.peak_lower_bytes, result.peak_upper_bytes)
        if any(size is not None for size in measured):
            return None
        # The memory of concurrent units in one heap is no lower bound for one of them.
        is_alone = span.concurrent == 1 and span.lower > 0
        return PeakLine(
            unit=result.unit,
            suite=result.suite,
            variant=result.variant,
            case=result.case,
            process=result.process,
            rss_before_bytes=span.rss_before,
            peak_lower_bytes=span.lower if is_alone else None,
            peak_upper_bytes=None if span.upper == UNKNOWN else int(span.upper),
            concurrent=span.concurrent,
        )


def window_of(
    marks: Mapping[int, int], before: Mapping[int, int], after: Mapping[int, int], *, lost: bool
) -> Window:
    """Return the window with these marks.

    Args:
        marks: process -> high-water mark, bytes.
        before, after: process -> resident bytes at the beginning and at the end.
        lost: a process ended in the window, and its mark is not known.
    """
    held = {pid: min(before.get(pid, 0), size) for pid, size in after.items()}
    all_held = sum(held.values())
    lower = max((mark + all_held - held[pid] for pid, mark in marks.items()), default=0)
    upper = UNKNOWN if lost else float(sum(marks.values()))
    return Window(lower, upper, sum(after.values()), max(marks.values(), default=0))


def _read_and_reset(pid: int) -> tuple[int, int]:
    """Return the mark and the resident size of a process, and reset the mark.

    Raises:
        OSError: the process is gone. ValueError: it is a zombie.
    """
    with open(f"/proc/{pid}/status", "rb", buffering=0) as stream:
        content = stream.read(8192)
    with open(f"/proc/{pid}/clear_refs", "wb", buffering=0) as stream:
        stream.write(b"5")
    return _field(content, b"VmHWM:"), _field(content, b"VmRSS:")


def _field(status: bytes, name: bytes) -> int:
    start = status.index(name) + len(name)
    return int(status[start : status.index(b"kB", start)]) << 10


class PeakTracker:
    """Measurement of one tree: closes windows, and passes them and the lines to `UnitPeaks`.

    Args:
        tree: processes to measure. owner: value of PEAK_RESET_BY in those whose marks to reset.
    """

    def __init__(self, tree: TreeMemory, owner: str) -> None:
        self._tree = tree
        self._owner = f"{PEAK_RESET_BY}={owner}".encode("ascii")
        self._is_ours: dict[int, bool] = {}  # process -> the leg may reset its mark
        self._unit_peaks = UnitPeaks()
        self._lines: list[StartLine | Result | EventLine] = []
        self._last_pid = b""
        self._reaped: Mapping[int, int] = {}
        self._closed_s, self._every_s = float("-inf"), EVERY_S
        self._resident: dict[int, int] = {}  # process -> resident bytes at the last window's end
        self._measuring = False
        self._final_bytes: int | None = None
        self.peak_bytes = 0  # largest mark of one process

    def poll(self, now_s: float) -> None:
        """Close a window if it is due, before the program's lines are read."""
        if now_s - self._closed_s >= self._every_s:
            self._closed_s = now_s
            window = self._close()
            if window is not None:
                self._unit_peaks.close(window)

    def end(self, peak_bytes: int | None) -> None:
        """Take in the end of the process, with the kernel's value of its last mark."""
        self._final_bytes = peak_bytes or 0

    def add_line(self, line: StartLine | Result | EventLine) -> None:
        self._lines.append(line)

    def take_peaks(self) -> Sequence[PeakLine]:
        """Return the peaks of the units that ended with the new lines."""
        lines, self._lines = self._lines, []
        if not lines:
            self._unit_peaks.no_lines()
            return ()
        window = self._close()
        if not self._measuring:
            return ()
        return self._unit_peaks.add_lines(lines, window or Window(0, UNKNOWN, 0))

    def _close(self) -> Window | None:
        """Close the window; return None while the leg may reset the mark of no process."""
        if self._final_bytes is not None:
            return self._final(self._final_bytes)
        start_s = time.thread_time()  # CPU time: a busy machine does not make windows longer
        newest = last_pid()
        changed = newest != self._last_pid or not newest
        if changed:  # a process or a thread began on the machine
            self._last_pid = newest
            self._tree.rescan()
        marks: dict[int, int] = {}
        resident: dict[int, int] = {}
        gone: set[int] = set()
        for pid in self._tree.pids():
            try:
                if self._may_reset(pid):
                    marks[pid], resident[pid] = _read_and_reset(pid)
            except (OSError, ValueError):
                gone.add(pid)
        lost = changed and self._child_ended()  # perhaps a process that no scan has seen
        for pid in (self._is_ours.keys() - self._tree.pids()) | gone:
            lost = self._is_ours.pop(pid, False) or lost
        self._every_s = max(EVERY_S, MAX_COST_RATIO * (time.thread_time() - start_s))
        window = window_of(marks, self._resident, resident, lost=lost)
        self._resident = resident
        self._measuring = self._measuring or window.size > 0
        if not self._measuring:
            return None
        self.peak_bytes = max(self.peak_bytes, window.largest)
        return window

    def _final(self, size: int) -> Window | None:
        """Return the last window; its upper bound is known if no other process existed in it."""
        self.peak_bytes = max(self.peak_bytes, size)
        has_other_processes = sum(self._is_ours.values()) > 1
        known = size > 0 and not has_other_processes and last_pid() == self._last_pid
        return Window(size, size if known else UNKNOWN, 0) if self._measuring else None

    def _may_reset(self, pid: int) -> bool:
        if pid not in self._is_ours:
            with open(f"/proc/{pid}/environ", "rb") as stream:
                words = stream.read().split(b"\0")
            if words == [b""]:
                return False  # the process is in its exec, or has no variables: asked again
            self._is_ours[pid] = self._owner in words
        return self._is_ours[pid]

    def _child_ended(self) -> bool:
        """Return whether a process of the tree has waited for a child since the last call."""
        before = self._reaped
        self._reaped = {pid: _children_faults(pid) for pid in (self._tree.root, *self._tree.pids())}
        return any(faults != before.get(pid, 0) for pid, faults in self._reaped.items())


def _children_faults(pid: int) -> int:
    """Return the page faults of a process's ended children; each child has some (proc(5), stat)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[8])
    except (OSError, IndexError):
        return 0
