"""GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`.

A launcher starts the programs and parses their output. If a suite has several programs, each unit
begins with the program's name: `[sums_test] Sums.Adds`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.errors import UsageError
from ciguard.run.frameworks import command
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

if TYPE_CHECKING:
    from ciguard.model import Suite

# Flags that exclude listed tests, or the names of tests from the output.
_REFUSED: Final[Mapping[str, str]] = {
    "gtest_brief": "ciguard reads which tests run from what the program prints",
    "gtest_fail_fast": "a job runs all of its tests",
    "gtest_list_tests": "ciguard lists the tests itself",
    "gtest_repeat": "set `retries` in ciguard.toml",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
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
        fix = "make each program a suite of its own"
        raise UsageError(f"two programs of one name: {' '.join(names)}", where=where, fix=fix)
    refuse_flags(words, _REFUSED, "gtest")
    return words


def junit_name(unit: str) -> tuple[str, str]:
    """Return the names as GoogleTest writes them: the suite is the class."""
    suite, _, test = unit.rpartition("] ")[2].partition(".")
    return suite, test


GTEST: Final = replace(
    launcher_row("gtest", "GoogleTest", _words, "ciguard_gtest.py"),
    unit="test of a program",
    # The tests of each program in its order, without the disabled ones.
    file_patterns=(),  # only the build knows which sources are tests
    hints=((NOT_STARTED, "build the tests first, and name their programs in the suite's command"),),
    junit_name=junit_name,
    ancestors=command.ancestors,
)
