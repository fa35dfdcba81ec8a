"""GoogleTest 1.10 and newer: a unit is a test of a program, `Sums.Adds`, `Sums/Rows.Adds/0`.

A launcher starts the programs for the leg, and follows what they print. Of several programs in one
suite, each unit begins with the program's name: `[sums_test] Sums.Adds`.
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
    refuse_flags(words, _REFUSED, "gtest")
    return words


def junit_name(unit: str) -> tuple[str, str]:
    """As GoogleTest writes it: the suite as the class."""
    suite, _, test = unit.rpartition("] ")[2].partition(".")
    return suite, test


GTEST: Final = replace(
    launcher_row("gtest", "GoogleTest", _words, "ciguard_gtest.py"),
    unit="test of a program",
    # The tests of each program in its order, without the disabled ones.
    file_patterns=(),  # which sources are tests, the build knows
    keeps_order=False,  # in each program, as its sources have them
    hints=((NOT_STARTED, "build the tests first, and name their programs in the suite's command"),),
    junit_name=junit_name,
    ancestors=command.ancestors,  # the suite, and all before each other separator
)
