"""Memory of the tested process over one test, measured from inside; and the system as it was.

Lies beside `ciguard_pytest.py` in a folder of the leg's own. Standard library only, Python 3.8+.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

fcntl: Any = None
with contextlib.suppress(ImportError):  # not on Windows
    fcntl = __import__("fcntl")
resource: Any = None
with contextlib.suppress(ImportError):  # nor this
    resource = __import__("resource")

DEAR_TRIM_S = 100e-6  # 24 us on a small heap, 13.5 ms on a fragmented one of 1.6 GB
TRY_AGAIN_TESTS = 256  # a heap may shrink, and a slow trim may have been the machine's fault
GREW_BYTES = 256 << 10  # what stays in the heap can hide as much of the next test's peak
LEAK_BYTES = 8 << 20  # above it a collection is worth its time: is it a leak, or only a cycle?
# Where a test closed all descriptors, pytest's capture still writes to the low numbers that it had:
# a file of ours that took one of them would be written into. Soft limits are 256 at the least.
ABOVE = 200


class Real:
    """The operating system as it is before any test runs.

    Tests replace os.stat, time.monotonic or all of os (mock, freezegun, pyfakefs), some for a whole
    session. Such tools replace what modules hold: functions held by an object stay the real ones.
    """

    def __init__(self) -> None:
        self.monotonic, self.process_time = time.monotonic, time.process_time
        self.open, self.write, self.getpid = os.open, os.write, os.getpid
        self.stat, self.fstat, self.truncate = os.stat, os.fstat, os.ftruncate
        self.read_at: Any = getattr(os, "pread", None)  # where it is missing, so is /proc
        self.sync, self.collect = getattr(os, "fdatasync", os.fsync), gc.collect
        self.encode = json.JSONEncoder(separators=(",", ":")).encode
        self.usage: Any = getattr(resource, "getrusage", None)
        self.close, self.duplicate = os.close, getattr(fcntl, "fcntl", None)
        # 3.8 on Windows would turn "\n" into "\r\n" without it.
        self.flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        # A signal handler writes to it for good, also where a test closed the file behind it.
        self.written_to_by_a_signal = -1

    def raised(self, descriptor: int) -> int:
        """The same open file under a number that nobody else had, where there is room for it."""
        if self.duplicate is None:
            return descriptor
        try:
            high: int = self.duplicate(descriptor, fcntl.F_DUPFD_CLOEXEC, ABOVE)
            if high == self.written_to_by_a_signal:
                taken, high = high, self.duplicate(descriptor, fcntl.F_DUPFD_CLOEXEC, high + 1)
                self.close(taken)
        except OSError:
            return descriptor
        self.close(descriptor)
        return high


REAL = Real()


class KeptFile:
    """A descriptor that is opened anew when a test closed it or put another file in its place."""

    def __init__(self, path: str, flags: int) -> None:
        self._path, self._flags = path, flags | REAL.flags
        self._descriptor, self._identity = -1, (-1, -1)
        self.opened = 0  # how often

    def descriptor(self) -> int:
        # A test may have closed every descriptor, and opened its own files since.
        ours = False
        with contextlib.suppress(OSError):
            seen = REAL.fstat(self._descriptor)
            ours = (seen.st_dev, seen.st_ino) == self._identity
            if ours and seen.st_nlink:
                return self._descriptor
        try:
            self._descriptor = REAL.raised(REAL.open(self._path, self._flags, 0o644))
        except OSError:
            if not ours:
                raise
            return self._descriptor  # removed with its folder: the leg reads it all the same
        self.opened += 1
        seen = REAL.fstat(self._descriptor)
        self._identity = (seen.st_dev, seen.st_ino)
        return self._descriptor


class Tree:
    """What this process and its children grew by at most over one test, as their cgroup counts it.

    Page cache counts too, so it is looked at only where a test had children: without them the mark
    of the process is the whole truth.

    Args:
        peak_file: of the process's own cgroup: `memory.peak` of v2, where a write resets what this
            descriptor shows (Linux 6.12), or `memory.max_usage_in_bytes` of v1.
    """

    def __init__(self, peak_file: str) -> None:
        folder, name = os.path.split(peak_file)
        self._peak = KeptFile(peak_file, os.O_RDWR)
        usage = "memory.current" if name == "memory.peak" else "memory.usage_in_bytes"
        self._usage = KeptFile(os.path.join(folder, usage), os.O_RDONLY)
        self._members = KeptFile(os.path.join(folder, "cgroup.procs"), os.O_RDONLY)
        self._opened, self._before, self._ended = 0, 0, self._children_ended()

    def _children_ended(self) -> Tuple[Any, ...]:
        """Changes with every child that was waited for."""
        used = REAL.usage(resource.RUSAGE_CHILDREN)
        return used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw

    def begin(self) -> None:
        """Reset the counter. Raises OSError or ValueError where that cannot be."""
        self._opened = -1
        REAL.write(self._peak.descriptor(), b"0\n")
        self._before = self._number(self._usage)
        self._ended = self._children_ended()
        self._opened = self._peak.opened

    def growth_bytes(self) -> Optional[int]:
        """None where there were no children, or a test closed the descriptor."""
        members = REAL.read_at(self._members.descriptor(), 64, 0)
        if self._ended == self._children_ended() and len(members.split()) <= 1:
            return None
        peak = self._number(self._peak)
        return max(0, peak - self._before) if self._opened == self._peak.opened else None

    @staticmethod
    def _number(file: KeptFile) -> int:
        return int(REAL.read_at(file.descriptor(), 64, 0))


class Memory:
    """The high-water mark of this process over one test (Linux: proc(5), VmHWM).

    Args:
        peak_file: see `Tree`; "" where it has no cgroup of its own.
    """

    def __init__(self, peak_file: str = "") -> None:
        self._tree = Tree(peak_file) if peak_file and REAL.usage is not None else None
        self._status = KeptFile("/proc/self/status", os.O_RDONLY)
        self._statm = KeptFile("/proc/self/statm", os.O_RDONLY)
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
        self._clear = KeptFile("/proc/self/clear_refs", os.O_WRONLY)
        self._malloc_trim: Optional[Callable[[int], int]] = None
        # Only glibc has it, and not every Python has ctypes. PyDLL keeps the interpreter lock:
        # giving it up could wait 5 ms for a busy thread.
        with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
            self._malloc_trim = __import__("ctypes").PyDLL(None).malloc_trim
        self._trims, self._untrimmed, self._trim_mean_s = 0, 0, 0.0
        self._measuring, self._before, self._floor = False, 0, 0  # floor: behind the last trim
        self._collects = True

    def prepare(self, *, collects: bool) -> List[str]:
        """Give back what collecting freed; say in words what this machine does not have.

        Args:
            collects: a collection of garbage changes nothing but memory.
        """
        self.begin()
        self._collects = collects
        lacking = []
        if self._measuring:
            self._trim()
            self._trims = 0  # slow once: it says nothing of the trims between tests
        else:
            lacking.append("clear_refs: memory of tests is not measured")
        try:
            if self._tree is not None:
                self._tree.begin()
        except (OSError, ValueError) as error:
            self._tree = None
            lacking.append(f"a cgroup peak that can be reset: children are not measured ({error})")
        if self._measuring and not collects:
            lacking.append("a collection behind tests that grew (a warning may be an error): ")
            lacking[-1] += "what they retained may be reference cycles"
        if self._malloc_trim is None:
            lacking.append("malloc_trim (glibc, ctypes): peaks of small tests may be too low")
        return lacking

    def _mark(self) -> int:
        """The high-water mark in bytes; OSError or ValueError where it is not to be had."""
        content = REAL.read_at(self._status.descriptor(), 16384, 0)
        start = content.index(b"VmHWM:") + 6
        return int(content[start : content.index(b"kB", start)]) << 10

    def _resident(self) -> int:
        # statm says what VmRSS says, in 1 us instead of the 7 us that status takes.
        content = REAL.read_at(self._statm.descriptor(), 256, 0)
        return int(content.split(b" ", 2)[1]) * self._page

    def resident_bytes(self) -> Optional[int]:
        """As it is now; None where nobody says."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return self._resident()
        return None

    def begin(self) -> None:
        """Reset the mark: what was freed before is given back already (see `end`)."""
        self._measuring = False
        if REAL.read_at is None:
            return  # under Wine there is a /proc all the same
        with contextlib.suppress(OSError, ValueError):
            REAL.write(self._clear.descriptor(), b"5")
            self._before = self._resident()
            self._measuring = True
            if self._tree is not None:
                self._tree.begin()

    def end(self) -> Dict[str, Any]:
        """The fields of the result line; none where nothing was measured.

        Freed memory is given back here and not in `begin`, so that one trim serves twice: what is
        still resident is really retained, and the next test cannot hide its peak in freed heap.
        """
        if not self._measuring:
            return {}
        with contextlib.suppress(OSError, ValueError):
            mark = self._mark()
            bounds = self._bounds(max(mark, self._before))  # before the trim takes its time
            trimmed = self._malloc_trim is not None and not self._untrimmed
            return {
                "rss_before_bytes": self._before,
                "peak_bytes": max(mark, self._before),
                "peak_delta_bytes": max(0, mark - self._before),
                "retained_bytes": self._give_back(),
                "measured_by": "mark" if trimmed else "mark_untrimmed",
                **bounds,
            }
        return {}

    def _bounds(self, peak: int) -> Dict[str, Any]:
        """What the peak lies between with the children of the test; nothing where it had none."""
        growth = self._tree.growth_bytes() if self._tree is not None else None
        if growth is None:
            return {}
        upper = max(peak, self._before + growth)
        by = "cgroup"
        return {"peak_lower_bytes": peak, "peak_upper_bytes": upper, "bounds_measured_by": by}

    def _give_back(self) -> int:
        """Trim where that is affordable or needed; what the test retained after it, in bytes."""
        dear = self._trims and self._trim_mean_s > DEAR_TRIM_S
        if dear and self._untrimmed >= TRY_AGAIN_TESTS:
            self._trims = 0
        elif dear and self._resident() - self._floor <= GREW_BYTES:
            self._untrimmed += 1
            return self._resident() - self._before
        self._trim()
        if self._collects and self._floor - self._before > LEAK_BYTES:
            REAL.collect()
            self._trim()
        return self._floor - self._before

    def _trim(self) -> None:
        start_s = REAL.monotonic()
        if self._malloc_trim is not None:
            self._malloc_trim(0)
        took_s = REAL.monotonic() - start_s
        self._trims = min(self._trims + 1, 16)
        self._trim_mean_s += (took_s - self._trim_mean_s) / self._trims
        self._floor, self._untrimmed = self._resident(), 0
