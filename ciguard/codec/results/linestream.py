"""Lines of other programs' files, read in constant memory. Pure."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.base import GZIP_ERRORS, damaged_gzip
from ciguard.codec.results.xmlstream import MAX_BYTES
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE_BYTES: Final = 4 << 20
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_lines(stream: IO[bytes], source: str) -> Iterator[tuple[str, bytes]]:
    """Each line with its place, `source:line`.

    Raises:
        InputError: a line of 4 MiB, a file of 4 GiB, damaged gzip.
    """
    number, read_bytes = 0, 0
    while True:
        number += 1
        where = f"{source}:{number}"
        try:
            line = stream.readline(MAX_LINE_BYTES)
        except GZIP_ERRORS as error:
            raise damaged_gzip(error, where) from error
        read_bytes += len(line)
        if len(line) == MAX_LINE_BYTES or read_bytes > MAX_BYTES:
            raise InputError("larger than any honest line or file", where=where, fix="split it")
        if not line:
            return
        yield where, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
