"""Notes: findings, causes and evidence as a kind with facts, and the formatter of sentences. Pure.

Each verb has its own table of sentences (`Words`) by kind, such as guard/wording.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals
from string import Formatter
from typing import Any, Final, NamedTuple

from ciguard.text import MAX_NAMED, count_of, duration, name_some, one_line, size

MAX_CHARS: Final = 400  # of a foreign text in a sentence
_MESSAGES: Final = ("error", "advice", "output")  # facts of foreign text; spaces are merged
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")
_MISSING: Final = (None, "", ())


@dataclass(frozen=True, slots=True)
class Note:
    """A kind of finding, cause or evidence, with its facts: names, numbers, lists of names.

    The suffix of a key is the unit of its number: `_s`, `_bytes`, `_ratio`, or none. `url` is the
    page of the evidence, or "".
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""


class Words(NamedTuple):
    """The templates of a message and of the advice that follows, both without a full stop.

    A field such as `{limit_s}` shows a fact; `{units}` is the number of units of the finding, and
    `{units:test}` is "3 tests". A part in [brackets] is left out if a fact in it is missing.
    """

    message: str
    fix: str = ""


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """Return the template with its facts, and without the parts whose facts are missing."""

    def optional(part: re.Match[str]) -> str:
        names = [name for _, name, _, _ in _FORMATTER.parse(part[1]) if name]
        return "" if any(facts.get(name) in _MISSING for name in names) else part[1]

    return _FORMATTER.vformat(_OPTIONAL.sub(optional, template), (), facts)


def name_shards(keys: Sequence[str], most: int = MAX_NAMED) -> str:
    """Return "shard 03", "shards 03, 05 and 2 more"."""
    return f"{'shard' if len(keys) == 1 else 'shards'} {name_some(keys, one_line, most)}"


class _FactFormatter(Formatter):
    """A formatter that shows a fact by the unit at the end of its name, or counts it."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return _shown(field_name, self.get_value(field_name, args, kwargs)), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "words":
            return str(value).replace("_", " ")
        if format_spec == "exit":
            return _exit(value)
        if format_spec in (",", "g"):
            return format(value, format_spec)
        return count_of(value, format_spec) if format_spec else str(value)


_FORMATTER: Final = _FactFormatter()


def _shown(name: str, value: Any) -> Any:
    if value is None:
        return "-"
    if isinstance(value, str):
        return one_line(" ".join(value.split()) if name in _MESSAGES else value, MAX_CHARS)
    if isinstance(value, dict):
        return name_some([f"{key} {_shown(name, each)}" for key, each in value.items()], one_line)
    if isinstance(value, (list, tuple)):
        return name_some(value, one_line)
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_bytes"):
        return size(value)
    return f"{100 * value:.1f} %" if name.endswith("_ratio") else value


def _exit(code: int | str) -> str:
    """Return "exit code 1", "SIGSEGV", or "exit code -" for an unknown code."""
    if isinstance(code, str) or code >= 0:
        return f"exit code {code}"
    try:
        return Signals(-code).name
    except ValueError:
        return f"signal {-code}"
