"""Peaks of units from outside: high-water marks of a process tree, window after window.

The leg reads each process's VmHWM and resets it (proc(5), clear_refs), so a window holds its exact
peak, however short. Units announce when they begin and end, and the leg hears of it a little later:
a unit's peak lies between that of the windows surely inside its time and that of all that overlap
it. Only processes that this leg started have their marks reset, and none that resets its own.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Mapping, NamedTuple, Sequence, Union

from ciguard.model import EventLine, PeakLine, Result, StartLine, UnitKey
from ciguard.run.frameworks.base import PEAK_RESET_BY

assert sys.platform != "win32"


if TYPE_CHECKING:
    from typing import Dict, List, Optional, Set, Tuple

    from ciguard.run.memory.process_tree import TreeMemory

EVERY_S: Final = 0.04  # the leg reads a program's lines as often
# Closing a window takes 1 % of a core at most, while nothing is announced.
MAX_COST_RATIO: Final = 100
UNKNOWN: Final = float("inf")


class Window(NamedTuple):
    """What one window held, in bytes.

    Attributes:
        lower: the largest mark of one process, with what the others held at the beginning and at
            the end of the window: so a worker that lives for one unit counts beside the process
            that started it. upper: the sum of all marks, UNKNOWN where a process ended in it.
        size: resident at its end, all processes together.
        largest: mark of one process.
    """

    lower: int
    upper: float
    size: int
    largest: int = 0


@dataclass
class UnitSpan:
    """What is known of a unit that runs."""

    upper: float
    rss_before: int
    lower: int = 0
    concurrent: int = 1
    reported: bool = False

    def add_windows(self, windows: Sequence[Window]) -> None:
        """It ran in a part of each."""
        self.upper = max([self.upper, *(window.upper for window in windows)])


class UnitPeaks:
    """Which units ran in which windows. Pure: windows and lines come in as the leg met them."""

    def __init__(self) -> None:
        self._open: Dict[UnitKey, UnitSpan] = {}
        self._closed: List[Window] = []  # since the lines were read last
        self._tail: List[Window] = []  # the one that was closed after the last lines
        self._size = 0
        self._silent = UnitSpan(0.0, 0)  # since anything was heard
        self._overlap = False  # units were seen to run side by side

    def close(self, window: Window) -> None:
        """A window ended before the next lines are read."""
        self._closed.append(window)

    def no_lines(self) -> None:
        """Nothing was heard: whoever was running still is, and was all the time."""
        for span in self._open.values():
            span.add_windows(self._closed)
            span.lower = max([span.lower, *(window.lower for window in self._closed)])
        self._silent.add_windows(self._closed)
        self._size = self._closed[-1].size if self._closed else self._size
        self._closed = []

    def add_lines(
        self, lines: Sequence[Union[StartLine, Result, EventLine]], last: Window
    ) -> List[PeakLine]:
        """Take in lines and the window that was closed after them; give what results lack."""
        windows = [*self._tail, *self._closed, last]
        for span in (*self._open.values(), self._silent):
            span.add_windows(windows)
        found = []
        for line in lines:
            key = UnitKey(line.suite, line.variant, line.unit or "")
            if isinstance(line, StartLine):
                self._begin(key, windows)
            elif isinstance(line, EventLine):
                self._open.pop(key, None)
            else:
                found.append(self._peak(line, self._open.get(key, self._silent)))
                if key in self._open:
                    self._open[key].reported = True
                    if line.case in ("", line.unit):
                        del self._open[key]
        self._tail, self._closed, self._size = [last], [], last.size
        self._silent = UnitSpan(0.0, last.size)
        return [peak for peak in found if peak is not None]

    def _begin(self, key: UnitKey, windows: Sequence[Window]) -> None:
        self._overlap = self._overlap or not all(span.reported for span in self._open.values())
        if not self._overlap:
            self._open = {}  # a unit of several cases ends where the next one begins
        span = UnitSpan(0.0, min([self._size, *(window.size for window in windows)]))
        span.add_windows(windows)
        self._open.setdefault(key, span)
        for other in self._open.values():
            other.concurrent = max(other.concurrent, len(self._open))

    def _peak(self, result: Result, span: UnitSpan) -> PeakLine | None:
        measured = (result.peak_bytes, result.peak_lower_bytes, result.peak_upper_bytes)
        if any(size is not None for size in measured):
            return None
        # What several units in one heap had together says nothing of the least that one had.
        alone = span.concurrent == 1 and span.lower > 0
        return PeakLine(
            unit=result.unit,
            suite=result.suite,
            variant=result.variant,
            case=result.case,
            process=result.process,
            rss_before_bytes=span.rss_before,
            peak_lower_bytes=span.lower if alone else None,
            peak_upper_bytes=None if span.upper == UNKNOWN else int(span.upper),
            concurrent=span.concurrent,
        )


def window_of(
    marks: Mapping[int, int], before: Mapping[int, int], after: Mapping[int, int], *, lost: bool
) -> Window:
    """What a window held.

    Args:
        marks: high-water mark of each process in it, bytes.
        before, after: what each had resident at its beginning and its end.
        lost: a process ended in it, whose mark is not known.
    """
    held = {pid: min(before.get(pid, 0), size) for pid, size in after.items()}
    all_held = sum(held.values())
    lower = max((mark + all_held - held[pid] for pid, mark in marks.items()), default=0)
    upper = UNKNOWN if lost else float(sum(marks.values()))
    return Window(lower, upper, sum(after.values()), max(marks.values(), default=0))


def _read_and_reset(pid: int) -> Tuple[int, int]:
    """The mark and the resident size of a process; begins a new window.

    Raises:
        OSError: it has gone. ValueError: it is a zombie.
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
    """The windows of one tree, and what its units had in them.

    Args:
        tree: whose processes. owner: of the marks that may be reset, as PEAK_RESET_BY says it.
    """

    def __init__(self, tree: TreeMemory, owner: str) -> None:
        self._tree = tree
        self._owner = f"{PEAK_RESET_BY}={owner}".encode("ascii")
        self._is_ours: Dict[int, bool] = {}  # whether the leg may reset a process's mark
        self._intervals = UnitPeaks()
        self._lines: List[Union[StartLine, Result, EventLine]] = []
        self._last_pid = b""
        self._reaped: Mapping[int, int] = {}
        self._closed_s, self._every_s = float("-inf"), EVERY_S
        self._resident: Dict[int, int] = {}  # of each process, when the last window was closed
        self._measuring = False
        self._final_bytes: Optional[int] = None
        self.peak_bytes = 0  # the largest mark of one process

    def poll(self, now_s: float) -> None:
        """Close a window, if it is time; before the program's lines are read."""
        if now_s - self._closed_s >= self._every_s:
            self._closed_s = now_s
            window = self._close()
            if window is not None:
                self._intervals.close(window)

    def end(self, peak_bytes: int | None) -> None:
        """The process that was started is gone; its last mark is what the kernel says of it."""
        self._final_bytes = peak_bytes or 0

    def add_line(self, line: Union[StartLine, Result, EventLine]) -> None:
        """Take in a line as it was read."""
        self._lines.append(line)

    def take_peaks(self) -> Sequence[PeakLine]:
        """All lines are read: what is known of the units that ended."""
        lines, self._lines = self._lines, []
        if not lines:
            self._intervals.no_lines()
            return ()
        window = self._close()
        if not self._measuring:
            return ()
        return self._intervals.add_lines(lines, window or Window(0, UNKNOWN, 0))

    def _close(self) -> Window | None:
        """The window that ends now; None where no process is ours to measure."""
        if self._final_bytes is not None:
            return self._final(self._final_bytes)
        start_s = time.thread_time()  # CPU time: on a busy machine windows stay as short
        last_pid = _last_pid()
        changed = last_pid != self._last_pid or not last_pid
        if changed:  # somewhere a process or a thread began
            self._last_pid = last_pid
            self._tree.rescan()
        marks: Dict[int, int] = {}
        resident: Dict[int, int] = {}
        gone: Set[int] = set()
        for pid in self._tree.pids():
            try:
                if self._may_reset(pid):
                    marks[pid], resident[pid] = _read_and_reset(pid)
            except (OSError, ValueError):
                gone.add(pid)
        lost = changed and self._child_ended()  # one that was not seen, maybe
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
        """The window in which all ended: known if no other process had begun or was there."""
        self.peak_bytes = max(self.peak_bytes, size)
        has_other_processes = sum(self._is_ours.values()) > 1
        known = size > 0 and not has_other_processes and _last_pid() == self._last_pid
        return Window(size, size if known else UNKNOWN, 0) if self._measuring else None

    def _may_reset(self, pid: int) -> bool:
        if pid not in self._is_ours:
            with open(f"/proc/{pid}/environ", "rb") as stream:
                words = stream.read().split(b"\0")
            if words == [b""]:
                return False  # in the midst of its exec, or cleaned: asked again
            self._is_ours[pid] = self._owner in words
        return self._is_ours[pid]

    def _child_ended(self) -> bool:
        """Whether any process of the tree has waited for a child that did something."""
        before, self._reaped = (
            self._reaped,
            {pid: _children_faults(pid) for pid in (self._tree.root, *self._tree.pids())},
        )
        return any(faults != before.get(pid, 0) for pid, faults in self._reaped.items())


def _last_pid() -> bytes:
    """The newest process or thread in our namespace; b"" where that is not known."""
    with contextlib.suppress(OSError, IndexError), open("/proc/loadavg", "rb") as stream:
        return stream.read().split()[4]
    return b""


def _children_faults(pid: int) -> int:
    """Page faults of a process's children that ended; none starts without one (proc(5), stat)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[8])
    except (OSError, IndexError):
        return 0
