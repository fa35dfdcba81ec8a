"""Which result files of other jobs are meant, and of which shard each is: by its path. Pure.

A pattern is a path with `*` and `?` within a folder's or file's name, `**` for any folders, and
`{shard}`, `{suite}`, `{variant}` for a name that says whose the file is. Without `{shard}` the
first part of the path that the pattern leaves open names it: of `artifacts/*/*.trx` and of
`artifacts/**/*.trx` the folder below `artifacts`, as a download of all artifacts lays them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict, cast

from ciguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

HELP: Final = (
    "Result files (JUnit, TRX, JSON, ...) instead of records, such as "
    "'artifacts/{shard}/**/*.trx'; with --run, the first folder is the name of the "
    "artifact. Repeatable."
)
NAMES: Final = ("shard", "suite", "variant")
_OPEN: Final = re.compile(r"\*\*|[*?]|\{\w*\}")


class Location(TypedDict):
    """What a path says of its file."""

    shard: str
    suite: NotRequired[str]
    variant: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A result file, with what its path says of it; None where it says nothing.

    `attempt`: run attempt that uploaded it, where that is known.
    """

    path: str
    content: bytes
    shard: str
    suite: str | None = None
    variant: str | None = None
    attempt: int | None = None


def newest_attempts(files: Sequence[ResultFile]) -> tuple[ResultFile, ...]:
    """The files of the last attempt in which a shard left any, of each shard."""
    last: dict[str, int] = {}
    for file in files:
        last[file.shard] = max(last.get(file.shard, 0), file.attempt or 0)
    return tuple(file for file in files if (file.attempt or 0) == last[file.shard])


@dataclass(frozen=True, slots=True)
class Pattern:
    """`begin` is the folder below which all of its files lie, "" for the working folder."""

    text: str
    begin: str
    _path: re.Pattern[str] = field(repr=False)
    _first_folder: re.Pattern[str] = field(repr=False)

    def match(self, path: str) -> Location | None:
        """What a path below the working folder says of its file; None where it is not meant."""
        found = self._path.fullmatch(path)
        return cast("Location", found.groupdict()) if found else None

    def may_match_below(self, folder: str) -> bool:
        """Say whether a file below this folder, itself in the working folder, can be meant."""
        return self._first_folder.fullmatch(folder) is not None


def pattern(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        UsageError: a placeholder that there is not, or nothing that could name a shard.
    """
    parts = text.replace("\\", "/").removeprefix("./").split("/")
    opened = [place for place, part in enumerate(parts) if _OPEN.search(part)]
    placeholders = set(re.findall(r"\{(\w*)\}", text))
    fix = "put {shard} where the path says it, as in 'artifacts/{shard}/**/*.xml'"
    if placeholders - {*NAMES}:
        what = f"no placeholder {{{min(placeholders - {*NAMES})}}}"
        raise UsageError(what, where=f"--results {text}", fix=f"there are {_listed()}")
    first = opened[0] if opened else len(parts)
    if "shard" not in placeholders and first >= len(parts) - (parts[-1] != "**"):
        what = "nothing says to which shard a file belongs"
        raise UsageError(what, where=f"--results {text}", fix=fix)
    seen: set[str] = set()
    found = []
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        names_shard = "shard" not in placeholders and place == first
        if part == "**":
            any_folders = ".*" if is_last else "(?:.*/)?"
            found.append(f"(?P<shard>[^/]+)/{any_folders}" if names_shard else any_folders)
            continue
        one = _of_part(part, seen)
        found.append(f"(?P<shard>{one})" if names_shard else one)
        found.append("" if is_last else "/")
    first_folder = ".*" if parts[0] == "**" else _of_part(parts[0], set())
    return Pattern(
        text,
        "/".join(parts[:first]),
        re.compile("".join(found), re.DOTALL),
        re.compile(first_folder, re.DOTALL),
    )


def _listed() -> str:
    return ", ".join(f"{{{name}}}" for name in NAMES)


def _of_part(part: str, used_names: set[str]) -> str:
    """The regular expression of one folder's or file's name."""
    found, end = "", 0
    for one in _OPEN.finditer(part):
        found += re.escape(part[end : one.start()])
        end = one.end()
        name = one[0].strip("{}")
        if name in NAMES:
            found += f"(?P={name})" if name in used_names else f"(?P<{name}>[^/]+?)"
            used_names.add(name)
        else:
            found += "[^/]" if one[0] == "?" else "[^/]*"
    return found + re.escape(part[end:])
