"""GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`.

A launcher starts the programs for the leg, and follows what they print. Of several programs in one
suite, each unit begins with the program's name: `[sums_test] Sums.Adds`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import command, defaults
from ciguard.run.frameworks.answers import read_answer

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite

NAME: Final = "gtest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ()  # which sources are tests, the build knows
DEFAULT_COMMAND: Final[tuple[str, ...]] = ()
IGNORE_FOLDER: Final = ""
UNIT: Final = "test of a program"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # in each program, as its sources have them
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

LAUNCHER: Final = "ciguard_gtest.py"
# What takes tests out that were listed, or keeps the program from naming them.
_REFUSED: Final[Mapping[str, str]] = {
    "gtest_brief": "ciguard reads which tests run from what the program prints",
    "gtest_fail_fast": "a job runs all of its tests",
    "gtest_list_tests": "ciguard lists the tests itself",
    "gtest_repeat": "set `retries` in ciguard.toml",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Programs and flags.

    Raises:
        UsageError: there is no program, two have one name, or a flag cannot be kept.
    """
    where = "framework gtest"
    words = defaults.whole_command(suite, variant)
    names = [os.path.basename(word) for word in suite.command if not word.startswith("-")]
    if not names:
        fix = 'set command = ["build/sums_test"], the test programs'
        raise UsageError("no test program", where=where, fix=fix)
    if len(set(names)) < len(names):
        fix = "make each program a suite of its own"
        raise UsageError(f"two programs of one name: {' '.join(names)}", where=where, fix=fix)
    defaults.refuse_flags(words, _REFUSED, NAME)
    return words


def advice(output: str) -> str:
    """Where there is no such program."""
    if defaults.NOT_STARTED.search(output):
        return "build the tests first, and name their programs in the suite's command"
    return ""


def junit_name(unit: str) -> tuple[str, str]:
    """As GoogleTest writes it: the suite as the class."""
    suite, _, test = unit.rpartition("] ")[2].partition(".")
    return suite, test


def ancestors(unit: str) -> tuple[str, ...]:
    """The suite, and all before each other separator."""
    return command.ancestors(unit)


_launch = partial(defaults.launcher_invocation, LAUNCHER, _words)
listing = partial(defaults.listing_by, _launch)
# The tests of each program in its order, without the disabled ones.
read_listing = partial(read_answer, program="GoogleTest")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.announced_first
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
