"""Which one Python a generated workflow tests with. Pure.

The lowest one that the project allows: a user may have it, wheels for it exist, and what runs there
mostly runs on newer ones, not the other way round.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Minor versions of CPython 3 with security fixes in 2026-11 (devguide.python.org/versions), then
# what older projects are left with.
SUPPORTED: Final = (11, 12, 13, 14, 15)
UNSUPPORTED: Final = (10, 9, 8)
LAST_PATCH: Final = 99  # a set-up action takes the newest patch of a minor version

_CLAUSE: Final = re.compile(r"(>=|<=|~=|==|!=|<|>|\^|~)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_PLAIN: Final = re.compile(r"3\.\d+(\.\d+)?")
_Version = tuple[int, ...]
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


def lowest_allowed(specifiers: str) -> str:
    """The lowest supported version that a requires-python allows, such as "3.13".

    Args:
        specifiers: PEP 440 specifiers, or Poetry's constraint with `^`, `~` and `||`.

    Returns:
        The newest unsupported one where no supported one is allowed; "" where none is at all, or
        where the text is something else.
    """
    for minor in (*SUPPORTED, *UNSUPPORTED):
        version = (3, minor, LAST_PATCH)
        for alternative in specifiers.split("||"):
            clauses = [text.strip() for text in alternative.split(",") if text.strip()]
            if clauses and all(_is_allowed(version, clause) for clause in clauses):
                return f"3.{minor}"
    return ""


def is_supported(version: str) -> bool:
    """Say whether CPython's version gets security fixes."""
    return version in {f"3.{minor}" for minor in SUPPORTED}


def _is_allowed(version: _Version, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return clause == "*"
    sign, bound = found[1], tuple(map(int, found[2].split(".")))
    if sign in _COMPARISONS:
        return _COMPARISONS[sign](version[: len(bound)] if found[3] else version, bound)
    fixed_parts = {"~=": len(bound) - 1, "^": 1, "~": min(2, len(bound))}[sign]
    return version >= bound and version[:fixed_parts] == bound[:fixed_parts]


def pinned(python_version_file: str) -> str:
    """The version in a `.python-version`; "" where it names anything but one plain CPython."""
    text = python_version_file.strip()
    return text if _PLAIN.fullmatch(text) else ""
