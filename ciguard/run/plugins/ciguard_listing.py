"""Listing of a suite, written from inside `pytest --collect-only`: the tests that exist.

Loaded by `-p ciguard_listing`. Standard library and pytest 7+, Python 3.8+.

    CIGUARD_COLLECT_FILE  append the inventory here, `done` as its last line

A process that goes on to run tests writes the same by `described` (`ciguard_pytest`).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Generator

import pytest

if TYPE_CHECKING:
    from ciguard.run.plugins.ciguard_messages import LAST, top_folder, truncated
else:
    from ciguard_messages import LAST, top_folder, truncated

Line = Dict[str, Any]
Wrapper = Generator[None, Any, None]

GROUP_MARK = "xdist_group"  # pytest-xdist's word for tests that run in one worker


def _group(item: pytest.Item) -> str | None:
    """Return the name of the group into which the project itself put a test."""
    marker = item.get_closest_marker(GROUP_MARK)
    if marker is None:
        return None
    name = marker.args[0] if marker.args else marker.kwargs.get("name", "default")
    return str(name)


def described(item: pytest.Item, unit: str, top: str) -> Line:
    """Return the line of a test.

    Args:
        unit: its node id, before a plugin added to it.
        top: folder that its file is named from, see `top_folder`.
    """
    file = os.path.relpath(str(item.path), top).replace(os.sep, "/")
    return {"unit": unit, "file": file, "group": _group(item)}


def _deselecting(config: pytest.Config) -> str:
    """Return the options that deselect tests; those in the ini file with the prefix `addopts`."""
    option, addopts = config.option, " ".join(config.getini("addopts"))
    given = [("-k", option.keyword), ("-m", option.markexpr)]
    given += (("--deselect", one) for one in option.deselect or ())
    words = (f"{'addopts: ' * (text in addopts)}{name} {text!r}" for name, text in given if text)
    return ", ".join(words) or "conftest.py or a plugin"


class _Listing:
    """Plugin of a session that only collects: lists tests, and files that could not be read."""

    def __init__(self, path: str, config: pytest.Config) -> None:
        self._path = path
        self._config, self._root = config, str(config.rootpath)
        self._top = top_folder(self._root, str(config.invocation_params.dir))
        self._lines: list[Line] = []
        self._omitted: dict[str, dict[str, int]] = {}  # by reason and file, the tests deselected

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            message = truncated(report.longreprtext, LAST)
            self._lines.append({"error": report.nodeid, "message": message})
        elif report.skipped and isinstance(report.longrepr, tuple):  # by itself, as it is imported
            words = report.longrepr[2]  # `Skipped: needs jinja`
            reason = words.partition(": ")[2] or words
            self._omit(os.path.join(self._root, report.nodeid), reason, tests=0)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        reason = _deselecting(self._config)
        for item in items:
            self._omit(str(item.path), reason, tests=1)

    def _omit(self, path: str, reason: str, tests: int) -> None:
        file = os.path.relpath(path, self._top).replace(os.sep, "/")
        files = self._omitted.setdefault(truncated(reason, LAST), {})
        files[file] = files.get(file, 0) + tests

    # Around the whole of it: `done` must mean that every plugin had its say on what is selected.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Wrapper:
        ended = yield
        if ended.excinfo is None:
            self._lines += (described(item, item.nodeid, self._top) for item in session.items)
            self._lines.append({"done": True, "rootdir": self._top, "omitted": self._omitted})
        else:
            message = truncated(f"{ended.excinfo[0].__name__}: {ended.excinfo[1]}", LAST)
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
