"""Windows, tried under Wine only: a job object for each process, memory as what is committed.

Ctrl-Break is the polite signal: Ctrl-C cannot be sent to one group of processes. The process's
group is its own, so that the Ctrl-C of a runner that cancels reaches the leg alone. Committed
memory is what runs out here: allocations fail when no more can be committed, whatever is resident.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Iterator, Mapping, Optional, Sequence, Tuple

from ciguard.errors import ExitCode
from ciguard.run.platforms.base import NOT_STARTED, UNKNOWN, Ended, MachineMemory
from ciguard.run.platforms.instruments import NoInstruments
from ciguard.run.platforms.windows_api import CREATE_SUSPENDED, left_bytes, memory_of
from ciguard.run.platforms.windows_words import folded, place_of

assert sys.platform == "win32"

import _winapi  # subprocess and multiprocessing wait with it, too

from ciguard.run.platforms import windows_job as api

if TYPE_CHECKING:
    from typing import Dict, List

    from ciguard.run.platforms.base import Headroom, Instruments, Tested, Tree

NAME: Final = "windows"
LACKS: Final[Tuple[str, ...]] = ()
EXIT_OF: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGBREAK: ExitCode.TERMINATED,  # what a runner sends after 7.5 s
    signal.SIGTERM: ExitCode.TERMINATED,
}
# In seconds after the first; the runner gives 7.5 s, then 2.5 s.
POLITELY: Final = ((0.0, "break"), (4.0, "kill"))
AT_ONCE: Final = ((0.0, "kill"),)
MOST_HANDLES: Final = 60  # WaitForMultipleObjects takes 64
RESCAN_S: Final = 0.5
CLOSE_S: Final = 20.0  # what a driver holds cannot be waited for
NO_JOB: Final = "a job object: what a test starts may outlive it"


class WindowsProcess:
    """A running program in a job of its own."""

    __test__ = False

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        stdin: Optional[int] = None,
    ) -> None:
        self.root = 0
        self.pid: Optional[int] = None
        self.ended: Optional[Ended] = None
        self.stopped_s: Optional[float] = None
        self.lack = ""
        self.handle = 0
        self._steps: List[Tuple[float, str]] = []
        self._started_s = time.monotonic()
        self.job: Optional[api.Job] = None
        try:
            self.job = api.Job()
        except OSError:
            self.lack = NO_JOB
        environ = folded(env)
        reads = subprocess.DEVNULL if stdin is None else stdin
        try:
            self._process = self._spawn(place_of(argv, environ, cwd), environ, cwd, log, reads)
        except OSError as error:
            self.ended = Ended(NOT_STARTED, error=f"{argv[0]}: {error.strerror or error}")
            return
        self.root = self.pid = self._process.pid
        self.handle = int(self._process._handle)  # type: ignore[attr-defined]
        self._let_run()

    def _spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, log: str, stdin: int
    ) -> subprocess.Popen[bytes]:
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        with _appended(log) as output:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=env,
                # Suspended, or it could start others before it is in the job.
                creationflags=flags | (CREATE_SUSPENDED if self.job is not None else 0),
            )

    def _let_run(self) -> None:
        if self.job is None:
            return
        try:
            self.job.take(self.handle)
        except OSError:
            self.job.close()
            self.job, self.lack = None, NO_JOB
        if not api.resume(self.handle):
            self._process.kill()

    def poll(self) -> None:
        """Take in its end; whatever it left behind is ended then, too."""
        if self.ended is not None:
            return
        code = self._process.poll()
        if code is None:
            return
        wall_s = time.monotonic() - self._started_s
        if self.job is None:
            self.ended = Ended(code, wall_s, None, api.peak_committed_bytes(self.handle))
            return
        self.job.terminate()
        peak_bytes = self.job.peak_bytes() or api.peak_committed_bytes(self.handle)
        self.ended = Ended(code, wall_s, self.job.cpu_s(), peak_bytes)

    def ask_for_stacks(self, path: str) -> None:
        """No signal asks: nobody answers."""

    def stop(self, now_s: float, *, at_once: bool = False) -> None:
        """Begin to end it; `press` goes on."""
        steps = AT_ONCE if at_once else POLITELY
        self._steps = [(now_s + delay_s, step) for delay_s, step in steps]
        self.stopped_s = self.stopped_s or now_s
        self.press(now_s)

    def press(self, now_s: float) -> None:
        """Do what is due."""
        while self._steps and self._steps[0][0] <= now_s and self.ended is None:
            if self._steps.pop(0)[1] == "break":
                with suppress(OSError):  # without a console there is nobody to send it
                    self._process.send_signal(signal.CTRL_BREAK_EVENT)
            else:
                self._kill()

    def _kill(self) -> None:
        if self.job is not None:
            self.job.terminate()
            return
        words = ["taskkill", "/T", "/F", "/PID", str(self._process.pid)]
        quiet = subprocess.DEVNULL
        with suppress(OSError):
            subprocess.run(words, stdin=quiet, stdout=quiet, stderr=quiet, check=False)
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Give the handles back; a tree that is still alive dies of it."""
        if self.pid is not None and self.ended is None:
            self._kill()
        if self.job is not None:
            self.job.close()
        if self.pid is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)


@contextmanager
def _appended(log: str) -> Iterator[int]:
    """A descriptor for output; a full disk: better unheard than not run."""
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_BINARY, 0o644)
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class CommittedTree:
    """What the processes of a job have committed; of a process without one, itself alone."""

    def __init__(self, process: WindowsProcess) -> None:
        self._process = process
        self._handles: Dict[int, int] = {}
        self._scanned_s = float("-inf")

    def read_bytes(self, now_s: float) -> Optional[int]:
        """The sum now; None where no process of it can be read."""
        if now_s - self._scanned_s >= RESCAN_S or not self._handles:
            self._scanned_s = now_s
            self._rescan()
        sizes = [api.committed_bytes(handle) for handle in self._handles.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    def _rescan(self) -> None:
        process = self._process
        if process.ended is not None or process.pid is None:
            found = set()
        else:
            found = {process.pid} if process.job is None else set(process.job.pids())
        for pid in set(self._handles) - found:
            api.closed(self._handles.pop(pid))
        for pid in found - set(self._handles):
            handle = api.opened(pid)
            if handle is not None:
                self._handles[pid] = handle

    def close(self) -> None:
        """Give the handles back."""
        while self._handles:
            api.closed(self._handles.popitem()[1])


class CommitLimit:
    """What can still be committed, and half of what page files would have to hold."""

    def machine(self) -> MachineMemory:
        """What GlobalMemoryStatusEx says."""
        status = api.memory_status()
        return UNKNOWN if status is None else memory_of(status)

    def memory_bytes(self) -> Optional[int]:
        """The machine's memory."""
        return self.machine().total_bytes

    def headroom_bytes(self, machine: MachineMemory) -> Optional[int]:
        """Memory that is free, and half of what can be committed beyond it."""
        return left_bytes(machine)

    def oom_file(self) -> str:
        """There is none."""
        return ""

    def oom_kills(self) -> int:
        """Windows kills nobody for memory: allocations fail."""
        return 0

    def close(self) -> None:
        """Nothing is held."""


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    log: str,
    *,
    stdin: Optional[int] = None,
) -> Tested:
    """In a job of its own."""
    return WindowsProcess(argv, env, cwd, log, stdin)


def adopt_orphans() -> None:
    """There are none: they are in the job."""


def tree(process: Tested) -> Tree:
    """The processes of its job."""
    assert isinstance(process, WindowsProcess)
    return CommittedTree(process)


def instruments(environ: Mapping[str, str]) -> Instruments:  # noqa: ARG001
    """Sizes of trees are all there is."""
    return NoInstruments()


def headroom(meminfo: Optional[str]) -> Headroom:  # noqa: ARG001  # there is no such file
    """From the system itself."""
    return CommitLimit()


@contextmanager
def wakeup() -> Iterator[int]:
    """No descriptor: `wait` is short, and handlers run behind it."""
    api.hear_ctrl_c()
    yield -1


def wait(wakeup: int, processes: Sequence[Tested], timeout_s: float) -> bool:  # noqa: ARG001
    """Until a process ends; a signal is taken in when the time is over, or before."""
    handles = [one.handle for one in processes if isinstance(one, WindowsProcess) and one.handle]
    if not handles:
        time.sleep(timeout_s)
        return False
    try:
        found = _winapi.WaitForMultipleObjects(handles[:MOST_HANDLES], False, int(timeout_s * 1000))
    except OSError:  # interrupted by Ctrl-C, whose handler has run
        return True
    return found != _winapi.WAIT_TIMEOUT


def cpus() -> Optional[int]:
    """All there are."""
    return os.cpu_count()
