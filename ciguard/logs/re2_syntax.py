"""Compiles patterns with RE2; its errors become sentences, such as "RE2 has no lookaround"."""

from __future__ import annotations

import re
from typing import Final

import re2

_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")


def compile_pattern(pattern: str) -> re2._Regexp:
    """Compile a pattern for text.

    Raises:
        ValueError: RE2 refuses the pattern; the text is the reason.
    """
    try:
        return re2.compile(pattern, quiet_options())
    except re2.error as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        if _LOOKAROUND.search(detail):
            raise ValueError(f"RE2 has no lookaround: {detail}") from None
        raise ValueError(f"RE2 does not know this pattern: {detail}") from None


def quiet_options() -> re2.Options:
    """Return options with which RE2 raises errors without printing them."""
    options = re2.Options()
    options.log_errors = False
    return options
