"""Collects only the files that hold a unit of this process, so that a leg does not import a suite.

Loaded by `-p ciguard_selection` beside `ciguard_pytest`, which picks the units themselves. Paths on
the command line would restrict collecting too, but would choose another rootdir, ini-file and set
of conftests than the listing had. Standard library and pytest 7+, Python 3.8+.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Optional, Set

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class _Selected:
    """The files of the units asked for, by their path below the rootdir."""

    def __init__(self, files: Set[str], root: str) -> None:
        self._files, self._root = files, root

    def pytest_ignore_collect(self, collection_path: Path) -> Optional[bool]:
        """True leaves a file out; None leaves the decision to other plugins."""
        if collection_path.name == "__init__.py":
            return None  # a package's own file is a collector of others
        path = os.path.relpath(str(collection_path), self._root).replace(os.sep, "/")
        if path in self._files or path.startswith("../") or collection_path.is_dir():
            return None
        return True


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("CIGUARD_UNITS_FILE")
    # A pytest that a test starts inherits our variables; `ciguard_pytest` has set this one before.
    owner = os.environ.get("CIGUARD_TAKEN_BY", str(os.getpid()))
    is_ours = owner == str(os.getpid()) or hasattr(config, "workerinput")
    if not path or config.option.collectonly or not is_ours:
        return
    try:
        with open(path, encoding="utf-8") as stream:
            units = json.load(stream)
    except (OSError, ValueError):
        return  # ciguard_pytest reads it as well, and says what is wrong
    # A node id begins with its file's path; so does a doctest's or another plugin's.
    files = {str(unit).partition("::")[0] for unit in units}
    config.pluginmanager.register(_Selected(files, str(config.rootpath)), "ciguard-selected")
