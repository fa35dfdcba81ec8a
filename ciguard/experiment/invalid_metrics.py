"""Metric lines whose value is no number: NaN, infinity, text. Pure.

A ratio of 0 hits of 0 is no reason to throw away a run: the value is absent, and a warning names
its line. Languages write them as `NaN`, `nan`, `-inf`, `Infinity` and, in JavaScript, as `null`;
most of these are no JSON.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec.record.lines import MAX_INTEGER
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUE: Final = re.compile(rb'"value"\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\s]+)')
WIDTH: Final = 60  # of a name, and of a value


@dataclass(frozen=True, slots=True)
class InvalidMetric:
    """A value that is absent, and where it stood."""

    file: str
    line: int
    name: str
    value_text: str


def split_invalid_metrics(file: str, content: bytes) -> tuple[bytes, tuple[InvalidMetric, ...]]:
    """The file with those lines blank, so that all others keep their numbers; and what they said.

    A metric line that is wrong in any other way stays, and is a damage of the record.
    """
    lines = list(BytesIO(content))
    found = []
    for at, line in enumerate(lines):
        if b'"metric"' in line and (invalid := _invalid(line)) is not None:
            name, value_text = invalid
            found.append(InvalidMetric(file, at + 1, name, value_text))
            lines[at] = b"\n"
    return b"".join(lines), tuple(found)


def _invalid(line: bytes) -> tuple[str, str] | None:
    for match, content in _with_value_0(line):
        value = _decoded(match[1])
        if is_number(value) or content.get("type") != "metric":
            return None
        text = match[1].decode("utf-8", "replace")
        return one_line(str(content.get("name")), WIDTH), one_line(text, WIDTH)
    return None


def is_number(value: object) -> bool:
    """Say that a record may hold it as a value."""
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return is_numeric and math.isfinite(value) and abs(value) <= MAX_INTEGER  # type: ignore[arg-type]


def _with_value_0(line: bytes) -> Iterator[tuple[re.Match[bytes], dict[str, Any]]]:
    """The line as it would be with 0 as its value, if that makes it an object."""
    for match in _VALUE.finditer(line):
        content = _decoded(line[: match.start(1)] + b"0" + line[match.end(1) :])
        if isinstance(content, dict) and content.get("value") == 0:
            yield match, content


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
