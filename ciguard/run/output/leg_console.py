"""What a leg says to whoever reads its job's log, and the thread that passes it on, in order.

A reader that stalls (Ctrl-S, a pipe into a program that waits) holds up only itself: what a
test prints beyond `MAX_BACKLOG_BYTES` ahead of it waits in the process's log. One that has gone
stops nothing.
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Literal, Mapping, Sequence, Union

from ciguard.model import Result, Suite, UnitKey, repository_path
from ciguard.model.execution import WORDS
from ciguard.model.jobs import is_github_actions
from ciguard.text import ID_WIDTH, annotation, count_of, one_line, unit_name

if TYPE_CHECKING:
    from typing import Optional, Protocol, Tuple

    from ciguard.run.policy.leg_verdict import LegVerdict
    from ciguard.run.process.tail import Log

    class Stream(Protocol):
        """What bytes go to."""

        def write(self, content: memoryview) -> Optional[int]:
            """Write some of them: how many; None where it would have to wait."""


Kind = Literal["raw", "line", "log"]

MAX_NAMED: Final = 20  # bad and missing units named in the closing lines; the record has all
OOM_RETRY: Final = "passed after an out-of-memory retry"
MESSAGE_CHARACTERS: Final = 300
COLUMNS: Final = 80
TITLE_WIDTH: Final = 120  # of an annotation
ANNOTATED: Final = 10  # GitHub shows so many errors of a step
PROGRESS_EVERY_S: Final = 30.0
FLUSH_TIMEOUT_S: Final = 30.0  # with a reader that reads nothing, at the end of the leg
CANCELLED_FLUSH_TIMEOUT_S: Final = 2.0  # when it was told to stop: a runner gives 7.5 s in all
PIECE_BYTES: Final = 1 << 16  # what a pipe takes at once: then somebody has read
MAX_BACKLOG_BYTES: Final = 1 << 20
RETRY_S: Final = 0.02


class Console:
    """Lines of the leg and output of its tests, on one stream.

    Args:
        environ: GitHub Actions folds groups and takes annotations; CI and a terminal get lines on
            how far the leg is.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folds = is_github_actions(environ)
        in_ci = self._folds or environ.get("CI", "") not in ("", "false", "0")
        self._shows_progress = in_ci or sys.stdout.isatty()
        self._last_progress_s: float | None = None
        self._group = ""  # title of the one that is open
        self.flush_timeout_s = FLUSH_TIMEOUT_S
        sys.stdout.flush()
        # Below its buffer, whose lock a writer that hangs would hold at the interpreter's end.
        self._output = BackgroundWriter(getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))

    def due(self, now_s: float) -> bool:
        """Whether it is time to say how far the leg is; the first time after one interval."""
        if self._last_progress_s is None:
            self._last_progress_s = now_s
        return self._shows_progress and now_s - self._last_progress_s >= PROGRESS_EVERY_S

    def show_progress(self, text: str, now_s: float) -> None:
        """Say how far the leg is, outside of any fold."""
        self._last_progress_s = now_s
        group = self._group if self._folds else ""
        if group:  # a line within a fold is not seen
            self.print_line("::endgroup::")
        self.print_line(f"progress: {text}")
        if group:
            self.print_line(f"::group::{group} (goes on)")

    def print_line(self, text: str) -> None:
        """One line of the leg's own; what cannot be seen in a name or message is spelled out."""
        self._output.put("line", _bytes(_visible(text)) + b"\n")

    def print_reason(self, what: str, reason: str) -> None:
        """`what`, which ends with an id to copy, and why; on lines of its own where it is long."""
        line = f"  {what}: {reason}"
        if not reason or len(line) > COLUMNS:
            self.print_line(f"  {what}")
            margin = " " * 4
            for text in textwrap.wrap(_visible(reason), COLUMNS, initial_indent=margin,
                                      subsequent_indent=margin, break_long_words=False,
                                      break_on_hyphens=False):  # fmt: skip
                self.print_line(text)
        else:
            self.print_line(line)

    def write_raw(self, content: bytes) -> None:
        """Bytes that a test printed, unchanged."""
        if content:
            self._output.put("raw", content)

    def follow(self, log: Log) -> None:
        """Print a piece of what was added to a log, unless its reader is far behind."""
        if self._output.has_room:
            self.write_raw(next(log.chunks(), b""))

    def drain_log(self, log: Log) -> None:
        """Print the rest of a log that has no writer any more, and close it."""
        self._output.put("log", log)

    def close(self) -> None:
        """Wait until all is printed, or no reader is left."""
        self._output.close(self.flush_timeout_s)

    def begin(self, title: str) -> None:
        """A process's output follows."""
        self._group = title
        self.print_line(f"::group::{title}" if self._folds else f"--- {title}")

    def end(self, line: str) -> None:
        """It is complete; `line` stays visible after the fold."""
        self._group = ""
        if self._folds:
            self.print_line("::endgroup::")
        self.print_line(line)

    def print_summary(
        self,
        name: str,
        verdict: LegVerdict,
        walls_s: tuple[float, float | None],
        causes: Mapping[UnitKey, str],
        suites: Mapping[str, Suite],
        *,
        copied_files: int | None = None,
    ) -> None:
        """The leg's last lines: counts, then what is bad or missing by name.

        Args:
            walls_s: of this leg, and of all legs with those that it goes on from; None for none.
            causes: why units did not run, where that is known.
            copied_files: result files of a command, where it names some: its exit code is its only
                result.
        """
        stopped = tuple(
            one for one in verdict.bad if verdict.checkpoint and one.ending == "deadline"
        )
        bad = [one for one in verdict.bad if one not in stopped]
        numbers = {**verdict.counts, "stopped": len(stopped)}
        numbers["died"] = numbers.get("died", 0) - len(stopped)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in numbers.items() if count)
        rest = f"; {count_of(len(verdict.missing), 'test')} did not run" if verdict.missing else ""
        if verdict.in_files:
            tests = count_of(verdict.in_files, "test")
            rest += f"; results of {tests} are in files, which the report reads"
        if copied_files == 0:
            rest += "; no file that matches --results was written"
        elif copied_files:
            rest += (
                f"; {count_of(copied_files, 'result file')} in the record, which the report reads"
            )
        if verdict.checkpoint:
            rest = "; the next step continues"
        if verdict.unexplained:
            rest += f"; {count_of(verdict.unexplained, 'process')} failed without a failed result"
        if verdict.flaky or verdict.passed_after_oom:
            recovered = ((len(verdict.flaky), "flaky"), (len(verdict.passed_after_oom), OOM_RETRY))
            counts += f" ({', '.join(f'{count} {word}' for count, word in recovered if count)})"
        wall_s, in_all_s = walls_s
        took = f"{wall_s:.1f} s"
        if in_all_s is not None:
            took += f" ({in_all_s:.1f} s with earlier steps)"
        self.print_line(f"{name}: {counts or 'no results'} in {took}{rest}")
        for reason, settings in verdict.settings.items():
            self.print_reason(WORDS[reason], ", ".join(settings))
        for result in stopped[:MAX_NAMED]:
            place = unit_name(result.key.unit_key)
            self.print_reason(f"stopped {place}", "the next step runs it again")
        for result in bad[:MAX_NAMED]:
            how = f" ({result.ending})" if result.ending != "completed" else ""
            is_named = result.case in ("", result.unit)
            case = "" if is_named else f" {one_line(result.case, ID_WIDTH)}"
            place = unit_name(result.key.unit_key)
            self.print_reason(f"{result.outcome}{how} {place}{case}", _first_line(result.message))
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
        if self._folds and not verdict.checkpoint:  # the last step tells of all of them
            self._annotate(verdict.bad, suites)

    def _annotate(self, bad: Sequence[Result], suites: Mapping[str, Suite]) -> None:
        """What went wrong where it stands in the code; of too many the last says how many more."""
        shown = bad if len(bad) <= ANNOTATED else bad[: ANNOTATED - 1]
        for result in shown:
            file = repository_path(suites, result.suite, result.file) or result.file or ""
            how = result.outcome if result.ending == "completed" else result.ending
            what = ": ".join(filter(None, (how, _first_line(result.message))))
            title = unit_name(result.key.unit_key, TITLE_WIDTH)
            self.print_line(
                annotation("error", what, file=file, line=result.line or None, title=title)
            )
        if len(shown) < len(bad):
            self.print_line(f"::error ::and {len(bad) - len(shown)} more: see the step's log")


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _bytes(text: str) -> bytes:
    # A test's id may hold a lone surrogate, which no encoding carries.
    return text.encode("utf-8", "backslashreplace")


def _first_line(message: str | None) -> str:
    return (message or "").strip().partition("\n")[0][:MESSAGE_CHARACTERS]


class BackgroundWriter:
    """One stream, and what is still to go there.

    A `line` begins on a line of its own, a `log` is passed on to its end, and closed.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._items: SimpleQueue[Optional[Tuple[Kind, Union[bytes, Log]]]] = SimpleQueue()
        self._put_bytes = self._passed_bytes = 0  # each counted by one thread
        self._pieces_taken = 0
        self._unfinished_log: Optional[Log] = None
        self._reader_closed = False
        self._in_line = False  # what was printed last has no line feed at its end
        self._thread: Optional[threading.Thread] = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: then the leg waits for its reader
            self._thread = None

    @property
    def has_room(self) -> bool:
        """Whether the reader is not far behind."""
        return self._put_bytes - self._passed_bytes < MAX_BACKLOG_BYTES

    def put(self, kind: Kind, content: Union[bytes, Log]) -> None:
        """Pass it on after all that was put before; a log belongs to us from now on."""
        if self._thread is None:
            self._pass_on(kind, content)
            return
        self._put_bytes += len(content) if isinstance(content, bytes) else 0
        self._items.put((kind, content))

    def close(self, timeout_s: float) -> None:
        """Wait until all is passed on, or nothing was read for so long."""
        self._items.put(None)
        taken, since_s = self._pieces_taken, time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(RETRY_S)
            if taken != self._pieces_taken:
                taken, since_s = self._pieces_taken, time.monotonic()
            elif time.monotonic() - since_s > timeout_s:
                break
        if self._unfinished_log is not None:
            self._unfinished_log.shorten()  # it travels with the record
        with contextlib.suppress(Empty):
            while True:
                item = self._items.get_nowait()
                if item is not None and not isinstance(item[1], bytes):
                    item[1].shorten()

    def _run(self) -> None:
        for kind, content in iter(self._items.get, None):
            self._pass_on(kind, content)
            self._passed_bytes += len(content) if isinstance(content, bytes) else 0

    def _pass_on(self, kind: Kind, content: Union[bytes, Log]) -> None:
        if not isinstance(content, bytes):
            self._unfinished_log = content
            for piece in content.chunks():
                if self._reader_closed:
                    break
                self._print(piece)
            content.close()
            self._unfinished_log = None
        else:
            self._print(b"\n" * (kind == "line" and self._in_line) + content)

    def _print(self, content: bytes) -> None:
        self._in_line = not content.endswith(b"\n")
        self._write(content)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left and not self._reader_closed:
            try:
                taken = self._stream.write(left[:PIECE_BYTES])
            except OSError:
                self._reader_closed = True
                return
            if taken is None:  # somebody made it a pipe that does not wait
                time.sleep(RETRY_S)
                continue
            self._pieces_taken += 1
            left = left[taken:]
