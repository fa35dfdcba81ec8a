"""The protocol of a result format, and helpers that formats share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Final, NamedTuple, Protocol

from ciguard.codec.unpack_limits import GZIP_ERRORS, damaged_gzip
from ciguard.model import Result

# Kinds of events for result files in a leg's record, and for those that the leg left out.
FILE: Final = "result_file"
RESULTS_LEFT_OUT: Final = "results_left_out"
HEAD_BYTES: Final = 4096
MAX_MESSAGE_BYTES: Final = 4096

# A declaration, a comment or a document type before the first element.
_BEFORE_ROOT: Final = re.compile(
    rb"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\])?[^>]*>)", re.DOTALL
)
_ROOT: Final = re.compile(rb"\s*<([^\s/<>!?]{1,80})")


class ResultFormat(Protocol):
    """A format of result files: a module."""

    NAME: str  # for messages

    def sniff(self, head: bytes) -> bool:
        """Return whether a file whose first 4 KiB (unpacked) are `head` has this format."""

    def read(self, stream: IO[bytes], source: str) -> Iterator[Result]:
        """Yield results in file order, in constant memory; raise InputError at `source`."""


class ExternalName(NamedTuple):
    """The name of a test in a file of another program; without `name`, the total of a file."""

    classname: str | None = None
    name: str | None = None
    file: str | None = None


def peek(stream: IO[bytes], source: str) -> bytes:
    """Return the first 4 KiB of a stream, which stays at its start."""
    try:
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    return head


def xml_root(head: bytes) -> str:
    """Return the first element of XML, also in UTF-16; "" for none in `head`."""
    text = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")
    while before := _BEFORE_ROOT.match(text):
        text = text[before.end() :]
    root = _ROOT.match(text)
    return root[1].decode("utf-8", "replace") if root else ""


def truncate_message(message: str) -> str | None:
    """Truncate a message to the limit of a record; None for an empty message."""
    text = message.strip()
    if len(text) * 4 <= MAX_MESSAGE_BYTES:
        return text or None
    return text.encode("utf-8", "surrogatepass")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
