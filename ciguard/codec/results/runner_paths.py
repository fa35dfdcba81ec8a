"""Absolute paths of a runner -> paths from a suite's folder, as units have them. Pure.

Jest, Vitest, Playwright, PHPUnit and GoogleTest name files by absolute paths. Nothing in their
files names the suite's folder: it is the one below which most units lie.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_PROJECT: Final = re.compile(r"\[[^\]]*\] ")  # of Playwright, before the path
_FIRST: Final = ("/", "\\", "[")
_ABSOLUTE: Final = re.compile(rf"({_PROJECT.pattern})?((?:[A-Za-z]:)?/.*)", re.DOTALL)


def plain_path(path: str) -> str:
    """A path as most programs write it; some begin it with "./"."""
    return path.replace("\\", "/").removeprefix("./")


def is_absolute(path: str) -> bool:
    """Say whether a path, or that behind a project, begins with a root or a drive."""
    # Called for each case: most paths need no pattern.
    if path[:1] not in _FIRST and path[1:2] != ":":
        return False
    return _ABSOLUTE.fullmatch(plain_path(path)) is not None


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Each folder of an absolute path, the outermost first, and the path from there."""
    found = _ABSOLUTE.fullmatch(plain_path(path))
    if found is not None:
        prefix, rest = found[1] or "", found[2]
        for slash in re.finditer("/", rest):
            yield rest[: slash.start()], prefix + rest[slash.end() :]


def find_suite_folders(paths: Iterable[str], units: Collection[str]) -> frozenset[str]:
    """The folders of a suite on all runners: none of them is inside of another.

    Of two that are, as for `/w/test/a.js` with the units `a.js` and `test/a.js`, that of more paths
    is meant; of equal ones the outer, or `test/a.js` of `/w/test` would be `/w/test/test/a.js`.

    Args:
        paths: distinct; those that are not absolute say nothing.
        units: with slashes, as `plain_path` gives them.
    """
    count = Counter(folder for path in paths for folder, rest in _splits(path) if rest in units)
    lost = set()
    for folder in count:
        for outer, _ in _splits(f"{folder}/"):
            if outer != folder and outer in count:
                lost.add(folder if count[outer] >= count[folder] else outer)
    return frozenset(count) - lost


def path_from_suite(path: str, folders: Collection[str]) -> str:
    """A path from the suite's folder; as it is where it is in none of them."""
    if not folders or not is_absolute(path):
        return plain_path(path)
    return next((rest for folder, rest in _splits(path) if folder in folders), plain_path(path))


def is_path_of(unit: str, path: str) -> bool:
    """Say whether a unit may be this file, of which an absolute path names the runner's folder."""
    plain = plain_path(unit)
    if not is_absolute(path):
        return plain == plain_path(path)
    return plain == plain_path(path) or any(plain == rest for _, rest in _splits(path))


def file_of_unit(unit: str, file: str | None) -> str | None:
    """A case's file as the suite names it: an absolute one that is the unit loses its folder."""
    if file is None or not is_absolute(file):
        return file
    path = _PROJECT.sub("", plain_path(unit), count=1)
    return path if is_path_of(path, file) else file
