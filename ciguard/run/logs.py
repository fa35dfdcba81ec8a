"""What a tested process printed, kept beside its record: whole, or its beginning and its end.

A test that prints without end would else fill the artifact that the record travels in. While the
process runs nothing is cut: the file is its own.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from ciguard.run.tail import Tail

KEPT_BYTES: Final = 16 << 20  # more is cut: people read the end, and search the beginning
FIRST_BYTES, LAST_BYTES = 4 << 20, 8 << 20


def shortened(path: str) -> None:
    """Cut the middle out of a log that is larger than `KEPT_BYTES`; to be called behind its end."""
    # A full disk: then it stays as it is.
    with contextlib.suppress(OSError):
        size = os.stat(path).st_size
        if size <= KEPT_BYTES:
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
    """Such a file as it grows; closed, and shortened, when nobody reads on."""

    def shorten(self) -> None:
        """Cut it, whoever reads it."""
        shortened(self.path)

    def close(self) -> None:
        """Give the descriptor back."""
        super().close()
        self.shorten()
