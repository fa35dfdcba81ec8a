"""Globs for files below a working folder: which paths match, and which folders may. Pure."""

from __future__ import annotations

import fnmatch
import os
from typing import Sequence

from ciguard.errors import UsageError


def check_pattern(pattern: str, *, where: str) -> None:
    """Refuse a pattern that does not stay in the working folder.

    Raises:
        UsageError: the pattern is empty or absolute, or contains "..".
    """
    parts = pattern.replace("\\", "/").split("/")
    if not pattern or os.path.isabs(pattern) or ".." in parts or not parts[-1]:
        fix = "name files below the working folder, as in reports/**/*.xml"
        raise UsageError(f"no pattern of result files: {pattern!r}", where=where, fix=fix)


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path matches; `**` stands for any folders except hidden ones."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        deeper = bool(parts) and not parts[0].startswith(".") and matches(parts[1:], pattern)
        return deeper or matches(parts, pattern[1:])
    return bool(parts) and _fits(parts[0], pattern[0]) and matches(parts[1:], pattern[1:])


def may_match_below(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a file below a folder may match."""
    if not parts:
        return bool(pattern)
    if not pattern:
        return False
    if pattern[0] == "**":
        return not parts[0].startswith(".") or may_match_below(parts, pattern[1:])
    return _fits(parts[0], pattern[0]) and may_match_below(parts[1:], pattern[1:])


def _fits(part: str, pattern: str) -> bool:
    hidden = part.startswith(".") and not pattern.startswith(".")
    return not hidden and fnmatch.fnmatchcase(part, pattern)
