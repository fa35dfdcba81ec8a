"""Windows, tried under Wine only: a job object for each process, memory as what is committed.

What is started in a job object, and all that starts, dies with the last handle to it, ours: Windows
closes our handles when we are killed, so that no reaper is needed. Hosted runners run steps in a
job of their own; from Windows 8 on jobs nest. Breaking away is not allowed: a test that asks for
CREATE_BREAKAWAY_FROM_JOB is refused by Windows. Ctrl-Break is the polite signal: Ctrl-C cannot be
sent to one group of processes. The process's group is its own, so that the Ctrl-C of a runner that
cancels reaches the leg alone. Committed memory is what runs out here: allocations fail when no more
can be committed, whatever is resident.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Iterator, List, Mapping, Optional, Sequence, Tuple

from ciguard.errors import ExitCode
from ciguard.run.platforms.base import (
    NOT_STARTED,
    UNKNOWN,
    ExitInfo,
    Headroom,
    MachineMemory,
    MemoryInstruments,
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

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Process, Tree

NAME: Final = "windows"
LIMITATIONS: Final[Tuple[str, ...]] = ()
EXIT_CODE_BY_SIGNAL: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGBREAK: ExitCode.TERMINATED,  # what a runner sends after 7.5 s
    signal.SIGTERM: ExitCode.TERMINATED,
}
# In seconds after the first; the runner gives 7.5 s, then 2.5 s.
GRACEFUL_SIGNALS: Final = ((0.0, "break"), (4.0, "kill"))
IMMEDIATE_SIGNALS: Final = ((0.0, "kill"),)
MAX_HANDLES: Final = 60  # WaitForMultipleObjects takes 64
# What has been terminated goes in milliseconds, unless a driver holds it.
TERMINATION_TIMEOUT_S: Final = 5.0
CLOSE_S: Final = 20.0  # what a driver holds cannot be waited for


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


class JobObject:
    """A job object whose end is the end of all that is in it.

    Raises:
        OSError: Windows refuses it.
    """

    def __init__(self) -> None:
        self._handle: Optional[int] = KERNEL32.CreateJobObjectW(None, None)
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
        """Put a process into it, by its handle; False where Windows refuses that."""
        return bool(KERNEL32.AssignProcessToJobObject(self._handle, process))

    def terminate(self) -> None:
        """End all that is in it, and wait until it has gone."""
        KERNEL32.TerminateJobObject(self._handle, DBG_TERMINATE_PROCESS)
        end_s = time.monotonic() + TERMINATION_TIMEOUT_S
        while self._accounting().active_processes and time.monotonic() < end_s:
            time.sleep(0.001)

    def _query(self, kind: int, answer: ctypes.Structure) -> None:
        # Where it fails the answer stays 0, as where nothing was measured.
        size = ctypes.sizeof(answer)
        KERNEL32.QueryInformationJobObject(self._handle, kind, ctypes.byref(answer), size, None)

    def _accounting(self) -> Accounting:
        found = Accounting()
        self._query(ACCOUNTING, found)
        return found

    def cpu_s(self) -> Optional[float]:
        """CPU time of all processes that were ever in it."""
        found = self._accounting()
        ticks = int(found.total_user_time) + int(found.total_kernel_time)
        return ticks / TICKS_A_SECOND if ticks else None

    def peak_bytes(self) -> Optional[int]:
        """The most that was committed at once."""
        found = ExtendedLimits()
        self._query(EXTENDED_LIMITS, found)
        return int(found.peak_job_memory_used) or None

    def pids(self) -> Tuple[int, ...]:
        """The processes in it now; of very many the first."""
        found = ProcessIds()
        self._query(PROCESS_IDS, found)
        return tuple(found.ids[: min(int(found.listed), MAX_PROCESSES)])

    def close(self) -> None:
        """Give the handle back: all that is in it dies."""
        if self._handle:
            KERNEL32.CloseHandle(self._handle)
            self._handle = None


def committed_bytes(pid: int) -> int:
    """What a process has committed, shared pages left out; 0 where it has gone."""
    handle = KERNEL32.OpenProcess(QUERY_LIMITED_INFORMATION, 0, pid)
    if not handle:
        return 0
    found = MemoryCounters()  # where it fails they stay 0
    KERNEL32.K32GetProcessMemoryInfo(handle, ctypes.byref(found), ctypes.sizeof(found))
    KERNEL32.CloseHandle(handle)
    return int(found.pagefile_usage)


class WindowsProcess:
    """A running program in a job of its own.

    Raises:
        OSError: there is no job for it, as before Windows 8 inside of another one.
    """

    __test__ = False

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        *,
        stdin: Optional[int] = None,
    ) -> None:
        self.root = 0
        self.pid: Optional[int] = None
        self.ended: Optional[ExitInfo] = None
        self.stop_requested_s: Optional[float] = None
        self.limitation = ""
        self.handle = 0
        self._steps: List[Tuple[float, str]] = []
        self._started_s = time.monotonic()
        self.job = JobObject()
        environ = case_folded_env(env)
        reads = subprocess.DEVNULL if stdin is None else stdin
        try:
            self._process = self._spawn(
                resolve_program(argv, environ, cwd), environ, cwd, log, reads
            )
        except OSError as error:
            self.ended = ExitInfo(NOT_STARTED, error=f"{argv[0]}: {error.strerror or error}")
            return
        self.root = self.pid = self._process.pid
        self.handle = int(self._process._handle)  # type: ignore[attr-defined]
        self._resume()

    def _spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, log: str, stdin: int
    ) -> subprocess.Popen[bytes]:
        try:
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_BINARY, 0o644)
        except OSError:  # a full disk: better unheard than not run
            output = os.open(os.devnull, os.O_WRONLY)
        try:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=env,
                # Suspended, or it could start others before it is in the job.
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED,
            )
        finally:
            os.close(output)

    def _resume(self) -> None:
        if not self.job.assign(self.handle) or NTDLL.NtResumeProcess(self.handle) < 0:
            self._process.kill()

    def poll(self) -> None:
        """Take in its end; whatever it left behind is ended then, too."""
        if self.ended is not None:
            return
        code = self._process.poll()
        if code is None:
            return
        wall_s = time.monotonic() - self._started_s
        self.job.terminate()
        self.ended = ExitInfo(code, wall_s, self.job.cpu_s(), self.job.peak_bytes())

    def request_stacks(self, path: str) -> None:
        """There is no signal to ask by."""

    def stop(self, now_s: float, *, immediately: bool = False) -> None:
        """Begin to end it; `escalate` goes on."""
        steps = IMMEDIATE_SIGNALS if immediately else GRACEFUL_SIGNALS
        self._steps = [(now_s + delay_s, step) for delay_s, step in steps]
        self.stop_requested_s = self.stop_requested_s or now_s
        self.escalate(now_s)

    def escalate(self, now_s: float) -> None:
        """Do what is due."""
        while self._steps and self._steps[0][0] <= now_s and self.ended is None:
            if self._steps.pop(0)[1] == "break":
                with suppress(OSError):  # without a console it cannot be sent
                    self._process.send_signal(signal.CTRL_BREAK_EVENT)
            else:
                self.job.terminate()

    def close(self) -> None:
        """Give the handles back; a tree that is still alive dies of it."""
        self.job.close()
        if self.pid is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)


class CommittedTree:
    """What the processes of a job have committed."""

    def __init__(self, process: WindowsProcess) -> None:
        self._process = process

    def read_bytes(self, now_s: float) -> Optional[int]:  # noqa: ARG002
        """The sum now; None where no process of it can be read."""
        process = self._process
        if process.ended is not None or process.pid is None:
            return None
        return sum(map(committed_bytes, process.job.pids())) or None


class CommitLimit(Headroom):
    """What can still be committed, and half of what page files would have to hold.

    Windows kills no process for memory: allocations fail.
    """

    def machine(self) -> MachineMemory:
        """What GlobalMemoryStatusEx says."""
        status = MemoryStatus()
        status.size = ctypes.sizeof(status)
        return memory_of(status) if KERNEL32.GlobalMemoryStatusEx(ctypes.byref(status)) else UNKNOWN

    def memory_bytes(self) -> Optional[int]:
        """The machine's memory."""
        return self.machine().total_bytes

    def headroom_bytes(self, machine: MachineMemory) -> Optional[int]:
        """Memory that is free, and half of what can be committed beyond it."""
        return headroom_bytes_of(machine)


start = WindowsProcess
headroom = CommitLimit
instruments = MemoryInstruments
cpus = os.cpu_count


def adopt_orphans() -> None:
    """There are none: they are in the job."""


def tree(process: Process) -> Tree:
    """The processes of its job."""
    assert isinstance(process, WindowsProcess)
    return CommittedTree(process)


@contextmanager
def wakeup() -> Iterator[int]:
    """No descriptor: `wait` is short, and handlers run after it."""
    # A process that was started in a group of its own inherits that Ctrl-C is ignored.
    KERNEL32.SetConsoleCtrlHandler(None, 0)
    yield -1


def wait(wakeup: int, processes: Sequence[Process], timeout_s: float) -> bool:  # noqa: ARG001
    """Until a process ends; a signal is taken in when the time is over, or before."""
    handles = [one.handle for one in processes if isinstance(one, WindowsProcess) and one.handle]
    if not handles:
        time.sleep(timeout_s)
        return False
    try:
        found = _winapi.WaitForMultipleObjects(handles[:MAX_HANDLES], False, int(timeout_s * 1000))
    except OSError:  # interrupted by Ctrl-C, whose handler has run
        return True
    return found != _winapi.WAIT_TIMEOUT
