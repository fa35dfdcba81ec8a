"""XML of other programs: bytes -> results, streamed through expat in constant memory. Pure.

What all formats have in common: entities and document types are refused, for they are attacks or
nothing that a result needs; what precedes an error is given first. A file may say of itself that it
is not whole (`incomplete`).
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, Final
from xml.parsers import expat

from ciguard.codec.mutable_twin import mutable_twin
from ciguard.codec.results.base import MAX_MESSAGE_BYTES
from ciguard.codec.unpack_limits import GZIP_ERRORS, damaged_gzip
from ciguard.errors import InputError
from ciguard.model import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

CHUNK_BYTES: Final = 1 << 16
# Expat reads an unfinished token again with every chunk: one huge tag takes time by its square.
MAX_TOKEN_BYTES: Final = 4 << 20
MAX_BYTES: Final = 1 << 32  # unpacked: a gzip bomb ends here
MAX_S: Final = 1e9  # 31 years: what claims more was not measured
MAX_DIGITS: Final = 12  # of a counter

# Characters that XML forbids and programs write all the same: colours of a terminal in a message.
# To look for them in every file would cost 5 %, so it is read again when expat has met one.
_SKIPPED_ERRORS: Final = frozenset(
    {
        expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN],
        expat.errors.codes[expat.errors.XML_ERROR_BAD_CHAR_REF],
    }
)
_FORBIDDEN: Final = bytes([*range(9), 11, 12, *range(14, 32)])
_ALLOWED: Final = bytes.maketrans(_FORBIDDEN, b"?" * len(_FORBIDDEN))
_REFERENCE: Final = re.compile(
    rb"&#(?:x0{0,6}(?:[0-8bcefBCEF]|1[0-9a-fA-F])|0{0,6}(?:[0-8]|1[124-9]|2[0-9]|3[01]));"
)
_LONGEST_REFERENCE: Final = 12

# What expat says where one document has ended and another begins, or a declaration comes late.
_SECOND_DOCUMENT_ERRORS: Final = frozenset(
    {
        expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT],
        expat.errors.codes[expat.errors.XML_ERROR_MISPLACED_XML_PI],
    }
)

MutableResult: Final = mutable_twin(Result)


class XmlReader:
    """Expat's handlers of one format, and the results they found since they were last taken.

    A format begins with `start` and `end`. `incomplete` is what the file itself says is not in it.
    """

    parser: expat.XMLParserType

    def __init__(self, source: str) -> None:
        self.source = source
        self.found_results: list[Result] = []
        self.incomplete: InputError | None = None
        self.skipped: Collection[str] = ()
        self.text_element: str | None = None  # the element whose text is gathered
        self.text = ""

    def attach(self, parser: expat.XMLParserType) -> None:
        """Hear what this parser finds."""
        self.parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse
        parser.EntityDeclHandler = self.refuse

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        raise NotImplementedError

    def end(self, tag: str) -> None:
        """An element ends."""
        raise NotImplementedError

    def skip(self, tags: Collection[str]) -> None:
        """Pass over what stands in the element that begins, one of `tags`, and nests none of them.

        Expat makes no attributes where no handler is.
        """
        self.skipped = tags
        self.parser.StartElementHandler = None
        self.parser.EndElementHandler = self.end_skipped

    def end_skipped(self, tag: str) -> None:
        """An element ends in what is passed over, or that itself."""
        if tag in self.skipped:
            self.parser.StartElementHandler = self.start
            self.parser.EndElementHandler = self.end

    def begin_text(self, tag: str) -> None:
        """Gather the text of the element that begins."""
        self.text_element, self.text = tag, ""
        self.parser.CharacterDataHandler = self.gather

    def gather(self, text: str) -> None:
        """Text of the element; as much as a message may have."""
        if len(self.text) < MAX_MESSAGE_BYTES:
            self.text += text[:MAX_MESSAGE_BYTES]

    def end_text(self) -> None:
        """The element ends."""
        self.parser.CharacterDataHandler = None
        self.text_element = None

    def finish_open_case(self) -> None:
        """Nothing more can be read: what is known of an open case may be told."""

    def drain(self) -> list[Result]:
        """What was found since the last time."""
        found, self.found_results = self.found_results, []
        return found

    def position(self, line: int | None = None, column: int | None = None) -> str:
        """Where the parser is: source:line:column, both counted from 1."""
        line = self.parser.CurrentLineNumber if line is None else line
        column = self.parser.CurrentColumnNumber if column is None else column
        return f"{self.source}:{line}:{column + 1}"

    def refuse(self, *_: Any) -> None:
        """Refuse a document type or an entity."""
        what = "a document type or an entity is declared"
        fix = "results need none: write the file without"
        raise InputError(what, where=self.position(), fix=fix)

    def check_spelling(self, tag: str, known_names: Mapping[str, str]) -> None:
        """Refuse an element that is one of the format's but for a prefix or its case.

        Passed over, what it says would be lost, and a case that failed would have passed.

        Args:
            known_names: the format's elements by their name in lower case.
        """
        expected = known_names.get(tag.rpartition(":")[2].lower(), tag)
        if expected != tag:
            what = f"<{tag:.80}> is not how <{expected}> is spelled, so what it says is not known"
            fix = f"let its writer spell it <{expected}>, without a prefix"
            raise InputError(what, where=self.position(), fix=fix)

    def count(self, attributes: Mapping[str, str], name: str) -> int:
        """A counter; 0 where it is absent or empty.

        Raises:
            InputError: it cannot be read, so nobody knows what the file lacks.
        """
        text = attributes.get(name, "")
        digits = text.replace(",", "").strip()
        if digits and not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
            what = f"the counter {name}={text!r:.60} is no number"
            raise InputError(
                what, where=self.position(), fix="let its writer count, or leave it out"
            )
        return int(digits or 0)

    def compare_counters(self, *counters: tuple[str, int, int]) -> None:
        """Remember the first counter that is larger than what was found.

        Args:
            counters: what is counted, the counter, and how many were found.
        """
        for word, counted, found in counters:
            if counted > found:
                self.set_incomplete(f"its counters say {counted:,} {word}, and it holds {found:,}")
                return

    def set_incomplete(self, what: str) -> None:
        """Remember that the file itself says it is not whole; the last, outermost word counts."""
        fix = "look at the log of its job: was the writer of this file stopped? Run it again"
        self.incomplete = InputError(what, where=self.position(), fix=fix)


def seconds(text: str | None, per_second: float = 1.0) -> float | None:
    """A time; None where none was measured: absent, no number, negative, NaN or beyond measure."""
    if not text:
        return None
    try:
        value = float(text.replace(",", "") if "," in text else text) / per_second
    except ValueError:
        return None
    return value if 0 <= value <= MAX_S else None


class _Unclean(Exception):
    """What may be a character that XML forbids."""


def _feed(reading: XmlReader, chunk: bytes, *, cleaned: bool) -> None:
    """Parse a chunk, an empty one being the end.

    Raises:
        InputError: what is wrong, with line and column.
        _Unclean: once cleaned it may go on.
    """
    try:
        reading.parser.Parse(chunk, not chunk)
    except expat.ExpatError as error:
        if error.code in _SKIPPED_ERRORS and not cleaned:
            raise _Unclean from None
        what = f"malformed XML: {expat.ErrorString(error.code)}"
        where = reading.position(error.lineno, error.offset)
        fix = "was its writer killed?"
        if error.code in _SECOND_DOCUMENT_ERRORS:
            fix = "write a file for each document"
        raise InputError(what, where=where, fix=fix) from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know
        raise InputError(f"malformed XML: {error}", where=reading.position()) from None


def _chunks(
    stream: IO[bytes], source: str, largest_bytes: int, *, cleaned: bool
) -> Iterator[bytes]:
    """A stream by chunks, of which the last is empty; cleaned, without what XML forbids."""
    pieces = iter(lambda: stream.read(CHUNK_BYTES), b"")
    remaining_bytes = largest_bytes
    try:
        for chunk in _without_forbidden(pieces) if cleaned else pieces:
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise InputError("larger than any honest file", where=source, fix="split it")
            yield chunk
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    yield b""


def _without_forbidden(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Replace characters that XML forbids; what is not ASCII byte by byte (UTF-16) stays."""
    is_bytewise: bool | None = None
    possible_reference = b""
    for piece in chain(pieces, [b""]):
        if is_bytewise is None:
            is_bytewise = b"\0" not in piece[:4]
        chunk = piece
        if is_bytewise:
            chunk = (possible_reference + piece).translate(_ALLOWED)
            begin = chunk.rfind(b"&", -_LONGEST_REFERENCE)
            possible_reference = b""
            if begin > 0 and piece:
                chunk, possible_reference = chunk[:begin], chunk[begin:]
            chunk = _REFERENCE.sub(b"?", chunk) if b"&#" in chunk else chunk
        if chunk:
            yield chunk


def read(
    stream: IO[bytes],
    source: str,
    make_reader: Callable[[str], XmlReader],
    largest_bytes: int = MAX_BYTES,
) -> Iterator[Result]:
    """Yield a file's results in its order, in constant memory; what precedes an error is yielded.

    Args:
        stream: can seek, and is at its start.
        make_reader: the format's handlers, for a file's name; asked again where it is read again.

    Raises:
        InputError: malformed or cut (with line and column), a document type or entity, a token
            larger than 4 MiB, damaged gzip; or, behind all results, what the file says it lacks.
    """
    given = 0
    try:
        chunks = _chunks(stream, source, largest_bytes, cleaned=False)
        for one in _read(make_reader(source), chunks, cleaned=False):
            given += 1
            yield one
    except _Unclean:
        stream.seek(0)
        chunks = _chunks(stream, source, largest_bytes, cleaned=True)
        yield from islice(_read(make_reader(source), chunks, cleaned=True), given, None)


def _read(reading: XmlReader, chunks: Iterator[bytes], *, cleaned: bool) -> Iterator[Result]:
    parser = expat.ParserCreate()
    reading.attach(parser)
    fed_bytes = 0
    for chunk in chunks:
        fed_bytes += len(chunk)
        try:
            _feed(reading, chunk, cleaned=cleaned)
        except InputError:
            reading.finish_open_case()
            yield from reading.drain()
            raise
        yield from reading.drain()
        if fed_bytes - parser.CurrentByteIndex > MAX_TOKEN_BYTES:
            what = f"more than {MAX_TOKEN_BYTES >> 20} MiB without an end of one tag"
            raise InputError(what, where=reading.position(), fix="no honest result is that long")
    if reading.incomplete is not None:
        raise reading.incomplete
