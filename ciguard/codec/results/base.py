"""What a file of another program must be able to do to be read. Pure."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol

from ciguard.codec.unpack_limits import GZIP_ERRORS, damaged_gzip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.model import Result

# Kinds of events with which a leg tells of result files in its record, and of those that are not.
FILE: Final = "result_file"
RESULTS_LEFT_OUT: Final = "results_left_out"
HEAD_BYTES: Final = 4096
MAX_MESSAGE_BYTES: Final = 4096

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


def peek(stream: IO[bytes], source: str) -> bytes:
    """The first 4 KiB; the stream stays where it was, at its start."""
    try:
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    return head


def xml_root(head: bytes) -> str:
    """The first element of XML that begins so, "" where there is none; UTF-16 as well."""
    text = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")
    while before := _BEFORE_ROOT.match(text):
        text = text[before.end() :]
    root = _ROOT.match(text)
    return root[1].decode("utf-8", "replace") if root else ""


def truncate_message(message: str) -> str | None:
    """A message as a record may hold it; None where it says nothing."""
    text = message.strip()
    if len(text) * 4 <= MAX_MESSAGE_BYTES:
        return text or None
    return text.encode("utf-8", "surrogatepass")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
