"""JUnit XML, as many programs write it: bytes -> results, streamed through expat.

There is no standard; what is read here is the part on which the writers agree: `testcase` with
`classname`, `name`, `time`, `file`, `line`, and in it `failure`, `error` or `skipped`. Entities and
document types are refused: they are attacks, or nothing that a result needs. Pure.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, make_dataclass
from typing import IO, TYPE_CHECKING, Any, Final
from xml.parsers import expat

from ciguard.codec.base import GZIP_ERRORS, MAX_MESSAGE_BYTES, clipped, damaged_gzip
from ciguard.errors import InputError
from ciguard.model import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.model import Ending, Outcome

CHUNK_BYTES: Final = 1 << 16
# Expat reads an unfinished token again with every chunk: one huge tag takes time by its square.
MAX_TOKEN_BYTES: Final = 4 << 20
MAX_S: Final = 1e9  # 31 years: what claims more was not measured

_OUTCOME: Final[dict[str, Outcome]] = {
    "failure": "failed",
    "error": "errored",
    "skipped": "skipped",
}
_WORSE: Final = ("passed", "skipped", "failed", "errored")
# Earlier tries of a case that is reported once.
_TRIES: Final = frozenset({"flakyFailure", "flakyError", "rerunFailure", "rerunError"})
_PLAIN: Final = 3  # attributes of a case that needs no second look: classname, name and time
_NOT_RUN: Final = frozenset({"notrun", "disabled", "suppressed", "ignored", "skipped"})
# Only where the whole type, or the start of the message, says it: a test may well fail because a
# request of its own timed out.
_TIMEOUT: Final = re.compile(
    r"(Failed: )?Timeout( \(?>|$)|Test (timeout of|timed out (after|in)) ", re.I
)
_TIMEOUT_TYPES: Final = frozenset({"timeout", "testtimeout", "timedout"})
_MEMORY_TYPES: Final = frozenset(
    {"outofmemory", "outofmemoryerror", "outofmemoryexception", "out_of_memory", "memoryerror"}
)

# A frozen dataclass of 25 fields takes 2.9 us to make, more than expat needs for a whole case. Its
# unfrozen twin has the same slots, so may turn into it, and takes 0.6 us.
_Draft: Final[Any] = make_dataclass(
    "_Draft",
    [
        (field.name, Any) if field.default is MISSING else (field.name, Any, field.default)
        for field in fields(Result)
    ],
    slots=True,
)


def sniff(head: bytes) -> bool:
    """XML whose first element is one of JUnit's."""
    text = head.replace(b"\0", b"")  # UTF-16 as well
    return re.search(rb"<(testsuites?|testcase)[\s/>]", text) is not None


def _seconds(text: str | None) -> float | None:
    """A time; None where none was measured: absent, no number, negative, NaN or beyond measure."""
    if not text:
        return None
    try:
        value = float(text.replace(",", "") if "," in text else text)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_S else None


def _ending(kind: str, message: str) -> Ending:
    last = kind.rpartition(".")[2].lower()
    if last in _TIMEOUT_TYPES or _TIMEOUT.match(message):
        return "timeout"
    return "out_of_memory" if last in _MEMORY_TYPES else "completed"


class _Reading:
    """Expat's handlers, and the results they found since they were last taken."""

    def __init__(self, parser: expat.XMLParserType, source: str) -> None:
        self.parser = parser
        self.source = source
        self.found: list[Result] = []
        self.suites: list[tuple[str, str | None]] = []  # name and file of those that are open
        self.case: dict[str, str] | None = None
        self.wanted: str | None = None  # the element whose text is gathered
        self.text = ""
        self.orphan = False  # the case stands for a suite that has none
        self.outcome: Outcome = "passed"
        self.ending: Ending = "completed"
        self.message: str | None = None
        self.tries = 1
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse
        parser.EntityDeclHandler = self.refuse

    def taken(self) -> list[Result]:
        """What was found since the last time."""
        found, self.found = self.found, []
        return found

    def place(self) -> str:
        """Where the parser is: source:line:column, both counted from 1."""
        parser = self.parser
        return f"{self.source}:{parser.CurrentLineNumber}:{parser.CurrentColumnNumber + 1}"

    def refuse(self, *_: Any) -> None:
        what = "a document type or an entity is declared"
        fix = "results need none: write the file without"
        raise InputError(what, where=self.place(), fix=fix)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            if self.case is not None:  # a case inside a case: neither is lost
                self.finish(self.case)
            self.begin(attributes)
        elif tag in _OUTCOME:
            self.judge(tag, attributes)
        elif tag in _TRIES:
            self.tries += 1
        elif tag == "testsuite":
            above = self.suites[-1][1] if self.suites else None
            self.suites.append((attributes.get("name", ""), attributes.get("file") or above))

    def end(self, tag: str) -> None:
        if tag == "testcase":
            if self.case is not None:
                self.finish(self.case)
        elif tag == self.wanted:
            self.message = clipped(_joined(self.message or "", self.text))
            self.parser.CharacterDataHandler = None
            self.wanted = None
            if self.orphan and self.case is not None:
                self.finish(self.case)
        elif tag == "testsuite":
            self.suites.pop()

    def begin(self, attributes: dict[str, str], *, orphan: bool = False) -> None:
        self.case = attributes
        self.orphan = orphan
        self.outcome, self.ending = "passed", "completed"
        self.message, self.tries = None, 1

    def judge(self, tag: str, attributes: dict[str, str]) -> None:
        """An element that says how the case, or without one its suite, ended: the worst counts."""
        if self.case is None:
            # What kept a whole suite from running is nobody's case, and must not be lost.
            self.begin({"name": self.suites[-1][0] if self.suites else ""}, orphan=True)
        outcome = _OUTCOME[tag]
        if self.wanted is not None or _WORSE.index(outcome) <= _WORSE.index(self.outcome):
            return
        message = attributes.get("message", "")
        self.outcome, self.message = outcome, clipped(message)
        if outcome != "skipped":
            self.ending = _ending(attributes.get("type", ""), message)
        self.wanted, self.text = tag, ""
        self.parser.CharacterDataHandler = self.gather

    def gather(self, text: str) -> None:
        if len(self.text) < MAX_MESSAGE_BYTES:
            self.text += text[:MAX_MESSAGE_BYTES]

    def finish(self, case: dict[str, str]) -> None:
        """The case was read to its end."""
        self.case = None
        classname, name = case.get("classname"), case.get("name")
        if self.outcome == "passed" and len(case) > _PLAIN and _was_not_run(case):
            self.outcome = "skipped"
        result = _Draft(
            unit=f"{classname}::{name}" if classname else name or "unnamed",
            outcome=self.outcome,
            ending=self.ending,
            wall_s=_seconds(case.get("time")),
            message=self.message,
            try_number=self.tries,
            classname=classname,
            name=name,
            file=case.get("file") or (self.suites[-1][1] if self.suites else None),
            line=_line(case["line"]) if "line" in case else None,
        )
        result.__class__ = Result
        self.found.append(result)


def _was_not_run(case: dict[str, str]) -> bool:
    return any(case.get(key, "").lower() in _NOT_RUN for key in ("status", "result"))


def _line(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _joined(message: str, text: str) -> str:
    return text if message.strip() in text else f"{message}\n{text}"


def _feed(reading: _Reading, chunk: bytes) -> None:
    """Parse a chunk, an empty one being the end.

    Raises:
        InputError: what is wrong, with line and column.
    """
    try:
        reading.parser.Parse(chunk, not chunk)
    except expat.ExpatError as error:
        what = f"malformed XML: {expat.ErrorString(error.code)}"
        where = f"{reading.source}:{error.lineno}:{error.offset + 1}"
        raise InputError(what, where=where, fix="was its writer killed?") from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know
        raise InputError(f"malformed XML: {error}", where=reading.place()) from None


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, in constant memory; what precedes an error is yielded.

    A unit is `classname::name`, or `name` alone. Measured by benchmarks/junit_read.py.

    Raises:
        InputError: malformed or cut (with line and column), a document type or entity, a token
            larger than 4 MiB, or damaged gzip.
    """
    parser = expat.ParserCreate()
    reading = _Reading(parser, source)
    fed = 0
    chunk = b" "
    while chunk:
        try:
            chunk = stream.read(CHUNK_BYTES)
        except GZIP_ERRORS as error:
            raise damaged_gzip(error, source) from error
        fed += len(chunk)
        try:
            _feed(reading, chunk)
        except InputError:
            yield from reading.taken()
            raise
        yield from reading.taken()
        if fed - parser.CurrentByteIndex > MAX_TOKEN_BYTES:
            what = f"more than {MAX_TOKEN_BYTES >> 20} MiB without an end of one tag"
            raise InputError(what, where=reading.place(), fix="no honest result is that long")
