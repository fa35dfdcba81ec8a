"""One tested process on a POSIX system: the leg controls it through a reaper, by two pipes.

The reaper (reaper.py) is the process between them: it ends the whole tree if the leg dies.
Processes start from the main thread only: when another thread ends, the kernel may signal its
children that their parent died.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from typing import Final, Mapping, Sequence

from ciguard.run.platforms.base import NOT_STARTED, ExitInfo, TestedProcess
from ciguard.run.process import reaper
from ciguard.run.process.files import DUMP_SIGNAL, dumpable_pids

assert sys.platform != "win32"


START_S = 20.0  # a reaper that has started no process by then is lost (one takes 0.02 s)
CLOSE_S = 20.0  # longest wait for a tree that is still alive at the end of the leg
# Longest silence of a reaper after SIGKILL: it gives up a tree after KILL_S.
SILENT_S = reaper.KILL_S + 2.0
REAPER_ITSELF = "the reaper itself"  # kill the reaper, not the tested process

# Read once: a test can remove the zip file that the leg runs from.
_REAPER_SOURCE: Final = pkgutil.get_data("ciguard.run.process", "reaper.py") or b""


def start_source(
    content: bytes, name: str, env: Mapping[str, str], cwd: str = ".", stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a Python program of the leg's, which is read from a pipe, with pipes to the leg.

    `-I -S`: neither the tested project's variables nor its site-packages can change the program.

    Args:
        stdin: descriptor that the program inherits; None for none.

    Raises:
        OSError: no memory or process is left, or the folder or Python is gone.
    """
    program, source = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", f"exec(open({program}, 'rb').read())", name],
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
        stream.write(content)
    return process


start_reaper = functools.partial(start_source, _REAPER_SOURCE, "reaper")

# Children of the leg that are no orphans of a reaper: live reapers, programs that the leg queries,
# and older children (a shell that becomes the leg by `exec` leaves its background jobs to it).
own_children: Final[set[int]] = set()


def adopt_orphans() -> None:
    """Become the parent of the orphans of killed reapers; call this before any start."""
    own_children.update(reaper.children())
    reaper.become_subreaper()


class SupervisedProcess(TestedProcess):
    """A running program below its reaper.

    Args:
        stdin: descriptor that the program reads from; None for empty input.
        bare: the reaper uses nothing that only Linux has.

    Raises:
        OSError: the reaper could not be started (no memory or process is left).
    """

    # The platform gives 7.5 s, then 2.5 s.
    GRACEFUL = (
        (0.0, "SIGINT"),
        (3.0, "SIGTERM"),
        (4.0, "SIGKILL"),
        (4.0 + SILENT_S, REAPER_ITSELF),
    )
    IMMEDIATE = ((0.0, "SIGKILL"), (SILENT_S, REAPER_ITSELF))

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        *,
        stdin: int | None = None,
        bare: bool = False,
    ) -> None:
        super().__init__()
        # A copy with another number: the reaper's own standard input is the leg's pipe.
        stdin_copy = None if stdin is None else os.dup(stdin)
        self._reaper = start_reaper(env, cwd, stdin_copy)
        if stdin_copy is not None:
            os.close(stdin_copy)
        assert self._reaper.stdin is not None
        assert self._reaper.stdout is not None
        self._control, self._status = self._reaper.stdin, self._reaper.stdout
        os.set_blocking(self._status.fileno(), False)
        self.root = self._reaper.pid
        own_children.add(self.root)
        self._bare = bare
        self._status_buffer = b""
        job = {"argv": argv, "log": log, "stdin": stdin_copy, "bare": bare}
        self._send(json.dumps(job))
        self._lost_s = time.monotonic() + START_S

    def fileno(self) -> int:
        """Return a descriptor that is readable when `poll` has news."""
        return self._status.fileno()

    def poll(self) -> None:
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
            message = json.loads(line)
            if "started" in message:
                self.pid = message["started"]
                if not message["subreaper"]:
                    self.limitation = (
                        "a subreaper (needs Linux and ctypes): daemons of a test may outlive it"
                    )
            elif "error" in message:
                self.ended = ExitInfo(NOT_STARTED, error=message["error"])
            else:
                self.ended = ExitInfo(**message)

    def _reaper_lost(self) -> None:
        """End the tree of a reaper that was killed."""
        if self.pid is not None:
            reaper.signal_quietly(-self.pid, signal.SIGKILL)
        self._reaper.kill()
        self._reaper.wait()
        # Descendants that the reaper had adopted are now children of the leg, if it is a subreaper.
        if not self._bare:
            reaper.kill_orphans(own_children)
        self.ended = ExitInfo(-signal.SIGKILL, is_reaper_lost=True)

    def request_stacks(self, path: str) -> None:
        answering = dumpable_pids(path)
        for pid in answering & reaper.tree(self.root) if answering else ():
            reaper.signal_quietly(pid, DUMP_SIGNAL)

    def _send(self, line: str) -> None:
        # A broken pipe means that the process or its reaper has ended: `poll` will see it.
        with contextlib.suppress(BrokenPipeError):
            self._control.write(line.encode("utf-8", "surrogateescape") + b"\n")

    def _send_signal(self, name: str) -> None:
        if name == REAPER_ITSELF:
            self._reaper.kill()  # `poll` ends the tree then
        else:
            self._send(name)
            self._reaper.send_signal(signal.SIGCONT)  # a test may have stopped it

    def close(self) -> None:
        self._control.close()
        if self.ended is None:
            self._reaper.send_signal(signal.SIGCONT)  # a test may have stopped it
        else:
            self._reaper.kill()  # it has reported all; a wait for its exit would delay the leg
        try:
            self._reaper.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._reaper.kill()
            self._reaper.wait()
            if self.ended is None:
                self._reaper_lost()
        own_children.discard(self.root)
        self._status.close()
