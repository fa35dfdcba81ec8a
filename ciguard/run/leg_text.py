"""Numbers and foreign output as parts of a sentence; `ciguard.text` does not travel in the leg."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ciguard.model import UnitKey


NAME_CHARACTERS: Final = 300  # of an id in a log, as of a message


def count_of(number: int, noun: str) -> str:
    """ "1 unit", "2 units", "2 processes"."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


def shorten(name: str) -> str:
    """A name as a line of a log has room for it: both ends tell names apart."""
    if len(name) <= NAME_CHARACTERS:
        return name
    half = (NAME_CHARACTERS - 3) // 2
    return f"{name[:half]}...{name[-half:]}"


def short_unit_name(key: UnitKey) -> str:
    """`unit_name`, shortened."""
    return shorten(unit_name(key))


def unit_name(key: UnitKey) -> str:
    """ "a.py::t", "a.py::t [suite/variant]"."""
    named = "/".join(filter(None, (key.suite, key.variant)))
    return f"{key.unit} [{named}]" if named else key.unit


_RULER: Final = "=!-_*# "  # what frameworks draw around a line
_ERROR_WORDS: Final = re.compile(r"error|fail", re.IGNORECASE)


def _lines(text: str) -> list[str]:
    bare = (line.strip().strip(_RULER) for line in text.splitlines())
    # "E   ValueError: no": how an error's own lines are marked in a longer report.
    return [line[1:].strip() if line.startswith("E  ") else line for line in bare if line]


def last_line(text: str) -> str:
    """The last line that says something, without what is drawn around it."""
    return "".join(_lines(text)[-1:])


def last_error_line(text: str) -> str:
    """The last line, and before it the last one that speaks of an error, in one line."""
    lines = _lines(text)
    error_lines = [line for line in lines if _ERROR_WORDS.search(line)]
    return " / ".join(dict.fromkeys([*error_lines[-1:], *lines[-1:]])) or "nothing"
