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
        raise UsageError(f"no pattern of files: {pattern!r}", where=where, fix=fix)


def matches(parts: Sequence[str], pattern: Sequence[str], *, below: bool = False) -> bool:
    """Return whether a path matches; `**` stands for any folders except hidden ones.

    Args:
        below: the path is a folder, and a file below it counts.
    """
    if not parts:
        return bool(pattern) if below else all(part == "**" for part in pattern)
    if not pattern:
        return False
    if pattern[0] == "**":
        is_deeper = not parts[0].startswith(".") and matches(parts[1:], pattern, below=below)
        return is_deeper or matches(parts, pattern[1:], below=below)
    is_hidden = parts[0].startswith(".") and not pattern[0].startswith(".")
    fits = not is_hidden and fnmatch.fnmatchcase(parts[0], pattern[0])
    return fits and matches(parts[1:], pattern[1:], below=below)
