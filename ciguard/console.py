"""The one place that prints, the leg aside: answers go to stdout, talk to stderr."""

from __future__ import annotations

import sys
from typing import TextIO

from ciguard.errors import InputError
from ciguard.text import duration, size, table

__all__ = ["duration", "err", "out", "size", "table"]


def out(text: str) -> None:
    """The answer: pipe-safe, the same bytes for the same input."""
    _write(sys.stdout, text)


def err(text: str) -> None:
    """Talk: what was read, what is odd, what went wrong."""
    _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    # A test id may hold what the terminal's encoding, or UTF-8 itself, cannot carry.
    encoding = stream.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(safe if safe.endswith("\n") else f"{safe}\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=stream.name) from error
