"""Reads the values of a text log in constant memory, at the speed of one search for all patterns.

One `re2.Set` of all triggers (plain texts of the patterns) searches blocks of 64 KiB; a pattern is
tried only on lines that contain one of its triggers. Colours, NUL (of UTF-16), GitHub's time at the
start of a line and carriage returns are removed before, and bytes that are no UTF-8 are replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Final, Literal, NamedTuple

import re2

from ciguard.errors import UsageError
from ciguard.logs.accelerator_patterns import is_one_failure, transient_memory
from ciguard.logs.pattern import LogPattern
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.values import UNPLACED, KeyField, LogValue, NotANumber, Place

BLOCK_BYTES: Final = 1 << 16
LINE_BYTES: Final = 1 << 21  # a longer line is read in parts; matches across parts are missed
MAX_VALUES: Final = 50_000  # of one log; about 20 MB

_ESCAPES: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
_TIME: Final = re.compile(r"\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z ")
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
# In the first and in the last lines of a job's log by GitHub's runner.
_JOB_START: Final = b"Current runner version:"
_JOB_END: Final = b"Cleaning up orphan processes"

End = Literal["whole", "cut", "empty", "missing"]


@dataclass(frozen=True, slots=True)
class LogReading:
    """The values of a log.

    Attributes:
        values: in the order of the log, then values that are computed from them.
        unreadable: texts in the position of a number.
        end: `cut` if the last line has no line end, the log of a job lacks the runner's last lines,
            or the log has too many values: the blocks after the last value are not read.
        lines: number of lines that were read.
        job_begins, job_ends: the log has the first, or last, lines that GitHub's runner prints.
    """

    values: tuple[LogValue, ...]
    unreadable: tuple[NotANumber, ...]
    end: End
    lines: int
    job_begins: bool = False
    job_ends: bool = False

    @property
    def is_whole_job(self) -> bool:
        return self.end == "whole" and self.job_begins and self.job_ends


MISSING: Final = LogReading((), (), "missing", 0)


def combine(readings: Sequence[LogReading]) -> LogReading:
    """Combine the logs of several steps, or jobs, in order; the log of a step may be empty."""
    ends = {reading.end for reading in readings}
    begins = any(reading.job_begins for reading in readings)
    is_ended = any(reading.job_ends for reading in readings)
    is_cut = "cut" in ends or (begins and not is_ended)
    end: End = "cut" if is_cut else "whole" if "whole" in ends else "empty"
    return LogReading(
        tuple(value for reading in readings for value in reading.values),
        tuple(text for reading in readings for text in reading.unreadable),
        "missing" if "missing" in ends else end,
        sum(reading.lines for reading in readings),
        begins,
        is_ended,
    )


class LogReader:
    """A compiled table of patterns, for any number of logs.

    Raises:
        UsageError: RE2 refuses a pattern.
    """

    def __init__(self, patterns: Sequence[LogPattern] = PATTERNS) -> None:
        self._rows = [(row, _compiled(row)) for row in patterns]
        self._matched: set[str] = set()
        self._dependents: dict[str, list[int]] = {}
        self._by_trigger: dict[bytes, list[int]] = {}
        for number, row in enumerate(patterns):
            for name in row.contexts if row.needs_context else ():
                self._dependents.setdefault(name, []).append(number)
            for trigger in row.triggers:
                self._by_trigger.setdefault(trigger.encode(), []).append(number)
        self._triggers = list(self._by_trigger)
        options = quiet_options()
        options.encoding = re2.Options.Encoding.LATIN1  # bytes, of any encoding
        self._set = re2.Set.SearchSet(options)
        for trigger_bytes in self._triggers:
            self._set.Add(re2.escape(trigger_bytes))
        self._set.Compile()

    def read(self, stream: IO[bytes], source: Place = UNPLACED) -> LogReading:
        """Read a whole log.

        Args:
            source: job and step of the log, for the places of its values. The log of a step does
                not end with the last lines of its job.
        """
        values: list[LogValue] = []
        unreadable: list[NotANumber] = []
        log = _Blocks(stream)
        for value in self._values(log, source):
            if isinstance(value, NotANumber):
                unreadable.append(value)
            elif values and is_one_failure(values[-1], value):
                both = sorted((values[-1], value), key=lambda one: one.name)  # the allocator's
                values[-1] = replace(both[0], place=values[-1].place)
            else:
                values.append(value)
            if len(values) + len(unreadable) == MAX_VALUES:
                log.skip()
        values.extend(transient_memory(values))
        end = log.end
        if end == "whole" and log.job_begins and not log.job_ends and not source.step:
            end = "cut"
        counts = (end, log.lines, log.job_begins, log.job_ends)
        return LogReading(tuple(values), tuple(unreadable), *counts)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Return the keys of [metrics] that name a number or an object in no line of any log.

        A text that is counted may well be in none.
        """
        known = {row.name for row in PATTERNS} | self._matched
        return tuple(
            f"metrics.{row.name}{'' if row.kind == 'context' else '.pattern'}"
            for row, _ in self._rows
            if row.name not in known and (row.fields or row.kind == "context")
        )

    def _values(self, log: _Blocks, source: Place) -> Iterator[LogValue | NotANumber]:
        contexts: dict[str, _Context] = {}
        for first, block in log:
            number, counted = first, 0
            for start, rows in self._candidates(block, contexts, first):
                number += block.count(b"\n", counted, start)
                counted = start
                end = block.find(b"\n", start)
                text = block[start : end if end >= 0 else None].decode("utf-8", "replace")
                place = Place(source.job, source.step, number, source.step_number)
                yield from self._match(text, rows, contexts, place)

    def _candidates(
        self, block: bytes, contexts: Mapping[str, _Context], first: int
    ) -> list[tuple[int, list[int]]]:
        """Return the starts of lines that may match, in order, each with the rows to try."""
        candidates: dict[int, set[int]] = {}
        for index in self._set.Match(block) or ():
            trigger = self._triggers[index]
            rows = self._by_trigger[trigger]
            for start in _lines_with(block, trigger):
                candidates.setdefault(start, set()).update(rows)
        for start in sorted(candidates):
            for number in sorted(candidates[start]):
                row = self._rows[number][0]
                if dependents := self._dependents.get(row.name):
                    _add_lines_after(block, start, row.lines, dependents, candidates)
        # A context that began in an earlier block continues in this block.
        for name, dependents in self._dependents.items():
            if name in contexts and (lines := contexts[name].last_line - first + 1) > 0:
                _add_lines_after(block, -1, lines, dependents, candidates)
        return [(start, sorted(rows)) for start, rows in sorted(candidates.items())]

    def _match(
        self, text: str, rows: list[int], contexts: dict[str, _Context], place: Place
    ) -> Iterator[LogValue | NotANumber]:
        start = _TIME.match(text)
        # A progress bar overwrites its line: each version counts as a line.
        for part in text[start.end() if start else 0 :].split("\r"):
            for number in rows if part else ():
                row, compiled = self._rows[number]
                opened = [contexts[name] for name in row.contexts if name in contexts]
                around = [context for context in opened if place.line <= context.last_line]
                if row.needs_context and not around:
                    continue
                if (match := compiled.search(part)) is None:
                    continue
                self._matched.add(row.name)
                groups = match.groupdict()
                if row.kind == "context":
                    last_line = place.line + row.lines if row.lines else sys.maxsize
                    contexts[row.name] = _Context(row.key_fields(groups), last_line)
                else:
                    keys = tuple(field for context in around for field in context.key)
                    yield from row.values(groups, place, keys)


class _Context(NamedTuple):
    """The newest line of a context: its keys hold up to `last_line`."""

    key: tuple[KeyField, ...]
    last_line: int


class _Blocks:
    """A log as cleaned blocks of whole lines, each with the number of its first line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.job_begins = False
        self._tail = b""
        self._has_text = self._is_skipped = False
        self.lines = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        rest = b""
        while not self._is_skipped and (chunk := self._stream.read(BLOCK_BYTES)):
            chunk = rest + chunk if rest else chunk
            end = chunk.rfind(b"\n") + 1
            if not end and len(chunk) < LINE_BYTES:
                rest = chunk
                continue
            end = end or len(chunk)
            block, rest = chunk[:end], chunk[end:]
            yield self._next(block)
        if rest and not self._is_skipped:
            yield self._next(rest)
            self.lines += not rest.endswith(b"\n")

    def _next(self, block: bytes) -> tuple[int, bytes]:
        if b"\0" in block:
            block = block.translate(None, b"\0")
        if b"\x1b" in block:
            block = _ESCAPES.sub(b"", block)
        if not self.lines:
            self.job_begins = _JOB_START in block
        first = self.lines + 1
        self._tail = self._tail[-BLOCK_BYTES // 4 :] + block[-BLOCK_BYTES:]
        self._has_text = self._has_text or bool(block.strip())
        self.lines += block.count(b"\n")
        return first, block

    def skip(self) -> None:
        """Read no further block; the end of the log is then `cut`."""
        self._is_skipped = True

    @property
    def end(self) -> End:
        """Return how the log ends; call it after the last block."""
        if not self._has_text:
            return "empty"
        if self._is_skipped:
            return "cut"
        return "whole" if self._tail.endswith(b"\n") else "cut"

    @property
    def job_ends(self) -> bool:
        """Return whether the last lines are those of GitHub's runner."""
        return _JOB_END in self._tail


def _lines_with(block: bytes, trigger: bytes) -> Iterator[int]:
    """Yield the starts of the lines that contain a trigger."""
    position = block.find(trigger)
    while position >= 0:
        yield block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        position = block.find(trigger, end) if end >= 0 else -1


def _add_lines_after(
    block: bytes, start: int, lines: int, rows: list[int], candidates: dict[int, set[int]]
) -> None:
    """Add the `lines` lines after the line at `start`; -1 for those at the start of the block."""
    if start < 0 and block:
        candidates.setdefault(0, set()).update(rows)
        start, lines = 0, lines - 1
    for _ in range(lines):
        start = block.find(b"\n", start) + 1
        if not 0 < start < len(block):
            return
        candidates.setdefault(start, set()).update(rows)


def _compiled(row: LogPattern) -> re2._Regexp:
    try:
        return compile_pattern(row.pattern)
    except ValueError as error:
        fix = "no lookaround, no backreference"
        raise UsageError(str(error), where=f"metrics.{row.name}.pattern", fix=fix) from None


def compile_pattern(pattern: str) -> re2._Regexp:
    """Compile a pattern for text.

    Raises:
        ValueError: RE2 refuses the pattern; the text is the reason.
    """
    try:
        return re2.compile(pattern, quiet_options())
    except re2.error as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        what = "has no lookaround" if _LOOKAROUND.search(detail) else "does not know this pattern"
        raise ValueError(f"RE2 {what}: {detail}") from None


def quiet_options() -> re2.Options:
    """Return options with which RE2 raises errors without printing them."""
    options = re2.Options()
    options.log_errors = False
    return options
