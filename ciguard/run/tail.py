"""Reading a file while another program appends to it: whole lines only, each once."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Iterator

from ciguard.codec.record import MAX_LINE_BYTES
from ciguard.run.platforms.base import FILE_FLAGS, REMEMBERS_END

if TYPE_CHECKING:
    from typing import List

CHUNK_BYTES = 1 << 18


def copy(source: int, path: str, size: int) -> None:
    """Write the first bytes of what is behind a descriptor to a new file.

    Raises:
        OSError: the file cannot be written.
    """
    with open(path, "wb") as target:
        os.lseek(source, 0, os.SEEK_SET)
        while size > 0:
            piece = os.read(source, min(size, CHUNK_BYTES))
            if not piece:
                return
            size -= target.write(piece)


class Tail:
    """The end of a growing file, through one descriptor that is kept.

    `seen` counts the ends of lines that were given out, so that a reader of the finished file can
    find the same place.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.seen = 0
        self._descriptor = -1
        self._removed: List[int] = []  # of files that had this name; who writes there still does
        self._rest = b""

    def held(self) -> bool:
        """Open it if it is there: then its content is kept even if it is removed."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | FILE_FLAGS)
            except OSError:  # not there yet, or no descriptor is free
                return False
        return True

    def chunks(self) -> Iterator[bytes]:
        """What was appended since the last call, in pieces; nothing where there is no file yet."""
        self._hand_on()
        while self.held():
            piece = os.read(self._descriptor, CHUNK_BYTES)
            if not piece:
                if REMEMBERS_END:
                    os.lseek(self._descriptor, 0, os.SEEK_CUR)
                return
            yield piece

    def restore(self) -> None:
        """Write the file anew where it was removed, and read on there.

        Whoever wrote to it may go on with the old one, or have made one of the same name since.

        Raises:
            OSError: it cannot be written.
        """
        if self._descriptor < 0 or os.fstat(self._descriptor).st_nlink:
            return
        read, aside = os.lseek(self._descriptor, 0, os.SEEK_CUR), f"{self.path}.anew"
        copy(self._descriptor, aside, read)
        self._removed.append(self._descriptor)
        with contextlib.suppress(FileNotFoundError):
            self._removed.append(os.open(self.path, os.O_RDONLY | FILE_FLAGS))
        os.replace(aside, self.path)
        self._descriptor = os.open(self.path, os.O_RDONLY | FILE_FLAGS)
        os.lseek(self._descriptor, read, os.SEEK_SET)

    def _hand_on(self) -> None:
        """Move what is written to a removed file to the one that took its place."""
        for descriptor in self._removed:
            # A full disk, or removed once more: what was not moved is lost.
            with contextlib.suppress(OSError):
                while True:
                    piece = os.read(descriptor, CHUNK_BYTES)
                    if not piece:
                        break
                    with open(self.path, "ab") as stream:
                        stream.write(piece)

    def lines(self) -> Iterator[bytes]:
        """New whole lines without their ends; one longer than any honest line comes out empty."""
        for piece in self.chunks():
            *whole, rest = (self._rest + piece).split(b"\n")
            # Kept longer than the limit by one chunk at most: a line without end fills no memory.
            self._rest = rest[: MAX_LINE_BYTES + 1]
            for line in whole:
                self.seen += 1
                yield line if len(line) <= MAX_LINE_BYTES else b""

    def close(self) -> None:
        """Give the descriptor back."""
        self._hand_on()
        for descriptor in (*self._removed, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._removed, self._descriptor = [], -1
