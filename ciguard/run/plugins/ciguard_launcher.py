"""What the launchers share: programs that a leg starts in place of a tool which has no plugins.

A launcher starts the tool, follows what it prints as it grows, and appends the record's lines. A
stream is a function from a line of the tool to lines of the record, which knows no file and no
clock. Standard library only, Python 3.8+; started by the leg's own interpreter with `-I -S`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence

Line = Dict[str, Any]
NO_PROGRAM = 127  # as a shell ends that finds none
MESSAGE_BYTES = 4096
LOG_CHARACTERS = 1 << 16  # that are kept of a test's output: its end
LINES_AHEAD = 1000  # of a tool, that wait for us; then it waits
EXECUTIONS = 20  # settings that are named
POLL_S = 0.1
LEFT_OPEN_S = 2.0  # that the last lines of a tool may take once it has ended
# What says whose memory marks may be reset stays with the tool.
_KEPT = ("CIGUARD_PEAK_RESET_BY",)
# What C++ and sanitizers print before they end a program that finds no memory.
_NO_MEMORY = re.compile(r"what\(\):  std::bad_alloc|Sanitizer: (?:allocator is )?out of memory")


def truncated(text: str) -> str:
    """As much of a text as a message may have."""
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


def last_part(text: str) -> str:
    """The end of a program's output, as much as a message may have: what went wrong comes last."""
    whole = text.strip("\n").encode("utf-8", "replace")
    return whole[-MESSAGE_BYTES:].decode("utf-8", "ignore")


def death(unit: str, what: str, log: str) -> Line:
    """The result of a test in C or C++ that ended its program.

    Args:
        what: how that ended. log: what the test printed.
    """
    ending = "out_of_memory" if _NO_MEMORY.search(log) else "crash"
    message = f"{what}\n{last_part(log)}".strip()
    return {
        "type": "result", "unit": unit, "outcome": "died", "ending": ending, "message": message
    }  # fmt: skip


def closed(unit: str) -> Line:
    """The event that a unit is over."""
    return {"type": "event", "kind": "closed", "unit": unit}


def not_collected(units: Iterable[str], detail: str = "") -> Iterator[Line]:
    """Yield the events for planned units that were not collected; `detail` is "" if unknown."""
    for unit in units:
        yield {"type": "event", "kind": "not_collected", "unit": unit, "detail": detail}


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
        self._begun_s: Dict[str, float] = {}
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

    def append_timed(self, lines: Iterable[Line]) -> None:
        """Write lines, of which a result gets the time since the start of its unit."""
        now_s = time.monotonic()
        found = list(lines)
        for line in found:
            if line["type"] == "start":
                self._begun_s[line["unit"]] = now_s
            elif line["type"] == "result":
                line["wall_s"] = round(now_s - self._begun_s[line["unit"]], 6)
        self.append(found)

    def answer(self, units: Iterable[Line], errors: Iterable[Line], rootdir: str) -> None:
        """Write a whole listing."""
        self._write([*units, *errors, {"done": True, "rootdir": rootdir}])

    def _write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            # A full disk breaks no test: the leg finds out.
            with contextlib.suppress(OSError):
                os.write(self._descriptor, (json.dumps(line) + "\n").encode("ascii"))

    def report_execution(self, filters: Sequence[str]) -> None:
        """Write whether all bodies are executed; for a listing, the filters alone."""
        if self.collect_file:
            self._write({"filter": one} for one in filters)
            return
        found = [("filter", one) for one in filters[:EXECUTIONS]] or [("executed", "")]
        event = {"type": "event", "kind": "execution"}
        self.append({**event, "reason": reason, "detail": detail} for reason, detail in found)

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
    must_end: Callable[[], bool] = lambda: False,
) -> int:
    """Run a tool to its end, give each line that it prints to `take`, and print what that gives.

    Args:
        must_end: asked after each line; then the tool is ended, and what it still prints is lost.

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
    is_over = False
    for line in printed_lines(process):
        if is_over:
            continue  # it must not wait for us to read
        shown = take(line)
        if shown:
            sys.stdout.buffer.write(shown)
            sys.stdout.buffer.flush()
        if must_end():
            is_over = True
            process.terminate()
    return process.wait()


def printed_lines(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """What a tool prints, as it grows, until it has ended.

    A server that one of its tests left running may hold the same output open for ever.
    """
    found: "queue.Queue[bytes]" = queue.Queue(LINES_AHEAD)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                found.put(line)
        found.put(b"")

    threading.Thread(target=read, daemon=True).start()
    last_s = time.monotonic()  # a sign of life
    while True:
        try:
            line = found.get(timeout=POLL_S)
        except queue.Empty:
            if process.poll() is None:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > LEFT_OPEN_S:
                return
            continue
        if not line:
            return
        yield line
        last_s = time.monotonic()


Work = Callable[[Sequence[str], Leg], int]  # a command -> exit code


def launch(
    words: Sequence[str],
    list_tests: Work,
    run_tests: Work,
    errors: "tuple[type[Exception], ...]" = (OSError,),
    filters: Callable[[Sequence[str], Leg], Sequence[str]] = lambda words, leg: (),  # noqa: ARG005
) -> None:
    """Do what the leg asks for, with the command of its suite; exits.

    Args:
        errors: raised where the tool cannot be started so.
        filters: settings of a command that select cases inside units.
    """
    leg = Leg(os.environ)
    leg.leave_signals_to_the_tool()
    try:
        leg.report_execution(filters(words, leg))
        code = list_tests(words, leg) if leg.collect_file else run_tests(words, leg)
    except errors as error:
        what = getattr(error, "strerror", None) or error
        sys.stderr.write(f"ciguard: {words[0]} cannot be started: {what}\n")
        code = NO_PROGRAM
    exit_as(code)


def exit_as(code: int) -> None:
    """End as a child did: by the same signal, or with its exit code."""
    if code < 0 and sys.platform != "win32":
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
