"""One tested process on a POSIX system: the leg holds it through its reaper, by two pipes.

Started from the main thread only: a child of another thread may be told that its parent died when
that thread ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Iterator, Mapping, Sequence, Set

from ciguard.errors import ExitCode
from ciguard.run.platforms.base import NOT_STARTED, ExitInfo
from ciguard.run.process import reaper
from ciguard.run.process.files import DUMP_SIGNAL, dumpable_pids

assert sys.platform != "win32"

if TYPE_CHECKING:
    from typing import List, Optional, Tuple

    from ciguard.run.platforms.base import Process

EXIT_CODE_BY_SIGNAL: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}
START_S = 20.0  # a reaper that has not started anything by then is lost (one takes 0.02 s)
CLOSE_S = 20.0  # with a tree that is still alive, at the end of the leg
# How long after SIGKILL a reaper may be silent: it gives up a tree after KILL_S.
SILENT_S = reaper.KILL_S + 2.0
REAPER_ITSELF = "the reaper itself"  # what is ended then

# When to send what, in seconds after the first signal; the platform gives 7.5 s, then 2.5 s.
GRACEFUL_SIGNALS = (
    (0.0, "SIGINT"),
    (3.0, "SIGTERM"),
    (4.0, "SIGKILL"),
    (4.0 + SILENT_S, REAPER_ITSELF),
)
IMMEDIATE_SIGNALS = ((0.0, "SIGKILL"), (SILENT_S, REAPER_ITSELF))


# Read once: a test can remove the zip file that the leg runs from.
_REAPER_SOURCE: Final = pkgutil.get_data("ciguard.run.process", "reaper.py") or b""


def start_reaper(
    env: Mapping[str, str], cwd: str = ".", stdin: Optional[int] = None
) -> subprocess.Popen[bytes]:
    """Start a reaper, which reads its program from a pipe.

    `-I -S`: neither the tested project's variables nor its site-packages can change it.

    Args:
        stdin: a descriptor that the reaper inherits; None for none.

    Raises:
        OSError: no memory, no process, no such folder, no Python any more.
    """
    program, source = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", f"exec(open({program}, 'rb').read())", "reaper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            bufsize=0,
            pass_fds=(program,) if stdin is None else (program, stdin),
        )
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(program)
    with open(source, "wb") as stream, contextlib.suppress(BrokenPipeError):
        stream.write(_REAPER_SOURCE)
    return process


# Children of the leg that are no orphans of a reaper: live reapers, what the leg asks itself, and
# what ran before it: a shell that becomes the leg by `exec` leaves its background jobs to it.
own_children: Final[Set[int]] = set()


def adopt_orphans() -> None:
    """Become the parent of what a killed reaper leaves; to be called before anything is started."""
    own_children.update(reaper.children())
    reaper.become_subreaper()


class SupervisedProcess:
    """A running program, its end, and the signals that bring it about.

    Args:
        stdin: what it reads; None for nothing.
        bare: its reaper looks for nothing that only Linux has.

    Raises:
        OSError: the reaper could not be started (no memory, no process left).
    """

    __test__ = False  # no test class, whatever its name says to a collector

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        *,
        stdin: Optional[int] = None,
        bare: bool = False,
    ) -> None:
        # Another number: the reaper's own standard input is the leg's pipe.
        handed = None if stdin is None else os.dup(stdin)
        self._reaper = start_reaper(env, cwd, handed)
        if handed is not None:
            os.close(handed)
        assert self._reaper.stdin is not None
        assert self._reaper.stdout is not None
        self._control, self._status = self._reaper.stdin, self._reaper.stdout
        os.set_blocking(self._status.fileno(), False)
        self.root = self._reaper.pid
        own_children.add(self.root)
        self._bare = bare
        self.pid: Optional[int] = None
        self.limitation = ""
        self.ended: Optional[ExitInfo] = None
        self.stop_requested_s: Optional[float] = None  # when it was first told to end
        self._status_buffer = b""
        self._signals: List[Tuple[float, str]] = []
        job = {"argv": argv, "log": log, "stdin": handed, "bare": bare}
        self._send(json.dumps(job))
        self._lost_s = time.monotonic() + START_S

    def fileno(self) -> int:
        """Readable when there is something for `poll`."""
        return self._status.fileno()

    def poll(self) -> None:
        """Take in what the reaper reports, its start first, without waiting."""
        if self.ended is not None:
            return
        if self.pid is None and time.monotonic() > self._lost_s:
            self._reaper.kill()
        try:
            piece = os.read(self._status.fileno(), 4096)
        except BlockingIOError:
            return
        if not piece:
            self._reaper_lost()
            return
        *lines, self._status_buffer = (self._status_buffer + piece).split(b"\n")
        for line in lines:
            self._handle_status(json.loads(line))

    def _handle_status(self, status_message: Mapping[str, Any]) -> None:
        if "started" in status_message:
            self.pid = status_message["started"]
            if not status_message["subreaper"]:
                self.limitation = (
                    "a subreaper (needs Linux and ctypes): daemons of a test may outlive it"
                )
        elif "error" in status_message:
            self.ended = ExitInfo(NOT_STARTED, error=status_message["error"])
        else:
            self.ended = ExitInfo(**status_message)

    def _reaper_lost(self) -> None:
        """The reaper itself was killed; what it kept is ours to end."""
        if self.pid is not None:
            reaper.signal_quietly(-self.pid, signal.SIGKILL)
        self._reaper.kill()
        self._reaper.wait()
        # What it was the subreaper of is now a child of the leg, where the leg is one too.
        if not self._bare:
            reaper.kill_orphans(own_children)
        self.ended = ExitInfo(-signal.SIGKILL, is_reaper_lost=True)

    def request_stacks(self, path: str) -> None:
        """Have every process of it that can answer write its stacks to `path`-PID."""
        ready = dumpable_pids(path)
        for pid in ready & reaper.tree(self.root) if ready else ():
            reaper.signal_quietly(pid, DUMP_SIGNAL)

    def _send(self, line: str) -> None:
        # Broken when it has ended, or its reaper has: poll will say.
        with contextlib.suppress(BrokenPipeError):
            self._control.write(line.encode("utf-8", "surrogateescape") + b"\n")

    def stop(self, now_s: float, *, immediately: bool = False) -> None:
        """Begin to end it; `escalate` goes on. At once is also for who asked politely before."""
        steps = IMMEDIATE_SIGNALS if immediately else GRACEFUL_SIGNALS
        self._signals = [(now_s + delay_s, name) for delay_s, name in steps]
        self.stop_requested_s = self.stop_requested_s or now_s
        self.escalate(now_s)

    def escalate(self, now_s: float) -> None:
        """Send the signals that are due."""
        while self._signals and self._signals[0][0] <= now_s and self.ended is None:
            word = self._signals.pop(0)[1]
            if word == REAPER_ITSELF:
                self._reaper.kill()  # `poll` ends what it kept
            else:
                self._send(word)
                self._continue_reaper()

    def _continue_reaper(self) -> None:
        # A test that stopped its reaper has not stopped the leg.
        self._reaper.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Give the pipes back; a tree that is still alive dies of it."""
        self._control.close()
        if self.ended is None:
            self._continue_reaper()
        else:
            self._reaper.kill()  # it has reported all; to wait for its exit would hold up others
        try:
            self._reaper.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._reaper.kill()
            self._reaper.wait()
            if self.ended is None:
                self._reaper_lost()
        own_children.discard(self.root)
        self._status.close()


@contextlib.contextmanager
def wakeup() -> Iterator[int]:
    """The end of a pipe that the interpreter writes to when a signal arrives."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(before)
        os.close(read_end)
        os.close(write_end)


def wait(wakeup: int, processes: Sequence[Process], timeout_s: float) -> bool:
    """Until a signal arrives or a reaper says something."""
    sources: List[Any] = [wakeup, *processes]
    ready = select.select(sources, [], [], timeout_s)[0]
    if wakeup in ready:
        os.read(wakeup, 4096)
    return bool(ready)
