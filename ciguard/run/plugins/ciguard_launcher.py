"""Shared part of the launchers: programs that a leg starts in place of a tool without plugins.

A launcher starts the tool, parses its output as it grows, and appends the record's lines. A stream
turns a line of the tool into lines of the record, without files and clocks. Standard library only,
Python 3.8+; started by the leg's own interpreter with `-I -S`.
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
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Sequence, Tuple

Line = Dict[str, Any]
Setting = Tuple[str, str]  # reason of an `execution` event, and the setting
NO_PROGRAM = 127  # exit code of a shell that does not find a program
MESSAGE_BYTES = 4096
LOG_CHARACTERS = 1 << 16  # kept of a test's output: its end
LINES_AHEAD = 1000  # lines of a tool in the queue; a full queue blocks the tool
EXECUTIONS = 20  # settings that are named
POLL_S = 0.1
LEFT_OPEN_S = 2.0  # longest wait for the last lines of a tool that has ended
# Variables of a leg that the tool inherits: whose memory marks may be reset.
_KEPT = ("CIGUARD_PEAK_RESET_BY",)
# Output of C++ and sanitizers before they end a program for lack of memory.
_NO_MEMORY = re.compile(r"what\(\):  std::bad_alloc|Sanitizer: (?:allocator is )?out of memory")
# Failures of GoogleTest, which CTest runs, too.
WHERE = re.compile(r"^(?P<file>.+?)[:(](?P<line>\d+)\)?: (?:Failure$|error: )", re.M)
FAILURE = re.compile(r"^(?:unknown file|.+?[:(]\d+\)?): (?:Failure$|error: )", re.M)
# Lines of GoogleTest around tests.
FRAME = re.compile(
    r"^(?:Running main\(\) from .*|Note: Google Test filter = .*| *\d+ FAILED TESTS?"
    r"|\[(?:=+|-+| RUN     | {6} OK|  FAILED |  PASSED |  SKIPPED) ?\].*)\n?",
    re.M,
)


def truncated(text: str) -> str:
    """Return the beginning of a text, as long as a message may be."""
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


def last_part(text: str) -> str:
    """Return the end of a program's output, as long as a message may be: the error comes last."""
    whole = text.strip("\n").encode("utf-8", "replace")
    return whole[-MESSAGE_BYTES:].decode("utf-8", "ignore")


def death(unit: str, what: str, log: str) -> Line:
    """Return the result of a test in C or C++ that ended its program.

    Args:
        what: how the program ended. log: output of the test.
    """
    ending = "out_of_memory" if _NO_MEMORY.search(log) else "crash"
    message = f"{what}\n{last_part(log)}".strip()
    return {
        "type": "result", "unit": unit, "outcome": "died", "ending": ending, "message": message
    }  # fmt: skip


def describe_failure(log: str, here: str) -> Line:
    """Return the message, and the position of the first failure if known, for a test's output.

    Args:
        here: the working folder: a file outside of it does not belong to the project.
    """
    text = FRAME.sub("", log).strip("\n")
    failure, position = FAILURE.search(text), WHERE.search(text)
    fields: Line = {"message": last_part(text)}
    if failure and text.startswith(failure[0]):
        fields["message"] = last_part(text[failure.end() :])
    if position:
        path = os.path.relpath(position["file"], here) if os.path.isabs(position["file"]) else ""
        if path and not path.startswith(".."):
            fields.update(file=path.replace(os.sep, "/"), line=int(position["line"]))
    return fields


def relative(file: "str | None", here: str) -> str:
    """Return a source's path in the repository; "" for a file outside of it, or a missing one."""
    path = os.path.relpath(file, here) if file else ""
    return path.replace(os.sep, "/") if os.path.isfile(path) and path[:2] != ".." else ""


def closed(unit: str) -> Line:
    return {"type": "event", "kind": "closed", "unit": unit}


def not_collected(units: Iterable[str], detail: str = "") -> Iterator[Line]:
    """Yield the events for planned units that were not collected; `detail` is "" if unknown."""
    for unit in units:
        yield {"type": "event", "kind": "not_collected", "unit": unit, "detail": detail}


class Leg:
    """The batch of a leg for this process, and the record that the leg reads.

    Args:
        hidden: prefixes of further variables that the tool must not inherit.

    Attributes:
        units: ids, in the order in which they are to run; empty for a listing.
        environ: environment of the tool, without the leg's variables for this process.
    """

    def __init__(self, environ: Mapping[str, str], hidden: Sequence[str] = ()) -> None:
        self.units: list[str] = []
        self.collect_file = environ.get("CIGUARD_COLLECT_FILE", "")
        if not self.collect_file:
            with open(environ["CIGUARD_UNITS_FILE"], encoding="utf-8") as stream:
                self.units = list(dict.fromkeys(json.load(stream)))
        self.private = os.path.dirname(environ.get("CIGUARD_UNITS_FILE", ""))
        self.is_interrupted = False
        self._begun_s: dict[str, float] = {}
        self.stop_file = environ.get("CIGUARD_STOP_FILE", "")
        self._origin_s = float(environ.get("CIGUARD_ORIGIN_S") or time.monotonic())
        path = self.collect_file or environ["CIGUARD_RECORD_FILE"]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.environ = {
            name: value
            for name, value in environ.items()
            if name in _KEPT or not name.startswith(("CIGUARD_", *hidden))
        }

    def append(self, lines: Iterable[Line]) -> None:
        """Write lines of a record, with the present moment, or with their own by the time of day.

        A test that dies after a signal died of the leg, which records the reason itself.
        """
        now_s, day_s = time.monotonic() - self._origin_s, time.time()
        own = (line for line in lines if not self.is_interrupted or line.get("outcome") != "died")
        self._write(
            {**line, "at_s": round(now_s - day_s + line.get("at_s", day_s), 6)} for line in own
        )

    def append_timed(self, lines: Iterable[Line]) -> None:
        """Write lines; a result gets the time since the start of its unit."""
        now_s = time.monotonic()
        timed = list(lines)
        for line in timed:
            if line["type"] == "start":
                self._begun_s[line["unit"]] = now_s
            elif line["type"] == "result":
                line["wall_s"] = round(now_s - self._begun_s[line["unit"]], 6)
        self.append(timed)

    def answer(self, units: Iterable[Line], errors: Iterable[Line], root: str, **more: Any) -> None:
        self._write([*units, *errors, {"done": True, "rootdir": root, **more}])

    def _write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            # A full disk must not break a test: the leg will notice the missing lines.
            with contextlib.suppress(OSError):
                os.write(self._descriptor, (json.dumps(line) + "\n").encode("ascii"))

    def report_execution(self, settings: Sequence[Setting]) -> None:
        """Write whether all tests are executed; for a listing, the filters alone."""
        if self.collect_file:
            self._write({"filter": detail} for reason, detail in settings if reason == "filter")
            return
        reasons = settings[:EXECUTIONS] or [("executed", "")]
        event = {"type": "event", "kind": "execution"}
        self.append({**event, "reason": reason, "detail": detail} for reason, detail in reasons)

    def leave_signals_to_the_tool(self) -> None:
        """Only note a signal: the tool receives it, too, and its last output is still read."""

        def interrupted(number: int, frame: object) -> None:  # noqa: ARG001
            self.is_interrupted = True

        for name in ("SIGINT", "SIGTERM"):
            signal.signal(getattr(signal, name), interrupted)

    def must_stop(self) -> bool:
        """Return whether no further test may begin."""
        is_requested = bool(self.stop_file) and os.path.exists(self.stop_file)
        return is_requested or self.is_interrupted


def follow(
    argv: Sequence[str],
    environ: Mapping[str, str],
    take: Callable[[bytes], bytes],
    must_end: Callable[[], bool] = lambda: False,
) -> int:
    """Run a tool to its end, pass each line of its output to `take`, and print the answers.

    Args:
        must_end: checked after each line; if true, the tool is ended and its further output lost.

    Returns:
        The exit code; -11 if signal 11 killed the tool.
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
            continue  # keep reading: the tool must not block
        shown = take(line)
        if shown:
            sys.stdout.buffer.write(shown)
            sys.stdout.buffer.flush()
        if must_end():
            is_over = True
            process.terminate()
    return process.wait()


def printed_lines(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """Yield the lines of a tool's output as they come, until the tool has ended.

    A server that a test left running may hold the same output open for ever.
    """
    lines: "queue.Queue[bytes]" = queue.Queue(LINES_AHEAD)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()
    last_s = time.monotonic()  # last sign of life
    while True:
        try:
            line = lines.get(timeout=POLL_S)
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
    *,
    errors: "tuple[type[Exception], ...]" = (OSError,),
    settings: Callable[[Sequence[str], Leg], Sequence[Setting]] = lambda words, leg: (),  # noqa: ARG005
    hidden: Sequence[str] = (),
) -> None:
    """List or run the tests with the command of the suite, then exit.

    Args:
        errors: exceptions of a tool that cannot be started.
        settings: returns the settings of a command that keep tests or cases from running.
        hidden: as in `Leg`.
    """
    leg = Leg(os.environ, hidden)
    leg.leave_signals_to_the_tool()
    try:
        leg.report_execution(settings(words, leg))
        code = list_tests(words, leg) if leg.collect_file else run_tests(words, leg)
    except errors as error:
        what = getattr(error, "strerror", None) or error
        sys.stderr.write(f"ciguard: {words[0]} cannot be started: {what}\n")
        code = NO_PROGRAM
    exit_as(code)


def exit_as(code: int) -> None:
    """Exit as a child did: by the same signal, or with its exit code."""
    if code < 0 and sys.platform != "win32":
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
