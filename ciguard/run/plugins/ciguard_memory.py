"""Memory and GPU memory of the tested process during one test, and the unpatched system calls.

This file lies beside `ciguard_pytest.py` in a private folder of the leg. Standard library only,
Python 3.8+.
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import json
import os
import sys
import time
from typing import Any, Callable

fcntl: Any = None
resource: Any = None
with contextlib.suppress(ImportError):  # not on Windows
    fcntl, resource = __import__("fcntl"), __import__("resource")

# A trim takes 24 us on a small heap and 13.5 ms on one of 1.6 GB, so that tests with little change
# of memory get no trim. Time never decides: a loaded machine must measure a test in the same way.
MOVED_BYTES = 256 << 10  # of resident memory; so much of a later peak may hide in freed heap
SHARED_BYTES = 64 << 10  # a mark that is less above resident memory is not reset
LEAK_BYTES = 8 << 20  # from this growth on, a collection shows whether it is only a cycle
# If a test closed all descriptors, pytest's capture still writes to its low numbers, and so into
# any file of ours that got such a number. Soft limits are at least 256.
LOWEST_FD = 200


class OriginalOs:
    """The functions of the operating system, as they are before any test runs.

    Tests replace os.stat, time.monotonic or all of os (mock, freezegun, pyfakefs), some for a whole
    session. Such tools replace attributes of modules; functions that an object holds stay the real
    ones.
    """

    def __init__(self) -> None:
        self.monotonic, self.process_time = time.monotonic, time.process_time
        self.open, self.write, self.getpid = os.open, os.write, os.getpid
        self.access, self.fstat, self.truncate = os.access, os.fstat, os.ftruncate
        self.read_at: Any = getattr(os, "pread", None)  # if it is missing, so is /proc
        self.sync, self.collect = getattr(os, "fdatasync", os.fsync), gc.collect
        self.encode = json.JSONEncoder(separators=(",", ":")).encode
        self.quote = json.encoder.encode_basestring_ascii
        self.usage: Any = getattr(resource, "getrusage", None)  # of this process, if called with 0
        self.close, self.duplicate = os.close, getattr(fcntl, "fcntl", None)
        self.count_threads = _thread._count
        # Without O_BINARY, Python 3.8 on Windows would turn "\n" into "\r\n".
        self.flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        # A signal handler writes to this descriptor, even if a test closed its file.
        self.written_to_by_a_signal = -1

    def dup_high(self, descriptor: int) -> int:
        """Return the same open file under a free high number, if there is one."""
        if self.duplicate is None:
            return descriptor
        try:
            high: int = self.duplicate(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
            if high == self.written_to_by_a_signal:
                taken, high = high, self.duplicate(descriptor, fcntl.F_DUPFD_CLOEXEC, high + 1)
                self.close(taken)
        except OSError:
            return descriptor
        self.close(descriptor)
        return high


REAL = OriginalOs()


class ReopeningFile:
    """A descriptor that is opened again if a test closed it or replaced it by another file."""

    def __init__(self, path: str, flags: int) -> None:
        self._path, self._flags = path, flags | REAL.flags
        self._descriptor, self._identity = -1, (-1, -1)

    def descriptor(self) -> int:
        # A test may have closed every descriptor, and opened other files since.
        ours = False
        try:  # a suppress() would cost as much as the call
            seen = REAL.fstat(self._descriptor)
            ours = (seen.st_dev, seen.st_ino) == self._identity
            if ours and seen.st_nlink:
                return self._descriptor
        except OSError:
            pass
        try:
            self._descriptor = REAL.dup_high(REAL.open(self._path, self._flags, 0o644))
        except OSError:
            if not ours:
                raise
            return self._descriptor  # the leg also reads a file that was removed
        seen = REAL.fstat(self._descriptor)
        self._identity = (seen.st_dev, seen.st_ino)
        return self._descriptor


class Memory:
    """The high-water mark of this process over one test (Linux: proc(5), VmHWM)."""

    def __init__(self, *, keeps_peak: bool = False) -> None:
        self._keeps_peak = keeps_peak  # tests read the mark themselves, so it is not reset
        self._status = ReopeningFile("/proc/self/status", os.O_RDONLY)
        self._statm = ReopeningFile("/proc/self/statm", os.O_RDONLY)
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
        self._clear_refs = ReopeningFile("/proc/self/clear_refs", os.O_WRONLY)
        self._malloc_trim: Callable[[int], int] | None = None
        # Only glibc has malloc_trim, and not every Python has ctypes. PyDLL keeps the interpreter
        # lock, because to get the lock back could take 5 ms if another thread is busy.
        with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
            self._malloc_trim = __import__("ctypes").PyDLL(None).malloc_trim
        self._method = "mark_untrimmed" if self._malloc_trim is None else "mark"
        self._measuring = False
        self._resident_at_start: int | None = None  # since the mark was reset
        self._floor, self._fixture_ended = 0, False  # resident memory after the last trim; since it
        self._collects = True

    def prepare(self, *, collects: bool) -> list[str]:
        """Trim memory after collection; return the measurements that are unavailable, in words.

        Args:
            collects: garbage collection is harmless, as no warning of a destructor is an error.
        """
        self.begin()
        self._collects = collects
        unavailable = []
        self._resident_at_start = None  # pytest's work before tests is no part of a test
        if self._measuring:
            self._trim()
        else:
            reason = "CIGUARD_KEEP_PEAK is set" if self._keeps_peak else "clear_refs"
            unavailable.append(f"{reason}: memory of tests is not measured")
        if self._measuring and not collects:
            unavailable.append("a collection after tests that grew (a warning may be an error): ")
            unavailable[-1] += "what they retained may be reference cycles"
        if self._malloc_trim is None:
            unavailable.append("malloc_trim (glibc, ctypes): peaks of small tests may be too low")
        return unavailable

    def _mark(self) -> int:
        """Return the high-water mark in bytes.

        Raises:
            OSError, ValueError: the mark cannot be read.
        """
        content = REAL.read_at(self._status.descriptor(), 16384, 0)
        start = content.index(b"VmHWM:") + 6
        return int(content[start : content.index(b"kB", start)]) << 10

    def _resident(self) -> int:
        # statm has the value of VmRSS, and takes 1 us instead of the 7 us of status.
        content = REAL.read_at(self._statm.descriptor(), 256, 0)
        return int(content.split(b" ", 2)[1]) * self._page

    def end_wider_fixture(self) -> None:
        """Note the end of a wider fixture, whose freed memory may not show in resident memory."""
        self._fixture_ended = True

    def begin(self) -> int | None:
        """Return resident memory at the start of a test; None if it is unknown.

        Tests run back to back, so the value at the end of the last test is used, from which the
        mark counts.
        """
        if self._resident_at_start is None:
            self._measuring = False
            with contextlib.suppress(OSError, ValueError, TypeError):  # Wine has /proc, no pread
                self._resident_at_start = self._resident()
                if not self._keeps_peak:
                    REAL.write(self._clear_refs.descriptor(), b"5")
                    self._measuring = True
        return self._resident_at_start

    def end(self) -> str:
        """Return the members of the result line as JSON; "" if nothing was measured.

        Freed memory is returned here and not in `begin`, because one trim then serves twice: the
        remaining resident memory is really retained, and the next test cannot hide its peak in
        freed heap.
        """
        before, self._resident_at_start = self._resident_at_start, None
        if before is None or not self._measuring:
            return ""
        try:
            resident = self._resident()
            mark = self._mark_near(before, resident)
            after = self._trim_if_useful(before, resident)
            if mark - after > SHARED_BYTES:
                REAL.write(self._clear_refs.descriptor(), b"5")
        except (OSError, ValueError):
            return ""
        self._resident_at_start = after
        return (
            f',"rss_before_bytes":{before},"peak_bytes":{max(mark, before)}'
            f',"peak_delta_bytes":{max(0, mark - before)},"retained_bytes":{after - before}'
            f',"measured_by":"{self._method}"'
        )

    def _mark_near(self, before: int, after: int) -> int:
        """Return the mark by getrusage, which takes a tenth of the time, if memory changed little.

        The value of getrusage is at least the peak of the program before this process's exec, and
        the kernel computes it from approximate counts; `status` is exact.
        """
        if REAL.usage is not None:
            mark: int = REAL.usage(0).ru_maxrss << 10
            if abs(mark - before) <= MOVED_BYTES and abs(after - before) <= MOVED_BYTES:
                return mark
        return self._mark()

    def _trim_if_useful(self, before: int, resident: int) -> int:
        """Trim if a later peak could hide in freed heap; return the resident memory afterwards."""
        if abs(resident - self._floor) <= MOVED_BYTES and not self._fixture_ended:
            return resident
        self._trim()
        if self._collects and self._floor - before > LEAK_BYTES:
            REAL.collect()
            self._trim()
        return self._floor

    def _trim(self) -> None:
        if self._malloc_trim is not None:
            self._malloc_trim(0)
        self._floor, self._fixture_ended = self._resident(), False


def reset_gpu_peak() -> None:
    """Reset the peak of each device in torch's allocator.

    This module never imports torch, and creates no context on a device. The peak is the sum of
    allocated bytes over the devices. Reserved bytes also contain the cache of earlier tests, which
    torch returns before it reports out of memory: the limit of a device applies to allocated
    memory.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):  # a test's stand-in, or a device after an error
            for device in _devices(torch):
                torch._C._cuda_resetPeakMemoryStats(device)


def gpu_peak_bytes() -> int | None:
    """Return the sum of the devices' peaks; None if CUDA is not initialised."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):
            # `torch.cuda.max_memory_allocated` takes ten times as long.
            stats = [torch._C._cuda_memoryStats(device) for device in _devices(torch)]
            peaks = [int(one["allocated_bytes"]["all"]["peak"]) for one in stats]
            return sum(peaks) if peaks else None
    return None


def _devices(torch: Any) -> range:
    # "is True", because a stand-in for torch may return objects that count as true.
    return range(torch.cuda.device_count() if torch.cuda.is_initialized() is True else 0)
