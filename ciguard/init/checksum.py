"""The first line of a generated file: the SHA-256 of the rest, so that an edit is recognised. Pure.

Line ends (a checkout with autocrlf), newlines at the end of the file and the matrix that
`ciguard plan --static` fills in are no edits. The version in the line does not count either.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from ciguard import __version__
from ciguard.plan.outputs import without_matrix

_FIRST_LINE: Final = re.compile(r"# ciguard init \S+, sha256 ([0-9a-f]{64}):.*\n")


def with_checksum(text: str) -> str:
    """The text below its first line."""
    return (
        f"# ciguard init {__version__}, sha256 {_sha256(text)}: "
        f"change ciguard.toml and run init again\n{text}"
    )


def is_generated(text: str) -> bool:
    """Say whether the text has such a first line, whatever was edited below."""
    return _FIRST_LINE.match(_normalise(text)) is not None


def is_unedited(text: str) -> bool:
    """Say whether the text has such a first line, and the rest matches it."""
    found = _FIRST_LINE.match(_normalise(text))
    return found is not None and found[1] == _sha256(rest_of(text))


def rest_of(text: str) -> str:
    """The normalised text below the first line; the whole text if it has no such line."""
    text = _normalise(text)
    found = _FIRST_LINE.match(text)
    return _normalise(text[found.end() :]) if found else text


def has_same_rest(text: str, other: str) -> bool:
    """Say whether two texts differ in their first line and their matrix at most."""
    return without_matrix(rest_of(text)) == without_matrix(rest_of(other))


def _sha256(text: str) -> str:
    return hashlib.sha256(without_matrix(_normalise(text)).encode()).hexdigest()


def _normalise(text: str) -> str:
    # Idempotent: what was normalised is hashed again.
    return re.sub(r"\r+\n", "\n", text).rstrip("\r\n") + "\n"
