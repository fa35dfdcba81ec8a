"""Globs of files below a working folder: what they match, and where a match may lie. Pure."""

from __future__ import annotations

import fnmatch
import os
from typing import Sequence

from ciguard.errors import UsageError


def check_pattern(pattern: str, *, where: str) -> None:
    """Refuse what does not stay in the working folder.

    Raises:
        UsageError: it is empty, absolute, or goes up.
    """
    parts = pattern.replace("\\", "/").split("/")
    if not pattern or os.path.isabs(pattern) or ".." in parts or not parts[-1]:
        fix = "name files below the working folder, as in reports/**/*.xml"
        raise UsageError(f"no pattern of result files: {pattern!r}", where=where, fix=fix)


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path is what a pattern says; `**` stands for any folders, hidden ones excepted."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        deeper = bool(parts) and not parts[0].startswith(".") and matches(parts[1:], pattern)
        return deeper or matches(parts, pattern[1:])
    return bool(parts) and _fits(parts[0], pattern[0]) and matches(parts[1:], pattern[1:])


def may_match_below(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether something below a folder may match."""
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
