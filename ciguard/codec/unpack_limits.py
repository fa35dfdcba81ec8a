"""Limits of unpacking: a small file of another program may unpack to any size. Pure.

A zip archive has `ArchiveLimits`. All gzip files of one call share an `UnpackBudget`, so that a
thousand small result files together unpack to no more than one large file may.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from typing import IO, Final, cast

from ciguard.errors import InputError

MAX_UNPACKED_BYTES: Final = 1 << 30  # of all gzip files of a call
_GZIP: Final = b"\x1f\x8b"
# Errors of a truncated or damaged gzip stream while it is read.
GZIP_ERRORS: Final = (gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """The largest zip archive that is read."""

    members: int = 20_000
    member_bytes: int = 1 << 28
    bytes: int = 1 << 30  # of all members that are read


ARCHIVE_LIMITS: Final = ArchiveLimits()
PUSH_BYTES: Final = 1 << 25  # of a report job's push: 280,000 results, at 117 bytes each
PUSH_LIMITS: Final = ArchiveLimits(members=1_000, member_bytes=PUSH_BYTES, bytes=PUSH_BYTES)


@dataclass(slots=True)
class UnpackBudget:
    """The bytes to which the gzip files of one call may still unpack."""

    left_bytes: int = MAX_UNPACKED_BYTES


class _ChargedGzip(gzip.GzipFile):
    """A gzip file that charges each byte that is read, also when it is read again."""

    def __init__(self, stream: IO[bytes], source: str, budget: UnpackBudget) -> None:
        super().__init__(fileobj=stream)
        self._source, self._budget = source, budget

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self._budget.left_bytes -= len(piece)
        if self._budget.left_bytes < 0:
            what = f"gzip files of this run unpack to more than {MAX_UNPACKED_BYTES} bytes"
            raise InputError(what, where=self._source, fix="write fewer or smaller files")
        return piece


def gunzip(stream: IO[bytes], source: str = "", budget: UnpackBudget | None = None) -> IO[bytes]:
    """Return the unpacked stream of a gzip file; any other stream as it is. `stream` can seek.

    Args:
        budget: of all files of a call; reading raises InputError at `source` once it is used up.
    """
    packed = stream.read(len(_GZIP)) == _GZIP
    stream.seek(0)
    if not packed:
        return stream
    if budget is None:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    return cast("IO[bytes]", _ChargedGzip(stream, source, budget))


def read_limited(stream: IO[bytes], source: str, largest_bytes: int) -> bytes:
    """Read a whole stream.

    Raises:
        InputError: the stream is larger than `largest_bytes`, or damaged.
    """
    try:
        content = stream.read(largest_bytes + 1)
    except GZIP_ERRORS as error:
        raise damaged_gzip(error, source) from error
    if len(content) > largest_bytes:
        raise InputError(f"larger than {largest_bytes} bytes", where=source, fix="split it")
    return content


def damaged_gzip(error: Exception, source: str) -> InputError:
    """Return the error for a gzip stream that cannot be read."""
    return InputError(f"damaged gzip: {error}", where=source, fix="write the file again")
