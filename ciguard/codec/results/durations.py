"""Durations that other programs recorded: JSON -> seconds of units or files. Pure.

    {"a.py::t": 0.1}  or  [["a.py::t", 0.1]]    units (`.test_durations`, any {id: seconds})
    {"spec/a_spec.rb": 3.2}                     files, where every key looks like one (knapsack)
    {job: {configuration: {file: s}}}           files (PyTorch's test-times)

Of several jobs and configurations, the entry "default" is read; without such an entry, the time of
a file is the mean of all entries with the file. An invalid duration (negative, NaN, over 31 years,
no number) is an error that names the key, as the other durations may be wrong, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from ciguard.codec.results.base import ExternalName
from ciguard.codec.unpack_limits import read_limited
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES: Final = 1 << 28
MAX_S: Final = 1e9
DEFAULT: Final = "default"
_FILE: Final = re.compile(r"[^\s:]*[^\s:/\\]\.[A-Za-z][A-Za-z0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Duration:
    """One entry: a unit's own time, or the total of a file."""

    unit: str  # id of the unit, or path of the file
    wall_s: float
    is_file_total: bool = False

    @property
    def spelling(self) -> ExternalName:
        """The name in the other program; a total has no name."""
        return ExternalName(None, None, self.unit if self.is_file_total else None)


def sniff(head: bytes) -> bool:
    """Recognise JSON."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(stream: IO[bytes], source: str) -> tuple[Duration, ...]:
    """Read the durations of a file, in its order; the last of equal keys counts.

    Raises:
        InputError: no JSON of one of the forms above, or an invalid duration.
    """
    content = _parse(read_limited(stream, source, MAX_BYTES), source)
    if isinstance(content, list):
        content = _of_pairs(content, source)
    if not isinstance(content, dict):
        raise _unknown_form(source, f"found {content!r:.40}")
    if any(isinstance(item, dict) for item in content.values()):
        return tuple(_of_jobs(content, source))
    files = all(map(_FILE.fullmatch, content))
    return tuple(
        Duration(key, _seconds(value, (key,), source), files) for key, value in content.items()
    )


def _parse(content: bytes, source: str) -> Any:
    def refuse_constant(text: str) -> float:
        raise InputError(
            f"{text} is not a duration", where=source, fix="fix the program that wrote the file"
        )

    try:
        return json.loads(content, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source) from None


def _unknown_form(source: str, what: str) -> InputError:
    fix = "give {id: seconds} or {job: {configuration: {file: seconds}}}"
    return InputError(f"no durations: {what}", where=source, fix=fix)


def _of_pairs(content: list[Any], source: str) -> dict[str, Any]:
    pairs = {}
    for item in content:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):  # noqa: PLR2004
            raise _unknown_form(source, f"found {item!r:.40} in a list")
        pairs[item[0]] = item[1]
    return pairs


def _of_jobs(content: dict[str, Any], source: str) -> Iterator[Duration]:
    times: dict[str, list[float]] = {}
    for job, inner in _default_entry(content, (), source).items():
        for configuration, files in _default_entry(inner, (job,), source).items():
            for file, value in _object(files, (job, configuration), source).items():
                seconds = _seconds(value, (job, configuration, file), source)
                times.setdefault(file, []).append(seconds)
    if not times:
        raise _unknown_form(source, "found no seconds")
    for file, values in times.items():
        yield Duration(file, sum(values) / len(values), is_file_total=True)


def _default_entry(content: Any, path: tuple[str, ...], source: str) -> dict[str, Any]:
    """Return the entry "default" alone, if there is one; else all entries."""
    entries = _object(content, path, source)
    return {DEFAULT: entries[DEFAULT]} if isinstance(entries.get(DEFAULT), dict) else entries


def _object(content: Any, path: tuple[str, ...], source: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        where = " > ".join(path)
        raise _unknown_form(source, f"{where!r:.200} is {content!r:.40}")
    return content


def _seconds(value: Any, path: Iterable[str], source: str) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not 0 <= value <= MAX_S:
        key = " > ".join(path)
        what = f"{value!r:.40} is not a duration: expected seconds from 0 to {MAX_S:.0e}"
        raise InputError(
            what, where=f"{source}: {key:.200}", fix="fix the program that wrote the file"
        )
    return float(value)
