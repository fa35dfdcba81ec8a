"""Windows (tested under Wine only): a job object for each process, memory as committed bytes.

A process in a job object and all its descendants die with the last handle to the job, which is the
leg's: Windows closes it when the leg is killed, so no reaper is needed. Hosted runners run steps in
another job; from Windows 8 on jobs nest. Processes cannot break away: Windows refuses
CREATE_BREAKAWAY_FROM_JOB. Ctrl-Break is the polite signal, because Ctrl-C cannot be sent to one
group of processes. Each process has its own group, so that the Ctrl-C of a cancelling runner
reaches the leg alone. Committed memory is the limit: allocations fail when no more can be
committed, even if less is resident.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import Any, Final, Iterator, Mapping, Sequence

from ciguard.errors import ExitCode
from ciguard.run.platforms.base import (
    NOT_STARTED,
    UNKNOWN,
    ExitInfo,
    Headroom,
    MachineMemory,
    MemoryInstruments,
    TestedProcess,
)
from ciguard.run.platforms.windows_api import (
    ACCOUNTING,
    CREATE_SUSPENDED,
    DBG_TERMINATE_PROCESS,
    DWORD,
    EXTENDED_LIMITS,
    KILL_ON_JOB_CLOSE,
    MAX_PROCESSES,
    PROCESS_IDS,
    QUERY_LIMITED_INFORMATION,
    TICKS_A_SECOND,
    Accounting,
    ExtendedLimits,
    MemoryCounters,
    MemoryStatus,
    ProcessIds,
    case_folded_env,
    headroom_bytes_of,
    memory_of,
    resolve_program,
)

assert sys.platform == "win32"

import _winapi  # subprocess and multiprocessing wait with it, too

from ciguard.run.platforms.base import Tree

LIMITATIONS: Final[tuple[str, ...]] = ()
EXIT_CODE_BY_SIGNAL: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGBREAK: ExitCode.TERMINATED,  # a runner sends it after 7.5 s
    signal.SIGTERM: ExitCode.TERMINATED,
}
MAX_HANDLES: Final = 60  # WaitForMultipleObjects takes 64
# A terminated process is gone after milliseconds, unless a driver holds it.
TERMINATION_TIMEOUT_S: Final = 5.0
CLOSE_S: Final = 20.0  # longest wait for a process that a driver holds


def _libraries() -> tuple[Any, Any]:
    """Load kernel32 and ntdll; without its type a handle would be passed as an int of 32 bits."""
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


class JobObject:
    """A job object; its processes die when it is closed.

    Raises:
        OSError: Windows refuses it.
    """

    def __init__(self) -> None:
        self._handle: int | None = KERNEL32.CreateJobObjectW(None, None)
        limits = ExtendedLimits()
        limits.basic.limit_flags = KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        if not self._handle or not KERNEL32.SetInformationJobObject(
            self._handle, EXTENDED_LIMITS, ctypes.byref(limits), size
        ):
            error = ctypes.WinError(ctypes.get_last_error())
            self.close()
            raise error

    def assign(self, process: int) -> bool:
        """Put a process into the job, by its handle; return False if Windows refuses."""
        return bool(KERNEL32.AssignProcessToJobObject(self._handle, process))

    def terminate(self) -> None:
        """End all processes of the job, and wait until they are gone."""
        KERNEL32.TerminateJobObject(self._handle, DBG_TERMINATE_PROCESS)
        end_s = time.monotonic() + TERMINATION_TIMEOUT_S
        while self._accounting().active_processes and time.monotonic() < end_s:
            time.sleep(0.001)

    def _query(self, kind: int, answer: ctypes.Structure) -> None:
        # After a failure the answer stays 0, which stands for "not measured".
        size = ctypes.sizeof(answer)
        KERNEL32.QueryInformationJobObject(self._handle, kind, ctypes.byref(answer), size, None)

    def _accounting(self) -> Accounting:
        accounting = Accounting()
        self._query(ACCOUNTING, accounting)
        return accounting

    def cpu_s(self) -> float | None:
        """Return the CPU time of all processes that ever were in the job."""
        accounting = self._accounting()
        ticks = int(accounting.total_user_time) + int(accounting.total_kernel_time)
        return ticks / TICKS_A_SECOND if ticks else None

    def peak_bytes(self) -> int | None:
        """Return the most that the job had committed at once."""
        limits = ExtendedLimits()
        self._query(EXTENDED_LIMITS, limits)
        return int(limits.peak_job_memory_used) or None

    def pids(self) -> tuple[int, ...]:
        """Return the processes in the job now, at most MAX_PROCESSES."""
        listed = ProcessIds()
        self._query(PROCESS_IDS, listed)
        return tuple(listed.ids[: min(int(listed.listed), MAX_PROCESSES)])

    def close(self) -> None:
        """Close the handle: all processes in the job die."""
        if self._handle:
            KERNEL32.CloseHandle(self._handle)
            self._handle = None


def committed_bytes(pid: int) -> int:
    """Return the memory that a process has committed, without shared pages; 0 if it is gone."""
    handle = KERNEL32.OpenProcess(QUERY_LIMITED_INFORMATION, 0, pid)
    if not handle:
        return 0
    counters = MemoryCounters()  # stay 0 after a failure
    KERNEL32.K32GetProcessMemoryInfo(handle, ctypes.byref(counters), ctypes.sizeof(counters))
    KERNEL32.CloseHandle(handle)
    return int(counters.pagefile_usage)


class WindowsProcess(TestedProcess):
    """A running program in its own job.

    Raises:
        OSError: Windows refuses the job, as before Windows 8 inside of another job.
    """

    # The runner gives 7.5 s, then 2.5 s.
    GRACEFUL = ((0.0, "break"), (4.0, "kill"))
    IMMEDIATE = ((0.0, "kill"),)

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        *,
        stdin: int | None = None,
    ) -> None:
        super().__init__()
        self.root = 0
        self.handle = 0
        self._started_s = time.monotonic()
        self.job = JobObject()
        environ = case_folded_env(env)
        source = subprocess.DEVNULL if stdin is None else stdin
        try:
            self._process = self._spawn(
                resolve_program(argv, environ, cwd), environ, cwd, log, source
            )
        except OSError as error:
            self.ended = ExitInfo(NOT_STARTED, error=f"{argv[0]}: {error.strerror or error}")
            return
        self.root = self.pid = self._process.pid
        self.handle = int(self._process._handle)  # type: ignore[attr-defined]
        if not self.job.assign(self.handle) or NTDLL.NtResumeProcess(self.handle) < 0:
            self._process.kill()

    def _spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, log: str, stdin: int
    ) -> subprocess.Popen[bytes]:
        try:
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_BINARY, 0o644)
        except OSError:  # a full disk: to run without a log is better than not to run
            output = os.open(os.devnull, os.O_WRONLY)
        try:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=env,
                # Suspended, so that it starts no other process before it is in the job.
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED,
            )
        finally:
            os.close(output)

    def poll(self) -> None:
        """Take in the end of the program, and end the processes that it left."""
        if self.ended is not None:
            return
        code = self._process.poll()
        if code is None:
            return
        wall_s = time.monotonic() - self._started_s
        self.job.terminate()
        self.ended = ExitInfo(code, wall_s, self.job.cpu_s(), self.job.peak_bytes())

    def request_stacks(self, path: str) -> None:
        """Do nothing: Windows has no signal for it."""

    def _send_signal(self, name: str) -> None:
        if name == "break":
            with suppress(OSError):  # without a console it cannot be sent
                self._process.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            self.job.terminate()

    def close(self) -> None:
        """Close the handles; this ends a tree that is still alive."""
        self.job.close()
        if self.pid is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)


class CommittedTree:
    """Committed memory of the processes of a job."""

    def __init__(self, process: WindowsProcess) -> None:
        self._process = process

    def read_bytes(self, now_s: float) -> int | None:  # noqa: ARG002
        """Return the sum now; None if no process can be read."""
        process = self._process
        if process.ended is not None or process.pid is None:
            return None
        return sum(map(committed_bytes, process.job.pids())) or None


class CommitLimit(Headroom):
    """Memory that can still be committed; half of the part that page files would have to hold.

    Windows kills no process for memory: allocations fail.
    """

    def machine(self) -> MachineMemory:
        """Return the memory by GlobalMemoryStatusEx."""
        status = MemoryStatus()
        status.size = ctypes.sizeof(status)
        return memory_of(status) if KERNEL32.GlobalMemoryStatusEx(ctypes.byref(status)) else UNKNOWN

    def memory_bytes(self) -> int | None:
        return self.machine().total_bytes

    def headroom_bytes(self, machine: MachineMemory) -> int | None:
        """Return the free memory plus half of the memory that can be committed beyond it."""
        return headroom_bytes_of(machine)


start = WindowsProcess
headroom = CommitLimit
instruments = MemoryInstruments
cpus = os.cpu_count


def adopt_orphans() -> None:
    """Do nothing: orphans stay in the job."""


def tree(process: TestedProcess) -> Tree:
    """Return the memory of the processes in the job."""
    assert isinstance(process, WindowsProcess)
    return CommittedTree(process)


@contextmanager
def wakeup() -> Iterator[int]:
    """Provide no descriptor: `wait` is short, and signal handlers run after it."""
    # A process that was started in its own group inherits that Ctrl-C is ignored.
    KERNEL32.SetConsoleCtrlHandler(None, 0)
    yield -1


def wait(wakeup: int, processes: Sequence[TestedProcess], timeout_s: float) -> bool:  # noqa: ARG001
    """Wait until a process ends or the time is over; a signal is received then at the latest."""
    handles = [
        process.handle
        for process in processes
        if isinstance(process, WindowsProcess) and process.handle
    ]
    if not handles:
        time.sleep(timeout_s)
        return False
    try:
        answer = _winapi.WaitForMultipleObjects(handles[:MAX_HANDLES], False, int(timeout_s * 1000))
    except OSError:  # interrupted by Ctrl-C, whose handler has run
        return True
    return answer != _winapi.WAIT_TIMEOUT
