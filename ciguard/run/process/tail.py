"""Reading a file while another program appends to it: whole lines only, each once."""

from __future__ import annotations

import os
from typing import Iterator

from ciguard.codec.record.lines import MAX_LINE_BYTES
from ciguard.run.platforms.base import EOF_IS_STICKY, FILE_FLAGS

CHUNK_BYTES = 1 << 18


class Tail:
    """The end of a growing file, through one descriptor that is kept.

    `seen` counts the ends of lines that were given out, so that a reader of the finished file can
    find the same place.
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
