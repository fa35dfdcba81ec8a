"""Reading a file while another program appends to it: lines of a record, and a process's log."""

from __future__ import annotations

import contextlib
import os
from typing import Final, Iterator

from ciguard.codec.record.lines import MAX_LINE_BYTES
from ciguard.run.platforms.base import EOF_IS_STICKY, FILE_FLAGS

CHUNK_BYTES = 1 << 18
# More of a log is cut: a test that prints without end would fill the artifact that the record
# travels in. People read the end, and search the beginning.
MAX_LOG_BYTES: Final = 16 << 20
FIRST_LOG_BYTES, LAST_LOG_BYTES = 4 << 20, 8 << 20


class Tail:
    """The end of a growing file, through one descriptor that is kept.

    `lines_read` counts the ends of lines that were given out, so that a reader of the finished
    file can find the same place.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.lines_read = 0
        self._descriptor = -1
        self._partial_line = b""

    def is_removed(self) -> bool:
        """Whether the file that is read was removed."""
        return self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0

    def chunks(self) -> Iterator[bytes]:
        """What was appended since the last call, in pieces; nothing where there is no file yet."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | FILE_FLAGS)
            except OSError:  # not there yet, or no descriptor is free
                return
        while True:
            piece = os.read(self._descriptor, CHUNK_BYTES)
            if not piece:
                if EOF_IS_STICKY:
                    os.lseek(self._descriptor, 0, os.SEEK_CUR)
                return
            yield piece

    def lines(self) -> Iterator[bytes]:
        """New whole lines without their ends; one longer than any honest line comes out empty."""
        for piece in self.chunks():
            *complete, rest = (self._partial_line + piece).split(b"\n")
            # Kept longer than the limit by one chunk at most: a line without end fills no memory.
            self._partial_line = rest[: MAX_LINE_BYTES + 1]
            for line in complete:
                self.lines_read += 1
                yield line if len(line) <= MAX_LINE_BYTES else b""

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Log(Tail):
    """What a tested process printed, as it grows: the file is its own until it is closed."""

    _failed = False

    def chunks(self) -> Iterator[bytes]:
        """As of every file; one that cannot be read says so, once."""
        if self._failed:
            return
        try:
            yield from super().chunks()
        except OSError as error:
            self._failed = True
            what = f"\n[ciguard: {self.name} cannot be read: {error.strerror or error}]\n"
            yield what.encode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Give the descriptor back, and shorten the file: no reader is left."""
        with contextlib.suppress(OSError):
            super().close()
        self.shorten()

    def shorten(self) -> None:
        """Cut the middle out of a file that is larger than `MAX_LOG_BYTES`."""
        # A full disk: then it stays as it is.
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
