"""Durations that other programs recorded: JSON -> seconds of units, classes or files. Pure.

    {"a.py::t": 0.1}  or  [["a.py::t", 0.1]]    units (`.test_durations`, any {id: seconds})
    {"spec/a_spec.rb": 3.2}                     files, where every key looks like one (knapsack)
    {"test_ops": {"TestOps": 3.2}}              classes by file
    {job: {configuration: {file: s}}}           files (PyTorch's test-times)
    {job: {configuration: {file: {class: s}}}}  classes by file (PyTorch's test-class-times)

Of several jobs and configurations the entry called "default" is read; where there is none, a file
or class takes the mean over those that have it. A duration that none can be (negative, NaN, over
31 years, no number) is an error that names its key: whoever wrote the file wrote others wrongly.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from ciguard.codec.results.base import ExternalName, read_limited
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Level = Literal["unit", "class", "file"]

MAX_BYTES: Final = 1 << 28
MAX_S: Final = 1e9
DEFAULT: Final = "default"
_FILE: Final = re.compile(r"[^\s:]*[^\s:/\\]\.[A-Za-z][A-Za-z0-9]{0,4}")
_LEVELS: Final[Mapping[int, Level]] = {2: "class", 3: "file", 4: "class"}  # by depth of nesting


@dataclass(frozen=True, slots=True)
class Duration:
    """One entry: a unit's own time, or the total of a class or of a file."""

    unit: str  # what stands for it where no inventory is known
    wall_s: float
    level: Level = "unit"
    classname: str | None = None
    file: str | None = None

    @property
    def spelling(self) -> ExternalName:
        """How the other program spells it; without a name, as it is a total."""
        return ExternalName(self.classname, None, self.file)


def sniff(head: bytes) -> bool:
    """JSON."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(stream: IO[bytes], source: str) -> tuple[Duration, ...]:
    """The file's durations, in its order; of the same key twice the last.

    Raises:
        InputError: no JSON of one of the forms above, or a duration that none can be.
    """
    content = _parsed(read_limited(stream, source, MAX_BYTES), source)
    if isinstance(content, list):
        content = _of_pairs(content, source)
    if not isinstance(content, dict):
        raise _unknown_form(source, f"found {content!r:.40}")
    depth = _depth(content)
    if depth == 1:
        return tuple(_flat(content, source))
    if depth not in _LEVELS:
        raise _unknown_form(source, f"found objects {depth} deep")
    level = _LEVELS[depth]
    entries: dict[tuple[str, ...], list[float]] = {}
    for path, value in _iter_leaves(_default_job(content, depth), (), depth, source):
        entries.setdefault(path[-1:] if level == "file" else path[-2:], []).append(
            _seconds(value, path, source)
        )
    return tuple(_nested(path, sum(times) / len(times)) for path, times in entries.items())


def _parsed(content: bytes, source: str) -> Any:
    def refuse_constant(text: str) -> float:
        raise InputError(
            f"{text} is not a duration", where=source, fix="fix the program that wrote the file"
        )

    try:
        return json.loads(content, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source) from None


def _unknown_form(source: str, what: str) -> InputError:
    forms = "{id: seconds}, {file: {class: seconds}} or {job: {configuration: {file: seconds}}}"
    return InputError(f"no durations: {what}", where=source, fix=f"give {forms}")


def _of_pairs(content: list[Any], source: str) -> dict[str, Any]:
    pairs = {}
    for item in content:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):  # noqa: PLR2004
            raise _unknown_form(source, f"found {item!r:.40} in a list")
        pairs[item[0]] = item[1]
    return pairs


def _depth(content: Any) -> int:
    """How deep the first branch is nested; the others are checked against it."""
    depth = 0
    while isinstance(content, dict):
        depth += 1
        content = next((item for item in content.values() if item != {}), None)
    return depth


def _default_job(content: dict[str, Any], depth: int) -> Any:
    """The job and configuration called "default", where there are such."""
    if depth <= 2:  # noqa: PLR2004  # file and class
        return content
    found = {DEFAULT: content[DEFAULT]} if isinstance(content.get(DEFAULT), dict) else content
    return {
        job: {DEFAULT: inner[DEFAULT]} if isinstance(inner, dict) and DEFAULT in inner else inner
        for job, inner in found.items()
    }


def _iter_leaves(
    content: Any, path: tuple[str, ...], depth: int, source: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(content, dict) != (len(path) < depth):
        where = " > ".join(path)
        raise _unknown_form(source, f"{where!r:.200} is not nested as the others are")
    if not isinstance(content, dict):
        yield path, content
        return
    for key, item in content.items():
        yield from _iter_leaves(item, (*path, key), depth, source)


def _seconds(value: Any, path: Iterable[str], source: str) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not 0 <= value <= MAX_S:
        key = " > ".join(path)
        what = f"{value!r:.40} is not a duration: expected seconds from 0 to {MAX_S:.0e}"
        raise InputError(
            what, where=f"{source}: {key:.200}", fix="fix the program that wrote the file"
        )
    return float(value)


def _flat(content: Mapping[str, Any], source: str) -> Iterator[Duration]:
    files = all(map(_FILE.fullmatch, content))
    for key, value in content.items():
        seconds = _seconds(value, (key,), source)
        if files:
            yield Duration(key, seconds, "file", file=key)
        else:
            yield Duration(key, seconds)


def _nested(path: tuple[str, ...], seconds: float) -> Duration:
    if len(path) == 1:
        return Duration(path[0], seconds, "file", file=path[0])
    return Duration("::".join(path), seconds, "class", classname=path[1], file=path[0])
