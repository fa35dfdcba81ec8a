"""What the launchers share: programs that a leg starts in place of a tool which has no plugins.

A launcher starts the tool, follows what it prints as it grows, and appends the record's lines. A
stream is a function from a line of the tool to lines of the record, which knows no file and no
clock. Standard library only, Python 3.8+; started by the leg's own interpreter with `-I -S`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence

Line = Dict[str, Any]
MESSAGE_BYTES = 4096
# What says whose memory marks may be reset stays with the tool.
_KEPT = ("CIGUARD_PEAK_RESET_BY",)


def truncated(text: str) -> str:
    """As much of a text as a message may have."""
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


class Leg:
    """What the leg asked for, and where it reads what happened.

    Attributes:
        units: ids, in the order wanted; empty for a listing.
        environ: for the tool, without what the leg said to us: another one in a test is not this.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.units: List[str] = []
        self.collect_file = environ.get("CIGUARD_COLLECT_FILE", "")
        if not self.collect_file:
            with open(environ["CIGUARD_UNITS_FILE"], encoding="utf-8") as stream:
                self.units = list(dict.fromkeys(json.load(stream)))
        self.private = os.path.dirname(environ.get("CIGUARD_UNITS_FILE", ""))
        self.is_interrupted = False
        self.stop_file = environ.get("CIGUARD_STOP_FILE", "")
        self._origin_s = float(environ.get("CIGUARD_ORIGIN_S") or time.monotonic())
        path = self.collect_file or environ["CIGUARD_RECORD_FILE"]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.environ = {
            name: value
            for name, value in environ.items()
            if name in _KEPT or not name.startswith("CIGUARD_")
        }

    def append(self, lines: Iterable[Line]) -> None:
        """Write lines of a record, which have the moment of now."""
        now_s = round(time.monotonic() - self._origin_s, 6)
        self._write({**line, "at_s": now_s} for line in lines)

    def answer(self, units: Iterable[Line], errors: Iterable[Line], rootdir: str) -> None:
        """Write a whole listing."""
        self._write([*units, *errors, {"done": True, "rootdir": rootdir}])

    def _write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            # A full disk breaks no test: the leg finds out.
            with contextlib.suppress(OSError):
                os.write(self._descriptor, (json.dumps(line) + "\n").encode("ascii"))

    def leave_signals_to_the_tool(self) -> None:
        """It gets them, too, and ends: what it says last is still read.

        What dies then has died of the leg, which knows why, and says so.
        """

        def interrupted(number: int, frame: object) -> None:  # noqa: ARG001
            self.is_interrupted = True

        for name in ("SIGINT", "SIGTERM"):
            signal.signal(getattr(signal, name), interrupted)

    def must_stop(self) -> bool:
        """Whether nothing more is to be begun."""
        asked = bool(self.stop_file) and os.path.exists(self.stop_file)
        return asked or self.is_interrupted


def follow(
    argv: Sequence[str],
    environ: Mapping[str, str],
    take: Callable[[bytes], bytes],
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Run a tool to its end, give each line that it prints to `take`, and print what that gives.

    Args:
        is_over: asked after each line, until it wants the tool to be ended.

    Returns:
        Its exit code; -11 where signal 11 killed it.
    """
    process = subprocess.Popen(
        list(argv),
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    is_asked = False
    for line in process.stdout:
        shown = take(line)
        if shown:
            sys.stdout.buffer.write(shown)
            sys.stdout.buffer.flush()
        if not is_asked and is_over():
            is_asked = True
            process.terminate()
    return process.wait()


def exit_as(code: int) -> None:
    """End as a child did: by the same signal, or with its exit code."""
    if code < 0 and sys.platform != "win32":
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
