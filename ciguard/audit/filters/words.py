"""The words of a command line, each with its position in the text. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_WORD: Final = re.compile(r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\])+", re.DOTALL)


class Word(NamedTuple):
    """A word without its quotes; `start` and `end` include the quotes."""

    text: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """Yield the words as a shell reads them; variables stay as they are."""
    for match in _WORD.finditer(text):
        try:
            plain = "".join(shlex.split(match[0]))
        except ValueError:  # an open quote
            plain = match[0]
        yield Word(plain, match.start(), match.end())


def option_value(words: Sequence[str], *options: str) -> str:
    """Return the value of the last of these options, after `=` or as the next word; else ""."""
    value = ""
    for index, word in enumerate(words):
        option, equals, attached = word.partition("=")
        if option in options:
            value = attached if equals else "".join(words[index + 1 : index + 2])
    return value


def arguments_of(words: Sequence[str], programs: Collection[str]) -> str:
    """Return the arguments of the last of these programs, quoted for a shell; else ""."""
    indices = [index for index, word in enumerate(words) if word.rpartition("/")[2] in programs]
    return shlex.join(words[indices[-1] + 1 :]) if indices else ""
