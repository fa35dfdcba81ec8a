"""Playwright Test, 1.40 and newer: a unit is a test file in a project, its cases are its tests.

The id is `[project] path`, and the path alone where the configuration names no projects. The plugin
enters by NODE_OPTIONS as one more reporter, and leaves in each project the files that are asked
for. Projects that others depend on, and their teardowns, are no units: as with Playwright's own
--shard they run whole, in every process that needs them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Invocation, Listing, enclosing
from ciguard.run.frameworks.defaults import (
    batch_variables,
    ended_by_itself,
    id_alone,
    reported_timeout,
)
from ciguard.run.frameworks.node import (
    SHARED_PLUGIN,
    TEST_FILES,
    missing_packages,
    node_invocation,
)

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

NAME: Final = "playwright"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = TEST_FILES
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("npx", "--no", "--", "playwright", "test")
IGNORE_FOLDER: Final = ""
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # projects as configured, in each its files by path
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_playwright.cjs"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, SHARED_PLUGIN)
_PROJECT: Final = re.compile(r"\[.*?\] ", re.S)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Reads all test files, as `playwright test --list`; the plugin writes `answer_file`."""
    env = {"CIGUARD_COLLECT_FILE": answer_file}
    return node_invocation(suite, variant, env, os.path.join(inside_folder, PLUGIN))


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """The files of each project that have tests, in Playwright's order."""
    return read_answer(suite, answer, printed, code, NAME)


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the plugin selects and records."""
    plugin = os.path.join(batch.inside_folder, PLUGIN)
    return node_invocation(suite, variant, batch_variables(batch), plugin)


def file_of(unit: str) -> str:
    """All files of a batch are read before its first test."""
    project = _PROJECT.match(unit)
    return unit[project.end() :] if project else unit


def ancestors(unit: str) -> tuple[str, ...]:
    """The file, its folders and its project."""
    file = file_of(unit)
    project = unit[: len(unit) - len(file)]
    names = [project + name for name in enclosing(file)]
    return (*names, "") if project else tuple(names)


hit_own_timeout = reported_timeout
is_normal_exit = ended_by_itself
junit_name = id_alone
advice = missing_packages
