"""Mocha, 8 and newer: a unit is a test file, its cases are the tests in it.

The plugin enters by NODE_OPTIONS and changes the run of Mocha's own command line: no file of the
project changes, and its own reporters go on. Mocha sorts its files by name, loads all before the
first test, and ends where one cannot be loaded; with the plugin, they run in the order of the plan,
and the other files run.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ciguard.run.frameworks import defaults, node
from ciguard.run.frameworks.answers import read_answer

NAME: Final = "mocha"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = (
    *node.TEST_FILES,
    *(f"{folder}test/*.{extension}" for folder in ("", "*/") for extension in node.EXTENSIONS),
)
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("npx", "--no", "--", "mocha")
IGNORE_FOLDER: Final = ""  # --ignore takes paths as the project's own `spec` begins them
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = True
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_mocha.cjs"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, node.SHARED_PLUGIN)

_launch = partial(node.node_invocation, PLUGIN)
listing = partial(defaults.listing_by, _launch)
read_listing = partial(read_answer, program="Mocha")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.loaded_before
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
junit_name = defaults.id_alone
ancestors = node.ancestors
advice = node.missing_packages
