"""Reads the values of a text log in constant memory, at the speed of one search for all patterns.

One `re2.Set` of the patterns' triggers looks at blocks of 64 KiB; a pattern is tried on a line that
holds one of its triggers. Colours, NUL (of UTF-16), the time at the start of a line of GitHub and
a carriage return are taken out first, and bytes that are no UTF-8 are replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Literal

import re2

from ciguard.errors import UsageError
from ciguard.logs.allocator_blocks import transient_memory
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.re2_syntax import compile_pattern, quiet_options
from ciguard.logs.values import KeyField, LogValue, NotANumber, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.logs.pattern import LogPattern

BLOCK_BYTES: Final = 1 << 16
LINE_BYTES: Final = 1 << 21  # a longer line is read in parts: a match across two is not found
CONTEXT_LINES: Final = 20  # an allocator's block has 13
MAX_VALUES: Final = 50_000  # of one log; about 20 MB

_ESCAPES: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
_TIME: Final = re.compile(r"\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z ")
# Of a job's log by GitHub's runner: its first lines, and its last ones.
_JOB_START: Final = b"Current runner version:"
_JOB_END: Final = b"Cleaning up orphan processes"

End = Literal["whole", "cut", "empty", "missing"]


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a log holds.

    Attributes:
        values: in the log's order, then those that follow from them.
        unreadable: what stands in the place of a number.
        end: `cut` if the last line is not ended, a job's log has no end, or there are too many
            values: then nothing after the block of the last one is read.
        lines: number of lines that were read.
        job_begins, job_ends: as GitHub's runner begins and ends the log of a job.
    """

    values: tuple[LogValue, ...]
    unreadable: tuple[NotANumber, ...]
    end: End
    lines: int
    job_begins: bool = False
    job_ends: bool = False

    @property
    def is_whole_job(self) -> bool:
        """It has all of a job."""
        return self.end == "whole" and self.job_begins and self.job_ends


MISSING: Final = LogReading((), (), "missing", 0)


def combine(readings: Sequence[LogReading]) -> LogReading:
    """The logs of several steps, or of several jobs, as one; a step may well print nothing.

    Args:
        readings: at least one, in their order.
    """
    ends = {reading.end for reading in readings}
    begins, is_ended = (
        any(getattr(one, name) for one in readings) for name in ("job_begins", "job_ends")
    )
    is_cut = "cut" in ends or (begins and not is_ended)
    return LogReading(
        tuple(one for reading in readings for one in reading.values),
        tuple(one for reading in readings for one in reading.unreadable),
        "cut" if is_cut else "whole" if "whole" in ends else "empty",
        sum(reading.lines for reading in readings),
        begins,
        is_ended,
    )


class LogReader:
    """A table of patterns, compiled; one reader serves any number of logs.

    Raises:
        UsageError: RE2 knows no such pattern.
    """

    def __init__(self, patterns: Sequence[LogPattern] = PATTERNS) -> None:
        self._rows = [(row, _compiled(row)) for row in patterns]
        self._dependents: dict[str, list[int]] = {}
        self._by_trigger: dict[bytes, list[int]] = {}
        for number, row in enumerate(patterns):
            if row.needs_context:
                self._dependents.setdefault(row.context, []).append(number)
            for trigger in row.triggers:
                self._by_trigger.setdefault(trigger.encode(), []).append(number)
        self._triggers = list(self._by_trigger)
        self._set = re2.Set.SearchSet(_trigger_options())
        for one in self._triggers:
            self._set.Add(re2.escape(one))
        self._set.Compile()

    def read(
        self, stream: IO[bytes], job: str = "", step: str = "", step_number: int = 0
    ) -> LogReading:
        """Read a whole log.

        Args:
            job, step, step_number: where the log is from, for the places of its values. The log
                of a step does not end as that of its job.
        """
        values: list[LogValue] = []
        unreadable: list[NotANumber] = []
        log = _Blocks(stream)
        for one in self._values(log, Place(job, step, 0, step_number)):
            if isinstance(one, NotANumber):
                unreadable.append(one)
            else:
                values.append(one)
            if len(values) + len(unreadable) == MAX_VALUES:
                log.skip()
        values.extend(transient_memory(values))
        end = log.end
        if end == "whole" and log.job_begins and not log.job_ends and not step:
            end = "cut"
        found = (tuple(values), tuple(unreadable), end, log.lines)
        return LogReading(*found, log.job_begins, log.job_ends)

    def _values(self, log: _Blocks, here: Place) -> Iterator[LogValue | NotANumber]:
        context = _Context()
        for first, block in log:
            number, counted = first, 0
            for start, rows in self._candidates(block, context, first):
                number += block.count(b"\n", counted, start)
                counted = start
                end = block.find(b"\n", start)
                text = block[start : end if end >= 0 else None].decode("utf-8", "replace")
                place = Place(here.job, here.step, number, here.step_number)
                yield from self._match(text, rows, context, place)

    def _candidates(
        self, block: bytes, context: _Context, first: int
    ) -> list[tuple[int, list[int]]]:
        """Starts of lines that may match, in their order, each with the rows to try."""
        found: dict[int, set[int]] = {}
        for index in self._set.Match(block) or ():
            trigger = self._triggers[index]
            rows = self._by_trigger[trigger]
            for start in _lines_with(block, trigger):
                found.setdefault(start, set()).update(rows)
        for start in sorted(found):
            for number in sorted(found[start]):
                if dependents := self._dependents.get(self._rows[number][0].name):
                    _watch(block, start, CONTEXT_LINES, dependents, found)
        # Of a context that began in an earlier block.
        if (left := context.last_line - first + 1) > 0 and context.name in self._dependents:
            _watch(block, -1, left, self._dependents[context.name], found)
        return [(start, sorted(rows)) for start, rows in sorted(found.items())]

    def _match(
        self, text: str, rows: list[int], context: _Context, place: Place
    ) -> Iterator[LogValue | NotANumber]:
        start = _TIME.match(text)
        # What a progress bar overwrites is a line of its own.
        for part in text[start.end() if start else 0 :].split("\r"):
            for number in rows if part else ():
                row, compiled = self._rows[number]
                inside = row.context == context.name and place.line <= context.last_line
                if row.needs_context and not inside:
                    continue
                if (match := compiled.search(part)) is None:
                    continue
                if row.kind == "context":
                    context.open(row.name, row.key_fields(match.groupdict()), place.line)
                else:
                    keys = context.key if inside else ()
                    yield from row.values(match.groupdict(), place, keys)


@dataclass(slots=True)
class _Context:
    """The last line that says what the lines after it belong to."""

    name: str = ""
    key: tuple[KeyField, ...] = ()
    last_line: int = 0

    def open(self, name: str, key: tuple[KeyField, ...], line: int) -> None:
        self.name, self.key, self.last_line = name, key, line + CONTEXT_LINES


class _Blocks:
    """A log as clean blocks of whole lines, each with the number of its first line."""

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
        """Read no further block: the log is as good as cut."""
        self._is_skipped = True

    @property
    def end(self) -> End:
        """How the log ends, once it was read."""
        if not self._has_text:
            return "empty"
        if self._is_skipped:
            return "cut"
        return "whole" if self._tail.endswith(b"\n") else "cut"

    @property
    def job_ends(self) -> bool:
        """It ends as GitHub's runner ends the log of a job."""
        return _JOB_END in self._tail


def _lines_with(block: bytes, trigger: bytes) -> Iterator[int]:
    """Starts of the lines that hold a text."""
    at = block.find(trigger)
    while at >= 0:
        yield block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        at = block.find(trigger, end) if end >= 0 else -1


def _watch(
    block: bytes, start: int, lines: int, rows: list[int], found: dict[int, set[int]]
) -> None:
    """Add the lines after the one at `start`; those from the block's start where it is -1."""
    if start < 0 and block:
        found.setdefault(0, set()).update(rows)
        start, lines = 0, lines - 1
    for _ in range(lines):
        start = block.find(b"\n", start) + 1
        if not 0 < start < len(block):
            return
        found.setdefault(start, set()).update(rows)


def _compiled(row: LogPattern) -> re2._Regexp:
    try:
        return compile_pattern(row.pattern)
    except ValueError as error:
        fix = "no lookaround, no backreference"
        raise UsageError(str(error), where=f"metrics.{row.name}.pattern", fix=fix) from None


def _trigger_options() -> re2.Options:
    options = quiet_options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes, of any encoding
    return options
