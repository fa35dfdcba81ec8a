"""Workflow commands as strings: what a step prints or appends for the runner to obey; pure.

Source: docs.github.com, "Workflow commands for GitHub Actions"; the escapes are those of the
runner's own toolkit. Printing and appending is the caller's.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


def set_output(name: str, value: str) -> str:
    """Spell one output for `$GITHUB_OUTPUT`, in the form that holds any value.

    The delimiter is the first of a fixed series that the value does not contain: the same value
    gives the same bytes, and no value can end its own text early to set another output.

    Raises:
        ValueError: the name cannot be told from the syntax around it.
    """
    if not name or "<<" in name or any(mark in name for mark in "=\r\n"):
        raise ValueError(f"not a name of an output: {name!r}")
    delimiter = next(mark for mark in _delimiters() if mark not in value)
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def outputs(values: Mapping[str, str]) -> str:
    """Spell several outputs, in their order."""
    return "".join(set_output(name, value) for name, value in values.items())


def annotation(
    level: Literal["error", "warning"],
    message: str,
    *,
    file: str = "",
    line: int | None = None,
    title: str = "",
) -> str:
    """Spell an annotation; `file` is relative to the repository's root."""
    properties = {"file": file, "line": "" if line is None else str(line), "title": title}
    given = ",".join(f"{key}={_property(text)}" for key, text in properties.items() if text)
    return f"::{level}{' ' if given else ''}{given}::{_message(message)}"


def _message(text: str) -> str:
    # Marks that a terminal or a browser obeys are spelled out; line ends have their own escapes.
    text = "".join(
        character
        if character.isprintable() or character in "\r\n"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    # The percent sign first, else it would escape the escapes.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _delimiters() -> itertools.chain[str]:
    return itertools.chain(["ciguard_end"], (f"ciguard_end_{n}" for n in itertools.count(2)))
