"""What a file of another program must be able to do to be read. Pure."""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.model import Result

# Kinds of events with which a leg tells of result files in its record, and of those that are not.
FILE: Final = "result_file"
RESULTS_LEFT_OUT: Final = "results_left_out"
HEAD_BYTES: Final = 4096
MAX_MESSAGE_BYTES: Final = 4096
GZIP: Final = b"\x1f\x8b"
MAX_UNPACKED_BYTES: Final = 1 << 30
# What a truncated or damaged gzip stream raises while it is read.
GZIP_ERRORS: Final = (gzip.BadGzipFile, EOFError, zlib.error)

# What may stand before the first element: declarations, comments, a document type.
_BEFORE_ROOT: Final = re.compile(
    rb"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\])?[^>]*>)", re.DOTALL
)
_ROOT: Final = re.compile(rb"\s*<([^\s/<>!?]{1,80})")


class ResultFormat(Protocol):
    """Results of another program."""

    NAME: str  # as a person calls it

    def sniff(self, head: bytes) -> bool:
        """Say whether a file whose first 4 KiB (unpacked) are `head` is of this format."""

    def read(self, stream: IO[bytes], source: str) -> Iterator[Result]:
        """Yield results in file order, in constant memory; raise InputError at `source`."""


class ExternalName(NamedTuple):
    """How a file of another program spells a key. Without a name: the total of a file."""

    classname: str | None = None
    name: str | None = None
    file: str | None = None


UNSPELLED: Final = ExternalName()


@dataclass(slots=True)
class UnpackBudget:
    """What the gzip files of one call may still unpack to; a bomb of many files ends here."""

    left_bytes: int = MAX_UNPACKED_BYTES

    def charge(self, size: int, source: str) -> None:
        """Count bytes that were unpacked.

        Raises:
            InputError: more than was left.
        """
        self.left_bytes -= size
        if self.left_bytes < 0:
            what = f"gzip files of this run unpack to more than {MAX_UNPACKED_BYTES} bytes"
            raise InputError(what, where=source, fix="write fewer or smaller files")


class _ChargedGzip(gzip.GzipFile):
    """A gzip file of which each byte that is read is counted, also the second time."""

    def __init__(self, stream: IO[bytes], source: str, budget: UnpackBudget) -> None:
        super().__init__(fileobj=stream)
        self._source, self._budget = source, budget

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self._budget.charge(len(piece), self._source)
        return piece


def gunzip(stream: IO[bytes], source: str = "", budget: UnpackBudget | None = None) -> IO[bytes]:
    """The stream as it was before gzip; `stream` can seek.

    Args:
        budget: of all files of a call; reading raises InputError at `source` where it is used up.
    """
    packed = stream.read(len(GZIP)) == GZIP
    stream.seek(0)
    if not packed:
        return stream
    if budget is None:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    return cast("IO[bytes]", _ChargedGzip(stream, source, budget))


def peek(stream: IO[bytes], source: str) -> bytes:
    """The first 4 KiB; the stream stays where it was, at its start."""
    try:
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    return head


def read_limited(stream: IO[bytes], source: str, largest_bytes: int) -> bytes:
    """All of a stream that is read whole.

    Raises:
        InputError: it is larger than `largest_bytes`, or damaged.
    """
    try:
        content = stream.read(largest_bytes + 1)
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    if len(content) > largest_bytes:
        raise InputError(f"larger than {largest_bytes} bytes", where=source, fix="split it")
    return content


def xml_root(head: bytes) -> str:
    """The first element of XML that begins so, "" where there is none; UTF-16 as well."""
    text = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")
    while before := _BEFORE_ROOT.match(text):
        text = text[before.end() :]
    root = _ROOT.match(text)
    return root[1].decode("utf-8", "replace") if root else ""


def damaged_gzip(error: Exception, source: str) -> InputError:
    """The one text for it."""
    return InputError(f"damaged gzip: {error}", where=source, fix="write the file again")


def truncate_message(message: str) -> str | None:
    """A message as a record may hold it; None where it says nothing."""
    text = message.strip()
    if len(text) * 4 <= MAX_MESSAGE_BYTES:
        return text or None
    return text.encode("utf-8", "surrogatepass")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
