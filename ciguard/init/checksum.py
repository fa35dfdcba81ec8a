"""The checksum in the first line of a generated file: an edit by hand is recognised. Pure.

The first line has the SHA-256 of the rest. Line ends (a checkout with autocrlf) and newlines at the
end of the file are no edits. The version in the line does not count either.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from ciguard import __version__

_FIRST_LINE: Final = re.compile(r"# ciguard init \S+, sha256 ([0-9a-f]{64}):.*\n")


def with_checksum(text: str) -> str:
    """Put the first line with the checksum before a text."""
    return (
        f"# ciguard init {__version__}, sha256 {_sha256(text)}: "
        f"change ciguard.toml and run init again\n{text}"
    )


def is_generated(text: str) -> bool:
    """Return whether the text has a first line with a checksum, also if it was edited."""
    return _FIRST_LINE.match(_normalise(text)) is not None


def is_unedited(text: str) -> bool:
    """Return whether the text has a first line with the right checksum."""
    first_line = _FIRST_LINE.match(_normalise(text))
    return first_line is not None and first_line[1] == _sha256(rest_of(text))


def rest_of(text: str) -> str:
    """Return the normalised text below the line with the checksum; all text without this line."""
    text = _normalise(text)
    first_line = _FIRST_LINE.match(text)
    return _normalise(text[first_line.end() :]) if first_line else text


def _sha256(text: str) -> str:
    return hashlib.sha256(_normalise(text).encode()).hexdigest()


def _normalise(text: str) -> str:
    # Idempotent: a normalised text is hashed again.
    return re.sub(r"\r+\n", "\n", text).rstrip("\r\n") + "\n"
