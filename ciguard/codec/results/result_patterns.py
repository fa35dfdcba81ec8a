"""Patterns of `--results`: they select result files, and name the shard of each by its path. Pure.

A pattern is a path with `*` and `?` within a folder's or file's name, `**` for any folders, and the
placeholders `{shard}`, `{suite}`, `{variant}`. Without `{shard}`, the first part of the path with a
wildcard names the shard: for `artifacts/*/*.trx` and `artifacts/**/*.trx` the folder below
`artifacts`, as in a download of all artifacts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict, cast

from ciguard.errors import UsageError

NAMES: Final = ("shard", "suite", "variant")
_OPEN: Final = re.compile(r"\*\*|[*?]|\{\w*\}")


class Location(TypedDict):
    """The names in the path of a file."""

    shard: str
    suite: NotRequired[str]
    variant: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A result file with the names in its path; None for an absent name.

    Attributes:
        attempt: run attempt that uploaded the file; None if not known.
        root: absolute path of the repository, which paths in the file may begin with; "" if none.
    """

    path: str
    content: bytes
    shard: str
    suite: str | None = None
    variant: str | None = None
    attempt: int | None = None
    root: str = ""


def newest_attempts(files: Sequence[ResultFile]) -> tuple[ResultFile, ...]:
    """Return for each shard the files of the last attempt with files."""
    last: dict[str, int] = {}
    for file in files:
        last[file.shard] = max(last.get(file.shard, 0), file.attempt or 0)
    return tuple(file for file in files if (file.attempt or 0) == last[file.shard])


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern; `begin` is the folder with all of its files, "" for the working folder."""

    text: str
    begin: str
    _path: re.Pattern[str] = field(repr=False)
    _first_folder: re.Pattern[str] = field(repr=False)

    def match(self, path: str) -> Location | None:
        """Return the names in a path below the working folder; None if the pattern does not fit."""
        match = self._path.fullmatch(path)
        return cast("Location", match.groupdict()) if match else None

    def may_match_below(self, folder: str) -> bool:
        """Return whether the pattern may fit a file below a folder of the working folder."""
        return self._first_folder.fullmatch(folder) is not None


def pattern(text: str) -> Pattern:
    """Parse a pattern.

    Raises:
        UsageError: an unknown placeholder, or no part that names a shard.
    """
    parts = text.replace("\\", "/").removeprefix("./").split("/")
    open_parts = [index for index, part in enumerate(parts) if _OPEN.search(part)]
    placeholders = set(re.findall(r"\{(\w*)\}", text))
    fix = "put {shard} where the path says it, as in 'artifacts/{shard}/**/*.xml'"
    if unknown := placeholders - {*NAMES}:
        what = f"no placeholder {{{min(unknown)}}}"
        known = ", ".join(f"{{{name}}}" for name in NAMES)
        raise UsageError(what, where=f"--results {text}", fix=f"there are {known}")
    first = open_parts[0] if open_parts else len(parts)
    if "shard" not in placeholders and first >= len(parts) - (parts[-1] != "**"):
        what = "nothing says to which shard a file belongs"
        raise UsageError(what, where=f"--results {text}", fix=fix)
    used_names: set[str] = set()
    expressions = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        names_shard = "shard" not in placeholders and index == first
        if part == "**":
            any_folders = ".*" if is_last else "(?:.*/)?"
            expressions.append(f"(?P<shard>[^/]+)/{any_folders}" if names_shard else any_folders)
            continue
        expression = _of_part(part, used_names)
        expressions.append(f"(?P<shard>{expression})" if names_shard else expression)
        expressions.append("" if is_last else "/")
    first_folder = ".*" if parts[0] == "**" else _of_part(parts[0], set())
    return Pattern(
        text,
        "/".join(parts[:first]),
        re.compile("".join(expressions), re.DOTALL),
        re.compile(first_folder, re.DOTALL),
    )


def shard_of(text: str, path: str) -> str:
    """Return the shard of a path that a pattern fits: "results" if no folder of it names one."""
    try:
        location = pattern(text).match(path)
    except UsageError:  # as of `out/*.xml`
        location = None
    return location["shard"] if location is not None else "results"


def _of_part(part: str, used_names: set[str]) -> str:
    """Return the regular expression of a folder's or file's name."""
    expression, end = "", 0
    for token in _OPEN.finditer(part):
        expression += re.escape(part[end : token.start()])
        end = token.end()
        name = token[0].strip("{}")
        if name in NAMES:
            expression += f"(?P={name})" if name in used_names else f"(?P<{name}>[^/]+?)"
            used_names.add(name)
        else:
            expression += "[^/]" if token[0] == "?" else "[^/]*"
    return expression + re.escape(part[end:])
