"""A job object: what is started in it, and all that starts, dies with the last handle to it, ours.

Windows closes our handles when we are killed, so that no keeper is needed. Hosted runners run steps
in a job of their own; from Windows 8 on jobs nest. Breaking away is not allowed: a test that asks
for CREATE_BREAKAWAY_FROM_JOB is refused by Windows.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any, Optional, Tuple

from ciguard.run.platforms.windows_api import (
    ACCOUNTING,
    DBG_TERMINATE_PROCESS,
    DWORD,
    EXTENDED_LIMITS,
    KILL_ON_JOB_CLOSE,
    MOST_PROCESSES,
    PROCESS_IDS,
    QUERY_LIMITED_INFORMATION,
    TICKS_A_SECOND,
    Accounting,
    ExtendedLimits,
    MemoryCounters,
    MemoryStatus,
    ProcessIds,
)

assert sys.platform == "win32"

GONE_S = 5.0  # what has been terminated goes in milliseconds, unless a driver holds it


def _libraries() -> Tuple[Any, Any]:
    """kernel32 and ntdll; a handle without its type would be passed as an int of 32 bits."""
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    ntdll = ctypes.WinDLL("ntdll")
    handle = pointer = ctypes.c_void_p
    kernel32.CreateJobObjectW.restype = kernel32.OpenProcess.restype = handle
    for function, arguments in (
        (kernel32.CreateJobObjectW, (pointer, pointer)),
        (kernel32.SetInformationJobObject, (handle, ctypes.c_int, pointer, DWORD)),
        (kernel32.QueryInformationJobObject, (handle, ctypes.c_int, pointer, DWORD, pointer)),
        (kernel32.AssignProcessToJobObject, (handle, handle)),
        (kernel32.TerminateJobObject, (handle, DWORD)),
        (kernel32.OpenProcess, (DWORD, ctypes.c_int, DWORD)),
        (kernel32.K32GetProcessMemoryInfo, (handle, pointer, DWORD)),
        (kernel32.GlobalMemoryStatusEx, (pointer,)),
        (kernel32.SetConsoleCtrlHandler, (pointer, ctypes.c_int)),
        (kernel32.CloseHandle, (handle,)),
        (ntdll.NtResumeProcess, (handle,)),
    ):
        function.argtypes = arguments
    return kernel32, ntdll


KERNEL32, NTDLL = _libraries()


def _refused() -> OSError:
    return ctypes.WinError(ctypes.get_last_error())


class Job:
    """Raises OSError where Windows refuses it."""

    def __init__(self) -> None:
        self._handle: Optional[int] = KERNEL32.CreateJobObjectW(None, None)
        if not self._handle:
            raise _refused()
        limits = ExtendedLimits()
        limits.basic.limit_flags = KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        if not KERNEL32.SetInformationJobObject(
            self._handle, EXTENDED_LIMITS, ctypes.byref(limits), size
        ):
            error = _refused()
            self.close()
            raise error

    def take(self, process: int) -> None:
        """Put a process into it, by its handle, before it runs.

        Raises:
            OSError: it is in a job that does not let it into another.
        """
        if not KERNEL32.AssignProcessToJobObject(self._handle, process):
            raise _refused()

    def terminate(self) -> None:
        """End all that is in it, and wait until it has gone."""
        KERNEL32.TerminateJobObject(self._handle, DBG_TERMINATE_PROCESS)
        end_s = time.monotonic() + GONE_S
        while self.accounting().active_processes and time.monotonic() < end_s:
            time.sleep(0.001)

    def _ask(self, kind: int, answer: ctypes.Structure) -> None:
        # Where it fails the answer stays 0, as where nothing was measured.
        size = ctypes.sizeof(answer)
        KERNEL32.QueryInformationJobObject(self._handle, kind, ctypes.byref(answer), size, None)

    def accounting(self) -> Accounting:
        """Of all processes that were ever in it."""
        found = Accounting()
        self._ask(ACCOUNTING, found)
        return found

    def cpu_s(self) -> Optional[float]:
        """Their CPU time."""
        found = self.accounting()
        ticks = int(found.total_user_time) + int(found.total_kernel_time)
        return ticks / TICKS_A_SECOND if ticks else None

    def peak_bytes(self) -> Optional[int]:
        """The most that was committed at once."""
        found = ExtendedLimits()
        self._ask(EXTENDED_LIMITS, found)
        return int(found.peak_job_memory_used) or None

    def pids(self) -> Tuple[int, ...]:
        """The processes in it now; of very many the first."""
        found = ProcessIds()
        self._ask(PROCESS_IDS, found)
        return tuple(found.ids[: min(int(found.listed), MOST_PROCESSES)])

    def close(self) -> None:
        """Give the handle back: all that is in it dies."""
        if self._handle:
            KERNEL32.CloseHandle(self._handle)
            self._handle = None


def resume(process: int) -> bool:
    """Let a process run that was created suspended."""
    return int(NTDLL.NtResumeProcess(process)) >= 0


def opened(pid: int) -> Optional[int]:
    """A handle that keeps the pid from being given to another; None where it has gone."""
    return KERNEL32.OpenProcess(QUERY_LIMITED_INFORMATION, 0, pid) or None


def closed(handle: int) -> None:
    """Give it back."""
    KERNEL32.CloseHandle(handle)


def _counters(process: int) -> MemoryCounters:
    found = MemoryCounters()
    # Where it fails they stay 0: no live process has committed nothing.
    KERNEL32.K32GetProcessMemoryInfo(process, ctypes.byref(found), ctypes.sizeof(found))
    return found


def committed_bytes(process: int) -> Optional[int]:
    """What a process has committed, by its handle: its own memory, shared pages left out."""
    return int(_counters(process).pagefile_usage) or None


def peak_committed_bytes(process: int) -> Optional[int]:
    """The most that it ever had committed, also when it has ended."""
    return int(_counters(process).peak_pagefile_usage) or None


def memory_status() -> Optional[MemoryStatus]:
    """The machine's memory."""
    found = MemoryStatus()
    found.size = ctypes.sizeof(found)
    return found if KERNEL32.GlobalMemoryStatusEx(ctypes.byref(found)) else None


def hear_ctrl_c() -> None:
    """Undo that Ctrl-C is ignored, which a process started in a group of its own inherits."""
    KERNEL32.SetConsoleCtrlHandler(None, 0)
