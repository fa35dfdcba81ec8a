"""GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`.

A launcher starts the programs for the leg, and follows what they print. Of several programs in one
suite, each unit begins with the program's name: `[sums_test] Sums.Adds`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import command
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.defaults import (
    NOT_STARTED,
    announced_first,
    batch_variables,
    ended_by_itself,
    launcher_invocation,
    refuse_flags,
    reported_timeout,
    whole_command,
)

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import Invocation, Listing, ProcessFiles

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
    words = whole_command(suite, variant)
    names = [os.path.basename(word) for word in suite.command if not word.startswith("-")]
    if not names:
        fix = 'set command = ["build/sums_test"], the test programs'
        raise UsageError("no test program", where=where, fix=fix)
    if len(set(names)) < len(names):
        fix = "make each program a suite of its own"
        raise UsageError(f"two programs of one name: {' '.join(names)}", where=where, fix=fix)
    refuse_flags(words, _REFUSED, NAME)
    return words


def _launch(suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str) -> Invocation:
    return launcher_invocation(inside_folder, LAUNCHER, _words(suite, variant), env)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Asks each program for its tests; the launcher writes `answer_file`."""
    return _launch(suite, variant, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """The tests of each program in its order, without the disabled ones."""
    return read_answer(suite, answer, printed, code, "GoogleTest")


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the launcher reads the tests, and follows what the programs say of them."""
    return _launch(suite, variant, batch_variables(batch), batch.inside_folder)


def advice(output: str) -> str:
    """Where there is no such program."""
    if NOT_STARTED.search(output):
        return "build the tests first, and name their programs in the suite's command"
    return ""


def junit_name(unit: str) -> tuple[str, str]:
    """As GoogleTest writes it: the suite as the class."""
    suite, _, test = unit.rpartition("] ")[2].partition(".")
    return suite, test


def ancestors(unit: str) -> tuple[str, ...]:
    """The suite, and all before each other separator."""
    return command.ancestors(unit)


file_of = announced_first
hit_own_timeout = reported_timeout
is_normal_exit = ended_by_itself
