"""Writes down what pytest collects: the inventory of a suite, from inside `pytest --collect-only`.

Loaded by `-p ciguard_listing`. Standard library and pytest 7+, Python 3.8+.

    CIGUARD_COLLECT_FILE  append the inventory here, `done` as its last line

A process that goes on to run tests writes the same by `described` (`ciguard_pytest`).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Generator, List, Optional

import pytest

if TYPE_CHECKING:
    from ciguard.run.plugins.ciguard_messages import top_folder
else:
    from ciguard_messages import top_folder

Line = Dict[str, Any]
Wrapper = Generator[None, Any, None]

LAST_BYTES = 4096  # of a message
GROUP_MARK = "xdist_group"  # pytest-xdist's word for tests that run in one worker


def _last(text: str) -> str:
    """Its end in UTF-8; lone surrogates, which no file can hold, become question marks."""
    return text.encode("utf-8", "replace")[-LAST_BYTES:].decode("utf-8", "ignore")


def _group(item: pytest.Item) -> Optional[str]:
    """The name of the group that the project itself put a test into."""
    marker = item.get_closest_marker(GROUP_MARK)
    if marker is None:
        return None
    name = marker.args[0] if marker.args else marker.kwargs.get("name", "default")
    return str(name)


def described(item: pytest.Item, unit: str, top: str) -> Line:
    """The line of a test.

    Args:
        unit: its node id, before a plugin added to it.
        top: folder that its file is named from, see `top_folder`.
    """
    file = os.path.relpath(str(item.path), top).replace(os.sep, "/")
    return {"unit": unit, "file": file, "group": _group(item)}


class _Listing:
    """The plugin of a session that only collects: what exists, and what could not be read."""

    def __init__(self, path: str, config: pytest.Config) -> None:
        self._path = path
        self._top = top_folder(str(config.rootpath), str(config.invocation_params.dir))
        self._lines: List[Line] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            message = _last(report.longreprtext)
            self._lines.append({"error": report.nodeid, "message": message})

    # Around the whole of it: `done` must mean that every plugin had its say on what is selected.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Wrapper:
        ended = yield
        if ended.excinfo is None:
            self._lines += (described(item, item.nodeid, self._top) for item in session.items)
            self._lines.append({"done": True, "rootdir": self._top})
        else:
            message = _last(f"{ended.excinfo[0].__name__}: {ended.excinfo[1]}")
            self._lines.append({"error": "", "message": message})
        # Appended: a second session must not replace the answer of the first.
        with open(self._path, "a", encoding="ascii", newline="\n") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in self._lines)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Wrapper:
    # pytest-cov would erase the data of the last real run, and write reports on nothing.
    options = early_config.known_args_namespace
    if getattr(options, "cov_source", None):
        options.no_cov = True
    yield


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("CIGUARD_COLLECT_FILE")
    if path and config.option.collectonly:
        config.pluginmanager.register(_Listing(os.path.abspath(path), config), "ciguard-listing")
