"""Frameworks of C and C++, without plugins: a launcher starts the programs and parses their output.

GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`. If a
suite has several programs, each unit begins with the program's name: `[sums_test] Sums.Adds`.
CTest 3.14 and newer: a unit is a test, by its name. Tests that set up or clean up fixtures are no
units: CTest adds them to each call that needs them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final, Mapping

from ciguard.errors import UsageError
from ciguard.model import Suite
from ciguard.run.frameworks import command
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

# Flags that exclude listed tests, or the names of tests from the output.
_GTEST_REFUSED: Final[Mapping[str, str]] = {
    "gtest_brief": "ciguard reads which tests run from what the program prints",
    "gtest_fail_fast": "a job runs all of its tests",
    "gtest_list_tests": "ciguard lists the tests itself",
    "gtest_repeat": "set `retries` in ciguard.toml",
}
# Dropped: the launcher always shows the output of failed tests.
_OUTPUT: Final = frozenset(
    ("-V", "--verbose", "-VV", "--extra-verbose", "-Q", "--quiet", "--progress")
) | {"--output-on-failure"}
_SELECTION: Final = "name the tests to leave out in `exclude`, or use -R, -E, -L, -LE"
_DASHBOARD: Final = "ciguard runs the tests, and no dashboard"
_RETRIES: Final = "set `retries` in ciguard.toml"
# Flags that the launcher sets itself, or that change how often a test runs.
_CTEST_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-I", "--tests-information", "-U", "--union"), _SELECTION),
    **dict.fromkeys(("--rerun-failed", "-F", "-N", "--show-only"), _SELECTION),
    "--stop-on-failure": "a job runs all of its tests",
    **dict.fromkeys(("--repeat", "--repeat-until-fail"), _RETRIES),
    **dict.fromkeys(("-D", "--dashboard", "-M", "--test-model", "-T"), _DASHBOARD),
    **dict.fromkeys(("--test-action", "-S", "-SP", "--script", "--build-and-test"), _DASHBOARD),
}


def _gtest_words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the programs and flags.

    Raises:
        UsageError: there is no program, two have the same name, or a flag is refused.
    """
    where = "framework gtest"
    words = whole_command(suite, variant)
    names = [os.path.basename(word) for word in suite.command if not word.startswith("-")]
    if not names:
        fix = 'set command = ["build/sums_test"], the test programs'
        raise UsageError("no test program", where=where, fix=fix)
    if len(set(names)) < len(names):
        fix = "make each program a separate suite"
        raise UsageError(f"two programs of one name: {' '.join(names)}", where=where, fix=fix)
    refuse_flags(words, _GTEST_REFUSED, "gtest")
    return words


GTEST: Final = replace(
    launcher_row("gtest", "GoogleTest", _gtest_words),
    unit="test of a program",
    # The tests of each program in its order, without the disabled ones.
    file_patterns=(),  # only the build knows which sources are tests
    hints=((NOT_STARTED, "build the tests first, and name their programs in the suite's command"),),
    # As GoogleTest writes them: the suite is the class.
    junit_name=lambda unit: unit.rpartition("] ")[2].partition(".")[::2],
    ancestors=command.ancestors,
)


def _ctest_words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command without the flags for output.

    Raises:
        UsageError: the command has a refused flag.
    """
    words = whole_command(suite, variant)
    refuse_flags(words, _CTEST_REFUSED, "ctest")
    return tuple(word for word in words if word not in _OUTPUT)


CTEST: Final = replace(
    launcher_row("ctest", "ctest", _ctest_words),
    unit="test",
    # The tests in CTest's order.
    default_command=("ctest", "--test-dir", "build"),
    file_patterns=(),  # a folder with a CMakeLists.txt may have no test
    failed_codes=(8,),
    hints=(
        (NOT_STARTED, "install CMake 3.14 or newer in the job, or set the suite's command"),
        (
            "(?i)No tests were found|Failed to change working directory",
            "configure and build first, and name the folder of the build: --test-dir",
        ),
    ),
    junit_name=lambda unit: (unit, unit),  # the test's name is also the class
    ancestors=command.ancestors,
)
