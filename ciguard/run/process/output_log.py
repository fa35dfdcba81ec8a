"""What a tested process printed, kept beside its record: whole, or its beginning and its end.

A test that prints without end would else fill the artifact that the record travels in. While the
process runs nothing is cut: the file is its own.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final, Iterator

from ciguard.run.process.tail import Tail

MAX_BYTES: Final = 16 << 20  # more is cut: people read the end, and search the beginning
FIRST_BYTES, LAST_BYTES = 4 << 20, 8 << 20


def truncate_middle(path: str) -> None:
    """Cut the middle out of a log that is larger than `MAX_BYTES`; to be called behind its end."""
    # A full disk: then it stays as it is.
    with contextlib.suppress(OSError):
        size = os.stat(path).st_size
        if size <= MAX_BYTES:
            return
        with open(path, "r+b") as stream:
            stream.seek(size - LAST_BYTES)
            last = stream.read()
            stream.seek(FIRST_BYTES)
            left_out = size - FIRST_BYTES - len(last)
            stream.write(f"\n[ciguard: {left_out} bytes of output left out here]\n".encode("ascii"))
            stream.write(last)
            stream.truncate()


class Log(Tail):
    """Such a file as it grows; closed, and shortened, when nobody reads on.

    `shown_bytes`: what lies behind them is kept and given to nobody; None: all of it is.
    """

    shown_bytes: int | None = None
    _failed = False

    def hide_rest(self) -> None:
        """What is written from now on tells nobody anything: it stays in the file."""
        # No such file yet: then nothing was left out, and nothing is.
        with contextlib.suppress(OSError):
            self.shown_bytes = os.stat(self.path).st_size

    def chunks(self) -> Iterator[bytes]:
        """As of every file, up to where it is shown; one that cannot be read says so, once."""
        if self._failed:
            return
        try:
            for piece in super().chunks():
                if self.shown_bytes is None:
                    yield piece
                    continue
                read = os.lseek(self._descriptor, 0, os.SEEK_CUR)
                shown = piece[: max(0, self.shown_bytes - (read - len(piece)))]
                if shown:
                    yield shown
        except OSError as error:
            self._failed = True
            what = f"\n[ciguard: {self.name} cannot be read: {error.strerror or error}]\n"
            yield what.encode("utf-8", "backslashreplace")

    def shorten(self) -> None:
        """Cut it, whoever reads it."""
        truncate_middle(self.path)

    def close(self) -> None:
        """Give the descriptor back."""
        with contextlib.suppress(OSError):
            super().close()
        self.shorten()
