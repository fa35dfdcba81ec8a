"""XML result files of other programs: bytes -> results, streamed through expat. Pure.

Common to all XML formats: constant memory; entities and document types are refused, as attacks or
needless for results; results that precede an error are yielded first. A file may itself show that
it is incomplete, as by its counters (`set_incomplete`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice
from typing import IO, Any, Final, NoReturn, TypeVar
from xml.parsers import expat

from ciguard.codec.mutable_twin import mutable_twin
from ciguard.codec.results.base import MAX_MESSAGE_BYTES
from ciguard.codec.unpack_limits import GZIP_ERRORS, damaged_gzip
from ciguard.errors import InputError
from ciguard.model import Result

T = TypeVar("T")

CHUNK_BYTES: Final = 1 << 16
# Expat reads an unfinished token again with every chunk: a huge tag takes quadratic time.
MAX_TOKEN_BYTES: Final = 4 << 20
MAX_BYTES: Final = 1 << 32  # unpacked: a gzip bomb ends here
MAX_S: Final = 35 * 24 * 3600  # limit of a run on GitHub: a larger time is in another unit
MAX_DIGITS: Final = 12  # of a counter

# Errors by characters that XML forbids and programs write: colours of a terminal in a message.
# A search in every file would take 5 % longer, so a file is read again after such an error.
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

# Errors of expat at the beginning of a second document, or at a late declaration.
_SECOND_DOCUMENT_ERRORS: Final = frozenset(
    {
        expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT],
        expat.errors.codes[expat.errors.XML_ERROR_MISPLACED_XML_PI],
    }
)

MutableResult: Final = mutable_twin(Result)


class XmlReader:
    """Expat's handlers of a format, and the results since the last `drain`.

    A format implements `start` and `end`. `incomplete` is the error of a file that shows itself
    that it is incomplete.
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
        self.parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse
        parser.EntityDeclHandler = self.refuse

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the begin of an element."""
        raise NotImplementedError

    def end(self, tag: str) -> None:
        raise NotImplementedError

    def skip(self, tags: Collection[str]) -> None:
        """Skip the content of the element that begins, one of `tags`, which must not be nested.

        Without a handler, expat makes no attributes.
        """
        self.skipped = tags
        self.parser.StartElementHandler = None
        self.parser.EndElementHandler = self.end_skipped

    def end_skipped(self, tag: str) -> None:
        """Handle the end of a skipped element, or of an element in it."""
        if tag in self.skipped:
            self.parser.StartElementHandler = self.start
            self.parser.EndElementHandler = self.end

    def begin_text(self, tag: str) -> None:
        """Gather the text of the element that begins."""
        self.text_element, self.text = tag, ""
        self.parser.CharacterDataHandler = self.gather

    def gather(self, text: str) -> None:
        """Add text of the element, up to the length of a message."""
        if len(self.text) < MAX_MESSAGE_BYTES:
            self.text += text[:MAX_MESSAGE_BYTES]

    def end_text(self) -> None:
        """Stop gathering at the end of the element."""
        self.parser.CharacterDataHandler = None
        self.text_element = None

    def finish_open_case(self) -> None:
        """Report an open case before an error ends the reading, if its result is known."""

    def drain(self) -> list[Result]:
        """Return the results since the last call."""
        results, self.found_results = self.found_results, []
        return results

    def position(self, line: int | None = None, column: int | None = None) -> str:
        """Return the position of the parser as source:line:column, both counted from 1."""
        line = self.parser.CurrentLineNumber if line is None else line
        column = self.parser.CurrentColumnNumber if column is None else column
        return f"{self.source}:{line}:{column + 1}"

    def refuse(self, *_: Any) -> None:
        """Refuse a document type or an entity."""
        what = "a document type or an entity is declared"
        fix = "results need none: write the file without"
        raise InputError(what, where=self.position(), fix=fix)

    def reject_root(self, tag: str, program: str, *roots: str) -> NoReturn:
        """Raise the error for XML of another program."""
        what = f"XML with the root <{tag:.80}>, which is not {program}'s"
        raise InputError(what, where=self.position(), fix=f"its root is <{'> or <'.join(roots)}>")

    def check_spelling(self, tag: str, known_names: Mapping[str, str]) -> None:
        """Refuse an element that differs from an element of the format by a prefix or its case.

        If it were skipped, its content would be lost, and a failed case would count as passed.

        Args:
            known_names: the format's elements by their name in lower case.
        """
        expected = known_names.get(tag.rpartition(":")[2].lower(), tag)
        if expected != tag:
            what = f"<{tag:.80}> is not how <{expected}> is spelled, so what it says is not known"
            fix = f"let its writer spell it <{expected}>, without a prefix"
            raise InputError(what, where=self.position(), fix=fix)

    def lookup(self, name: str, word: str, table: Mapping[str, T]) -> T:
        """Return the value of a word of the format; raise InputError for an unknown word."""
        if word not in table:
            what = f"{name} {word!r:.60} is none that is known"
            raise InputError(what, where=self.position(), fix=f"there are: {', '.join(table)}")
        return table[word]

    def count(self, attributes: Mapping[str, str], name: str) -> int:
        """Return a counter; 0 if it is absent or empty.

        Raises:
            InputError: the counter is no number, so missing results would not be noticed.
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
        """Set the file incomplete for the first counter that is larger than the number found.

        Args:
            counters: (name, counter, number found).
        """
        for word, counted, found in counters:
            if counted > found:
                self.set_incomplete(f"its counters say {counted:,} {word}, and it holds {found:,}")
                return

    def set_incomplete(self, what: str) -> None:
        """Set the error of an incomplete file; the last call, of the outermost element, counts."""
        fix = "look at the log of its job: was the writer of this file stopped? Run it again"
        self.incomplete = InputError(what, where=self.position(), fix=fix)


def seconds(text: str | None) -> float | None:
    """Parse a time; None if not measured: absent, no number, negative, NaN or beyond `MAX_S`."""
    if not text:
        return None
    try:
        value = float(text.replace(",", "") if "," in text else text)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_S else None


class _Unclean(Exception):
    """An error that a character which XML forbids may have caused."""


def _feed(reading: XmlReader, chunk: bytes, *, cleaned: bool) -> None:
    """Parse a chunk; an empty chunk is the end.

    Raises:
        InputError: with line and column.
        _Unclean: the file may be read without forbidden characters.
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
    """Yield the chunks of a stream, the last one empty; cleaned of characters that XML forbids."""
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
    """Replace characters that XML forbids, except in UTF-16."""
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
    """Yield a file's results in its order, in constant memory, also those that precede an error.

    Args:
        stream: can seek, and is at its start.
        make_reader: returns the format's handlers for a file's name; called for each reading.

    Raises:
        InputError: malformed or truncated (with line and column), a document type or entity, a
            token larger than 4 MiB, damaged gzip; or, after all results, an incomplete file.
    """
    yielded = 0
    try:
        chunks = _chunks(stream, source, largest_bytes, cleaned=False)
        for result in _read(make_reader(source), chunks, cleaned=False):
            yielded += 1
            yield result
    except _Unclean:
        stream.seek(0)
        chunks = _chunks(stream, source, largest_bytes, cleaned=True)
        yield from islice(_read(make_reader(source), chunks, cleaned=True), yielded, None)


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
