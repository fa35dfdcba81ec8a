"""Output of a leg into its job's log, in order, by a background thread.

A reader that stalls (Ctrl-S, a pipe into a program that waits) does not delay the leg: output of
tests beyond `MAX_BACKLOG_BYTES` waits in the process's log. A reader that closes the pipe does not
stop the leg.
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Iterator, Literal, Mapping, Protocol, Sequence

from ciguard.model import Result, Suite, UnitKey, repository_path
from ciguard.model.execution import WORDS
from ciguard.model.jobs import is_github_actions
from ciguard.text import ID_WIDTH, annotation, count_of, one_line, spell_out, unit_name

if TYPE_CHECKING:
    from ciguard.run.policy.leg_verdict import LegVerdict
    from ciguard.run.process.tail import Log

    class Stream(Protocol):
        def write(self, content: memoryview) -> int | None:
            """Write a part of the content; return its size, or None if the write would block."""


Kind = Literal["raw", "line", "log"]

MAX_NAMED: Final = 20  # bad and missing units named in the summary; the record has all
OOM_RETRY: Final = "passed after an out-of-memory retry"
MESSAGE_CHARACTERS: Final = 300
COLUMNS: Final = 80
TITLE_WIDTH: Final = 120  # of an annotation
ANNOTATED: Final = 10  # the most errors of a step that GitHub shows
PROGRESS_EVERY_S: Final = 30.0
FLUSH_TIMEOUT_S: Final = 30.0  # at the end of the leg, if the reader reads nothing
CANCELLED_FLUSH_TIMEOUT_S: Final = 2.0  # after a signal: a runner gives 7.5 s in all
PIECE_BYTES: Final = 1 << 16  # capacity of a pipe: a write of it shows that the reader reads
MAX_BACKLOG_BYTES: Final = 1 << 20
RETRY_S: Final = 0.02


class Console:
    """Lines of the leg and output of its tests, on standard output.

    Args:
        environ: GitHub Actions gets folded groups and annotations; CI and a terminal get progress
            lines.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folds = is_github_actions(environ)
        in_ci = self._folds or environ.get("CI", "") not in ("", "false", "0")
        self._shows_progress = in_ci or sys.stdout.isatty()
        self._last_progress_s: float | None = None
        self._group = ""  # title of the open group
        self._is_nested = False  # the open group holds the output of many processes
        self.flush_timeout_s = FLUSH_TIMEOUT_S
        sys.stdout.flush()
        # Without the buffer: a blocked writer would hold its lock at the interpreter's end.
        self._output = BackgroundWriter(getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))

    def due(self, now_s: float) -> bool:
        """Return whether a progress line is due; the first one after one interval."""
        if self._last_progress_s is None:
            self._last_progress_s = now_s
        return self._shows_progress and now_s - self._last_progress_s >= PROGRESS_EVERY_S

    def show_progress(self, text: str, now_s: float) -> None:
        """Print a progress line, outside of any folded group."""
        self._last_progress_s = now_s
        group = self._group if self._folds else ""
        if group:  # a line within a group would be hidden
            self.print_line("::endgroup::")
        self.print_line(f"progress: {text}")
        if group:
            self.print_line(f"::group::{group} (goes on)")

    def print_line(self, text: str) -> None:
        """Print one line of the leg; characters that are not printable are escaped."""
        # A test's id may hold a lone surrogate, which no encoding carries.
        self._output.put("line", f"{spell_out(text)}\n".encode("utf-8", "backslashreplace"))

    def print_reason(self, what: str, reason: str) -> None:
        """Print `what`, which ends with an id to copy, and its reason; a long one on more lines."""
        line = f"  {what}: {reason}"
        if not reason or len(line) > COLUMNS:
            self.print_line(f"  {what}")
            margin = " " * 4
            for text in textwrap.wrap(spell_out(reason), COLUMNS, initial_indent=margin,
                                      subsequent_indent=margin, break_long_words=False,
                                      break_on_hyphens=False):  # fmt: skip
                self.print_line(text)
        else:
            self.print_line(line)

    def write_raw(self, content: bytes) -> None:
        """Print output of a test unchanged."""
        if content:
            self._output.put("raw", content)

    def follow(self, log: Log) -> None:
        """Print the next new piece of a log, unless the backlog is full."""
        if self._output.has_room:
            self.write_raw(next(log.chunks(), b""))

    def drain_log(self, log: Log) -> None:
        """Print the rest of a log that has no writer any more, and close it."""
        self._output.put("log", log)

    def close(self) -> None:
        """Wait until everything is printed, or the reader has stalled for too long."""
        self._output.close(self.flush_timeout_s)

    def begin(self, title: str) -> None:
        """Begin the group of a process's output; within a group of many, print its title."""
        if not self._is_nested:
            self._group = title
        is_group = self._folds and not self._is_nested
        self.print_line(f"::group::{title}" if is_group else f"--- {title}")

    def end(self, line: str = "") -> None:
        """End the group; `line` stays visible after it."""
        if not self._is_nested:
            self._group = ""
            if self._folds:
                self.print_line("::endgroup::")
        if line:
            self.print_line(line)

    @contextlib.contextmanager
    def group_of_many(self, title: str) -> Iterator[None]:
        """Put the output of all processes into one group."""
        self.begin(title)
        self._is_nested = True
        try:
            yield
        finally:  # what follows a bug is visible as well
            self._is_nested = False
            self.end()

    def print_summary(
        self,
        name: str,
        verdict: LegVerdict,
        walls_s: tuple[float, float | None],
        causes: Mapping[UnitKey, str],
        suites: Mapping[str, Suite],
        *,
        copied_files: int | None = None,
        memory: str = "",
    ) -> None:
        """Print the last lines of the leg: counts, then bad and missing units by name.

        Args:
            walls_s: wall time of this leg, and of it with all earlier legs; None without any.
            causes: unit that did not run -> why, if that is known.
            copied_files: number of copied result files of a command; None if it names none.
            memory: end of the first line.
        """
        stopped = _stopped_results(verdict)
        bad = [result for result in verdict.bad if result not in stopped]
        wall_s, total_s = walls_s
        took = f"{wall_s:.1f} s"
        if total_s is not None:
            took += f" ({total_s:.1f} s with earlier steps)"
        notes = _notes(verdict, copied_files)
        self.print_line(f"{name}: {_counts(verdict) or 'no results'} in {took}{notes}{memory}")
        for reason, settings in verdict.settings.items():
            self.print_reason(WORDS[reason], ", ".join(settings))
        for result in stopped[:MAX_NAMED]:
            unit = unit_name(result.unit_key)
            self.print_reason(f"stopped {unit}", "the next step runs it again")
        for result in bad[:MAX_NAMED]:
            how = f" ({result.ending})" if result.ending != "completed" else ""
            is_unit = result.case in ("", result.unit)
            case = "" if is_unit else f" {one_line(result.case, ID_WIDTH)}"
            unit = unit_name(result.unit_key)
            self.print_reason(f"{result.outcome}{how} {unit}{case}", _first_line(result.message))
        for key in verdict.flaky[:MAX_NAMED]:
            self.print_reason(f"flaky {unit_name(key)}", "failed first, passed in its last try")
        for key in verdict.passed_after_oom[:MAX_NAMED]:
            self.print_line(f"  {OOM_RETRY}: {unit_name(key)}")
        missing = () if verdict.checkpoint else verdict.missing
        for key in missing[:MAX_NAMED]:
            self.print_reason(f"did not run {unit_name(key)}", _first_line(causes.get(key)))
        unnamed = max(0, len(bad) - MAX_NAMED) + max(0, len(missing) - MAX_NAMED)
        if unnamed:
            self.print_line(f"  and {unnamed} more: see the record")
        if self._folds and not verdict.checkpoint:  # the last step annotates the results of all
            self._annotate(verdict.bad, suites)

    def _annotate(self, bad: Sequence[Result], suites: Mapping[str, Suite]) -> None:
        """Annotate bad results at their place in the code; the last one counts the others."""
        shown = bad if len(bad) <= ANNOTATED else bad[: ANNOTATED - 1]
        for result in shown:
            file = repository_path(suites, result.suite, result.file) or result.file or ""
            how = result.outcome if result.ending == "completed" else result.ending
            what = ": ".join(filter(None, (how, _first_line(result.message))))
            title = unit_name(result.unit_key, TITLE_WIDTH)
            self.print_line(
                annotation("error", what, file=file, line=result.line or None, title=title)
            )
        if len(shown) < len(bad):
            self.print_line(f"::error ::and {len(bad) - len(shown)} more: see the step's log")


def _stopped_results(verdict: LegVerdict) -> Sequence[Result]:
    """Return the results of units that the checkpoint of the step stopped."""
    is_paused = verdict.checkpoint
    return tuple(result for result in verdict.bad if is_paused and result.ending == "deadline")


def _counts(verdict: LegVerdict) -> str:
    """Return the counts by outcome; a stopped unit is not counted as died."""
    stopped = len(_stopped_results(verdict))
    numbers = {**verdict.counts, "stopped": stopped}
    numbers["died"] = numbers.get("died", 0) - stopped
    counts = ", ".join(f"{count} {outcome}" for outcome, count in numbers.items() if count)
    if verdict.flaky or verdict.passed_after_oom:
        recovered = ((len(verdict.flaky), "flaky"), (len(verdict.passed_after_oom), OOM_RETRY))
        counts += f" ({', '.join(f'{count} {word}' for count, word in recovered if count)})"
    return counts


def _notes(verdict: LegVerdict, copied_files: int | None) -> str:
    """Return the rest of the line with the counts; `copied_files` is None without --results."""
    notes = f"; {count_of(len(verdict.missing), 'test')} did not run" if verdict.missing else ""
    if verdict.in_files:
        tests = count_of(verdict.in_files, "test")
        notes += f"; results of {tests} are in files, which the report reads"
    if copied_files == 0:
        notes += "; no file that matches --results was written"
    elif copied_files:
        files = count_of(copied_files, "result file")
        notes += f"; {files} in the record, which the report reads"
    if verdict.checkpoint:
        notes = "; the next step continues"
    if verdict.unexplained:
        notes += f"; {count_of(verdict.unexplained, 'process')} failed without a failed result"
    return notes


def _first_line(message: str | None) -> str:
    return (message or "").strip().partition("\n")[0][:MESSAGE_CHARACTERS]


class BackgroundWriter:
    """A thread that writes queued items to a stream.

    A `line` begins on a new line; a `log` is written to its end and closed.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._items: SimpleQueue[tuple[Kind, bytes | Log] | None] = SimpleQueue()
        self._put_bytes = self._passed_bytes = 0  # each is written by one thread only
        self._pieces_taken = 0
        self._unfinished_log: Log | None = None
        self._reader_closed = False
        self._in_line = False  # the last output did not end with a line feed
        self._thread: threading.Thread | None = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: the leg itself writes, and waits for its reader
            self._thread = None

    @property
    def has_room(self) -> bool:
        """Return whether the backlog is below its limit."""
        return self._put_bytes - self._passed_bytes < MAX_BACKLOG_BYTES

    def put(self, kind: Kind, content: bytes | Log) -> None:
        """Queue an item; a log belongs to the writer from now on."""
        if self._thread is None:
            self._pass_on(kind, content)
            return
        self._put_bytes += len(content) if isinstance(content, bytes) else 0
        self._items.put((kind, content))

    def close(self, timeout_s: float) -> None:
        """Wait until everything is written, or the reader has read nothing for `timeout_s`."""
        self._items.put(None)
        taken, since_s = self._pieces_taken, time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(RETRY_S)
            if taken != self._pieces_taken:
                taken, since_s = self._pieces_taken, time.monotonic()
            elif time.monotonic() - since_s > timeout_s:
                break
        if self._unfinished_log is not None:
            self._unfinished_log.shorten()  # logs are part of the record
        with contextlib.suppress(Empty):
            while True:
                item = self._items.get_nowait()
                if item is not None and not isinstance(item[1], bytes):
                    item[1].shorten()

    def _run(self) -> None:
        for kind, content in iter(self._items.get, None):
            self._pass_on(kind, content)
            self._passed_bytes += len(content) if isinstance(content, bytes) else 0

    def _pass_on(self, kind: Kind, content: bytes | Log) -> None:
        if not isinstance(content, bytes):
            self._unfinished_log = content
            for piece in content.chunks():
                if self._reader_closed:
                    break
                self._write(piece)
            content.close()
            self._unfinished_log = None
        else:
            self._write(b"\n" * (kind == "line" and self._in_line) + content)

    def _write(self, content: bytes) -> None:
        self._in_line = not content.endswith(b"\n")
        left = memoryview(content)
        while left and not self._reader_closed:
            try:
                taken = self._stream.write(left[:PIECE_BYTES])
            except OSError:
                self._reader_closed = True
                return
            if taken is None:  # the pipe is full and set not to block
                time.sleep(RETRY_S)
                continue
            self._pieces_taken += 1
            left = left[taken:]
