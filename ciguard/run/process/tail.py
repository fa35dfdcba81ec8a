"""Readers of a file that another program appends to: a record's lines, and a process's log."""

from __future__ import annotations

import contextlib
import os
from typing import Final, Iterator

from ciguard.codec.record.lines import MAX_LINE_BYTES
from ciguard.run.platforms.base import EOF_IS_STICKY, FILE_FLAGS

CHUNK_BYTES = 1 << 18
# A longer log loses its middle: a test that prints without end would fill the artifact of the
# record. People read the end, and search the beginning.
MAX_LOG_BYTES: Final = 16 << 20
FIRST_LOG_BYTES, LAST_LOG_BYTES = 4 << 20, 8 << 20


class Tail:
    """A growing file, read through one descriptor that stays open.

    `lines_read` counts the line ends so far: a reader of the finished file finds the same position.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.lines_read = 0
        self._descriptor = -1
        self._partial_line = b""

    def is_removed(self) -> bool:
        return self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes appended since the last call, in pieces; none before the file exists."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | FILE_FLAGS)
            except OSError:  # the file does not exist yet, or no descriptor is free
                return
        while True:
            piece = os.read(self._descriptor, CHUNK_BYTES)
            if not piece:
                if EOF_IS_STICKY:
                    os.lseek(self._descriptor, 0, os.SEEK_CUR)
                return
            yield piece

    def lines(self) -> Iterator[bytes]:
        """Yield new whole lines without their ends; a line over MAX_LINE_BYTES as an empty one."""
        for piece in self.chunks():
            *complete, rest = (self._partial_line + piece).split(b"\n")
            # Cut, so that a line without end does not fill the memory.
            self._partial_line = rest[: MAX_LINE_BYTES + 1]
            for line in complete:
                self.lines_read += 1
                yield line if len(line) <= MAX_LINE_BYTES else b""

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Log(Tail):
    """The growing output of a tested process; `close` also shortens the file."""

    _failed = False

    def chunks(self) -> Iterator[bytes]:
        """Yield the new bytes; for a log that cannot be read, one line about the error."""
        if self._failed:
            return
        try:
            yield from super().chunks()
        except OSError as error:
            self._failed = True
            what = f"\n[ciguard: {self.name} cannot be read: {error.strerror or error}]\n"
            yield what.encode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Close the descriptor and shorten the file."""
        with contextlib.suppress(OSError):
            super().close()
        self.shorten()

    def shorten(self) -> None:
        """Cut the middle out of a file that is larger than `MAX_LOG_BYTES`."""
        # On a full disk the file stays unchanged.
        with contextlib.suppress(OSError):
            size = os.stat(self.path).st_size
            if size <= MAX_LOG_BYTES:
                return
            with open(self.path, "r+b") as stream:
                stream.seek(size - LAST_LOG_BYTES)
                last = stream.read()
                stream.seek(FIRST_LOG_BYTES)
                left_out = size - FIRST_LOG_BYTES - len(last)
                stream.write(
                    f"\n[ciguard: {left_out} bytes of output left out here]\n".encode("ascii")
                )
                stream.write(last)
                stream.truncate()
