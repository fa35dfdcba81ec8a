"""Message of a failed test: its place in the repository, then the text of the error.

Standard library and pytest alone, as in `ciguard_pytest`, which imports it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    import pytest

FIRST, LAST = slice(4096), slice(-4096, None)  # of a message, bytes


def top_folder(root: str, folder: str) -> str:
    """Return the folder that paths are relative to: pytest's rootdir, or where pytest was started.

    It is the upper one of both: a `pytest.ini` in `tests` makes that folder the rootdir, and paths
    from there are not paths of the repository.
    """
    return folder if root.startswith(folder.rstrip(os.sep) + os.sep) else root


def crash_line(report: pytest.TestReport, top: str) -> str:
    """Return `file:line: error` if pytest knows the place, otherwise the text of the report."""
    long, reason = report.longrepr, getattr(report, "wasxfail", None)
    if report.outcome == "skipped" and reason is not None:
        return truncated(f"xfail: {reason}")
    crash, more = getattr(long, "reprcrash", None), ""
    examples: Any = getattr(long, "reprlocation_lines", None)
    if crash is None and examples:
        crash, more = examples[0][0], f"\n{long}"  # the first line of a doctest has little
    if crash is None:
        return truncated(str(long[2] if isinstance(long, tuple) else long))
    path, line = str(crash.path), crash.lineno
    if not _is_own(path, top):
        # Of `self.assertEqual` pytest names the standard library, which raised the error.
        own = [frame for frame in _frames(long) if _is_own(frame[0], top)]
        path, line = own[-1] if own else (path, line)
    path = path[len(top) + 1 :] if path.startswith(top + os.sep) else path
    return truncated(f"{path.replace(os.sep, '/')}:{line}: {crash.message}{more}")


def _frames(long: Any) -> Iterator[tuple[str, int]]:
    """Yield file and line of the frames that pytest shows, the last call last."""
    for entry in getattr(getattr(long, "reprtraceback", None), "reprentries", ()):
        place = getattr(entry, "reprfileloc", None)
        with contextlib.suppress(OSError):  # the working folder may be gone
            if place is not None:
                yield os.path.abspath(place.path), place.lineno


def _is_own(path: str, top: str) -> bool:
    """Return whether a file belongs to the project, not to an environment in its folder."""
    names = path[len(top) :].split(os.sep)
    is_installed = "site-packages" in names or "dist-packages" in names
    return path.startswith(top + os.sep) and not is_installed


def truncated(text: str, part: slice = FIRST) -> str:
    """Return a part of a text in UTF-8; lone surrogates, which UTF-8 lacks, become "?"."""
    return text.encode("utf-8", "replace")[part].decode("utf-8", "ignore")
