"""One tested process on a POSIX system: the leg holds it through its keeper, by two pipes.

Started from the main thread only: a child of another thread may be told that its parent died when
that thread ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, Iterator, Mapping, Sequence, Set

from ciguard.errors import ExitCode
from ciguard.run import keeper, stacks
from ciguard.run.platforms.base import KEEPER_LOST, NOT_STARTED, Ended

assert sys.platform != "win32"

if TYPE_CHECKING:
    from typing import List, Optional, Tuple

    from ciguard.run.platforms.base import Tested

EXIT_OF: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}
START_S = 20.0  # a keeper that has not started anything by then is lost (one takes 0.02 s)
# How long behind SIGKILL a keeper may be silent: it gives up a tree after KILL_S.
SILENT_S = keeper.KILL_S + 2.0
LOST = "the keeper itself"  # what is ended then

# When to send what, in seconds after the first signal; the platform gives 7.5 s, then 2.5 s.
POLITELY = ((0.0, "SIGINT"), (3.0, "SIGTERM"), (4.0, "SIGKILL"), (4.0 + SILENT_S, LOST))
AT_ONCE = ((0.0, "SIGKILL"), (SILENT_S, LOST))


def keeper_command() -> list[str]:
    """How the keeper is started: from the zip file that we run from, or as the file it is.

    `-I -S`: neither the tested project's variables nor its site-packages can change it.
    """
    archive = getattr(getattr(keeper, "__loader__", None), "archive", None)
    place = keeper.__file__ if archive is None else str(archive)
    return [sys.executable, "-I", "-S", os.path.abspath(place), "--keeper"]


class TestedProcess:
    """A running program, its end, and the signals that bring it about.

    Args:
        stdin: what it reads; None for nothing.
        bare: its keeper looks for nothing that only Linux has.

    Raises:
        OSError: the keeper could not be started (no memory, no process left).
    """

    _roots: ClassVar[Set[int]] = set()  # live keepers: the children that a leg means to have
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
        # Another number: the keeper's own standard input is the leg's pipe.
        handed = None if stdin is None else os.dup(stdin)
        self._keeper = subprocess.Popen(
            keeper_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            bufsize=0,
            pass_fds=() if handed is None else (handed,),
        )
        if handed is not None:
            os.close(handed)
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._control, self._status = self._keeper.stdin, self._keeper.stdout
        os.set_blocking(self._status.fileno(), False)
        self.root = self._keeper.pid
        self._roots.add(self.root)
        self._bare = bare
        self.pid: Optional[int] = None
        self.lack = ""
        self.ended: Optional[Ended] = None
        self.stopped_s: Optional[float] = None  # when it was first told to end
        self._said = b""
        self._signals: List[Tuple[float, str]] = []
        locale = env.get(keeper.LOCALE)
        job = {"argv": argv, "log": log, "stdin": handed, "locale": locale, "bare": bare}
        self._send(json.dumps(job))
        self._wait_for_start()

    def fileno(self) -> int:
        """Readable when there is something for `poll`."""
        return self._status.fileno()

    def _wait_for_start(self) -> None:
        while self.pid is None and self.ended is None:
            if not select.select([self], [], [], START_S)[0]:
                self._keeper.kill()
            self.poll()

    def poll(self) -> None:
        """Take in what the keeper says, without waiting."""
        if self.ended is not None:
            return
        try:
            piece = os.read(self._status.fileno(), 4096)
        except BlockingIOError:
            return
        if not piece:
            self._lost()
            return
        *lines, self._said = (self._said + piece).split(b"\n")
        for line in lines:
            self._take_in(json.loads(line))

    def _take_in(self, said: Mapping[str, Any]) -> None:
        if "started" in said:
            self.pid = said["started"]
            if not said["subreaper"]:
                self.lack = "a subreaper (Linux, ctypes): daemons of a test may outlive it"
        elif "error" in said:
            self.ended = Ended(NOT_STARTED, error=said["error"])
        else:
            self.ended = Ended(**said)

    def _lost(self) -> None:
        """The keeper itself was killed; what it kept is ours to end."""
        if self.pid is not None:
            keeper.send(-self.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(START_S)
        # What it was the subreaper of is now a child of the leg, where the leg is one too.
        if not self._bare:
            keeper.kill_orphans(self._roots)
        self.ended = Ended(-signal.SIGKILL, error=KEEPER_LOST)

    def ask_for_stacks(self, path: str) -> None:
        """Have every process of it that can answer write its stacks to `path`-PID."""
        ready = stacks.ready(path)
        for pid in ready & keeper.tree(self.root) if ready else ():
            keeper.send(pid, stacks.ASKED)

    def _send(self, line: str) -> None:
        # Broken when it has ended, or its keeper has: poll will say.
        with contextlib.suppress(BrokenPipeError):
            self._control.write(line.encode("utf-8", "surrogateescape") + b"\n")

    def stop(self, now_s: float, *, at_once: bool = False) -> None:
        """Begin to end it; `press` goes on. At once is also for who asked politely before."""
        steps = AT_ONCE if at_once else POLITELY
        self._signals = [(now_s + delay_s, name) for delay_s, name in steps]
        self.stopped_s = self.stopped_s or now_s
        self.press(now_s)

    def press(self, now_s: float) -> None:
        """Send the signals that are due."""
        while self._signals and self._signals[0][0] <= now_s and self.ended is None:
            word = self._signals.pop(0)[1]
            if word == LOST:
                self._keeper.kill()  # `poll` ends what it kept
            else:
                self._send(word)
                self._awake()

    def _awake(self) -> None:
        # A test that stopped its keeper has not stopped the leg.
        self._keeper.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Give the pipes back; a tree that is still alive dies of it."""
        self._control.close()
        self._awake()
        try:
            self._keeper.wait(START_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
            if self.ended is None:
                self._lost()
        self._roots.discard(self.root)
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


def wait(wakeup: int, processes: Sequence[Tested], timeout_s: float) -> bool:
    """Until a signal arrives or a keeper says something."""
    sources: List[Any] = [wakeup, *processes]
    ready = select.select(sources, [], [], timeout_s)[0]
    if wakeup in ready:
        os.read(wakeup, 4096)
    return bool(ready)
