"""GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`.

A launcher starts the programs for the leg, and follows what they print. Of several programs in one
suite, each unit begins with the program's name: `[sums_test] Sums.Adds`.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import command
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Invocation, Listing, variant_args

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

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
NOT_STARTED: Final = re.compile(r"^ciguard: .* cannot be started: ", re.M)  # by the launcher
PASSED, FAILED = 0, 1
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
    words = (*suite.command, *(() if suite.is_script else variant_args(suite, variant)))
    names = [os.path.basename(word) for word in suite.command if not word.startswith("-")]
    if not names:
        fix = 'set command = ["build/sums_test"], the test programs'
        raise UsageError("no test program", where=where, fix=fix)
    if len(set(names)) < len(names):
        fix = "make each program a suite of its own"
        raise UsageError(f"two programs of one name: {' '.join(names)}", where=where, fix=fix)
    for word in words:
        flag = word.lstrip("-").partition("=")[0]
        if word.startswith("-") and flag in _REFUSED:
            raise UsageError(f"the flag --{flag}", where=where, fix=_REFUSED[flag])
    return words


def _launch(suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str) -> Invocation:
    program = (sys.executable, "-I", "-S", os.path.join(inside_folder, LAUNCHER))
    return Invocation((*program, *_words(suite, variant)), env)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Asks each program for its tests; the launcher writes `answer_file`."""
    return _launch(suite, variant, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """The tests of each program in its order, without the disabled ones."""
    return read_answer(suite, answer, printed, code, "GoogleTest")


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the launcher reads the tests, and follows what the programs say of them."""
    env = {
        "CIGUARD_UNITS_FILE": batch.units_file,
        "CIGUARD_RECORD_FILE": batch.record_file,
        "CIGUARD_STOP_FILE": batch.stop_file,
        "CIGUARD_ORIGIN_S": repr(batch.origin_s),
    }
    return _launch(suite, variant, env, batch.inside_folder)


def file_of(unit: str) -> str:  # noqa: ARG001
    """A program announces its first test, and each after it."""
    return ""


def advice(output: str) -> str:
    """Where there is no such program."""
    if NOT_STARTED.search(output):
        return "build the tests first, and name their programs in the suite's command"
    return ""


def hit_own_timeout(exit_code: int, output: str) -> bool:  # noqa: ARG001
    """GoogleTest has no limits."""
    return False


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether each program ended by itself after its last test."""
    return exit_code == PASSED or (exit_code == FAILED and had_results)


def junit_name(unit: str) -> tuple[str, str]:
    """As GoogleTest writes it: the suite as the class."""
    suite, _, test = unit.rpartition("] ")[2].partition(".")
    return suite, test


def ancestors(unit: str) -> tuple[str, ...]:
    """The suite, and all before each other separator."""
    return command.ancestors(unit)
