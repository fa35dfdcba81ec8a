"""Playwright Test, 1.40 and newer: a unit is a test file in a project, its cases are its tests.

The id is `[project] path`, and the path alone where the configuration names no projects. The plugin
enters by NODE_OPTIONS as one more reporter, and leaves in each project the files that are asked
for. Projects that others depend on, and their teardowns, are no units: as with Playwright's own
--shard they run whole, in every process that needs them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ciguard.run.frameworks import defaults, node
from ciguard.run.frameworks.answers import read_answer

NAME: Final = "playwright"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = node.TEST_FILES
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("npx", "--no", "--", "playwright", "test")
IGNORE_FOLDER: Final = ""
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # projects as configured, in each its files by path
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_playwright.cjs"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, node.SHARED_PLUGIN)

_launch = partial(node.node_invocation, PLUGIN)
listing = partial(defaults.listing_by, _launch)
read_listing = partial(read_answer, program=NAME)
execution = partial(defaults.execution_by, _launch)
file_of = node.path_of  # all files of a batch are read before its first test
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
junit_name = defaults.id_alone
ancestors = node.ancestors
advice = node.missing_packages
