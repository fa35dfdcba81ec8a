"""Jest, 27 and newer: a unit is a test file, its cases are the tests in it.

The plugin enters by NODE_OPTIONS and adds itself to the configuration that Jest has read: no file
of the project changes, and its own reporters go on. Jest has no way to order files by arguments,
and runs a file in its own process or in a worker by the timings of earlier runs: the plugin is the
sequencer, and runs them in one process.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ciguard.run.frameworks import defaults, node
from ciguard.run.frameworks.answers import read_answer

NAME: Final = "jest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = (
    *node.TEST_FILES,
    *(f"*__tests__/*.{extension}" for extension in node.EXTENSIONS),
)
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("npx", "--no", "--", "jest")
IGNORE_FOLDER: Final = "--testPathIgnorePatterns={}/"
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = True
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_jest.cjs"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, node.SHARED_PLUGIN)

_launch = partial(node.node_invocation, PLUGIN)
listing = partial(defaults.listing_by, _launch)
read_listing = partial(read_answer, program=NAME)
execution = partial(defaults.execution_by, _launch)
file_of = defaults.announced_first
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
junit_name = defaults.id_alone
ancestors = node.ancestors
advice = node.missing_packages
