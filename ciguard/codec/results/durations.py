"""Durations that other programs recorded: JSON -> seconds of units or files. Pure.

    {"a.py::t": 0.1}  or  [["a.py::t", 0.1]]    units (`.test_durations`, any {id: seconds})
    {"spec/a_spec.rb": 3.2}                     files, where every key looks like one (knapsack)

An invalid duration (negative, NaN, over 31 years, no number) is an error that names the key, as the
other durations may be wrong, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import IO, Any, Final

from ciguard.codec.unpack_limits import read_limited
from ciguard.errors import InputError

MAX_BYTES: Final = 1 << 28
MAX_S: Final = 1e9
_FILE: Final = re.compile(r"[^\s:]*[^\s:/\\]\.[A-Za-z][A-Za-z0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Duration:
    """One entry: a unit's own time, or the total of a file."""

    unit: str  # id of the unit, or path of the file
    wall_s: float
    is_file_total: bool = False


def sniff(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(stream: IO[bytes], source: str) -> tuple[Duration, ...]:
    """Read the durations of a file, in its order; the last of equal keys counts.

    Raises:
        InputError: no JSON of one of the forms above, or an invalid duration.
    """
    try:
        content = json.loads(read_limited(stream, source, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source) from None
    if isinstance(content, list):
        content = _of_pairs(content, source)
    if not isinstance(content, dict):
        raise _unknown_form(source, f"found {content!r:.40}")
    files = all(map(_FILE.fullmatch, content))
    return tuple(
        Duration(key, _seconds(value, key, source), files) for key, value in content.items()
    )


def _unknown_form(source: str, what: str) -> InputError:
    return InputError(f"no durations: {what}", where=source, fix="give {id: seconds}")


def _of_pairs(content: list[Any], source: str) -> dict[str, Any]:
    pairs = {}
    for item in content:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):  # noqa: PLR2004
            raise _unknown_form(source, f"found {item!r:.40} in a list")
        pairs[item[0]] = item[1]
    return pairs


def _seconds(value: Any, key: str, source: str) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not 0 <= value <= MAX_S:
        what = f"{value!r:.40} is not a duration: expected seconds from 0 to {MAX_S:.0e}"
        raise InputError(
            what, where=f"{source}: {key:.200}", fix="fix the program that wrote the file"
        )
    return float(value)
