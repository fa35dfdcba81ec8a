"""Outputs of a step as strings, which its command appends for the runner to read; pure.

Source: docs.github.com, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

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


def _delimiters() -> itertools.chain[str]:
    return itertools.chain(["ciguard_end"], (f"ciguard_end_{n}" for n in itertools.count(2)))
