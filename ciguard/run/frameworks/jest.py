"""Jest, 27 and newer: a unit is a test file, its cases are the tests in it.

The plugin enters by NODE_OPTIONS and adds itself to the configuration that Jest has read: no file
of the project changes, and its own reporters go on. Jest has no way to order files by arguments,
and runs a file in its own process or in a worker by the timings of earlier runs: the plugin is the
sequencer, and runs them in one process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Invocation, Listing, enclosing
from ciguard.run.frameworks.defaults import (
    announced_first,
    batch_variables,
    ended_by_itself,
    id_alone,
    reported_timeout,
)
from ciguard.run.frameworks.node import (
    EXTENSIONS,
    SHARED_PLUGIN,
    TEST_FILES,
    missing_packages,
    node_invocation,
)

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

NAME: Final = "jest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = (
    *TEST_FILES,
    *(f"*__tests__/*.{extension}" for extension in EXTENSIONS),
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
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, SHARED_PLUGIN)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Looks for test files only; the plugin writes `answer_file`."""
    env = {"CIGUARD_COLLECT_FILE": answer_file}
    return node_invocation(suite, variant, env, os.path.join(inside_folder, PLUGIN))


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """Paths from the suite's folder, sorted."""
    return read_answer(suite, answer, printed, code, NAME)


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the plugin reads the files, orders and records."""
    plugin = os.path.join(batch.inside_folder, PLUGIN)
    return node_invocation(suite, variant, batch_variables(batch), plugin)


file_of = announced_first
hit_own_timeout = reported_timeout
is_normal_exit = ended_by_itself
junit_name = id_alone
ancestors = enclosing
advice = missing_packages
