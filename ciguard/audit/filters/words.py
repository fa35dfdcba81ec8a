"""The words of a command line, each with its place in the text. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORD: Final = re.compile(r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\])+", re.DOTALL)


class Word(NamedTuple):
    """A word without its quotes, and where it stands with them."""

    text: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words as a shell reads them; variables stay as they are."""
    for found in _WORD.finditer(text):
        try:
            plain = "".join(shlex.split(found[0]))
        except ValueError:  # an open quote
            plain = found[0]
        yield Word(plain, found.start(), found.end())
