"""CTest 3.14 and newer: a unit is a test, by its name.

A launcher calls `ctest` for the leg, as CTest has no plugins. Tests that set fixtures up or clean
up after them are no units: CTest adds them to each call that needs them.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks import command, defaults
from ciguard.run.frameworks.answers import read_answer

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite

NAME: Final = "ctest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ()  # a folder with a CMakeLists.txt may have no test
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("ctest", "--test-dir", "build")
IGNORE_FOLDER: Final = ""
UNIT: Final = "test"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # by COST, then by number
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

LAUNCHER: Final = "ciguard_ctest.py"
NO_TESTS: Final = re.compile(r"No tests were found|Failed to change working directory", re.I)
PASSED, FAILED = 0, 8
# The launcher shows what a failed test printed, whatever these say.
_OUTPUT: Final = frozenset(
    ("-V", "--verbose", "-VV", "--extra-verbose", "-Q", "--quiet", "--progress")
) | {"--output-on-failure"}
_SELECTION: Final = "name the tests to leave out in `exclude`, or use -R, -E, -L, -LE"
_DASHBOARD: Final = "ciguard runs the tests, and no dashboard"
_RETRIES: Final = "set `retries` in ciguard.toml"
# What the launcher says itself, or what changes how often a test runs.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-I", "--tests-information", "-U", "--union"), _SELECTION),
    **dict.fromkeys(("--rerun-failed", "-F", "-N", "--show-only"), _SELECTION),
    "--stop-on-failure": "a job runs all of its tests",
    **dict.fromkeys(("--repeat", "--repeat-until-fail"), _RETRIES),
    **dict.fromkeys(("-D", "--dashboard", "-M", "--test-model", "-T"), _DASHBOARD),
    **dict.fromkeys(("--test-action", "-S", "-SP", "--script", "--build-and-test"), _DASHBOARD),
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """The whole command, without flags that change what CTest prints.

    Raises:
        UsageError: it has a flag that cannot be kept.
    """
    words = defaults.whole_command(suite, variant)
    defaults.refuse_flags(words, _REFUSED, NAME)
    return tuple(word for word in words if word not in _OUTPUT)


def advice(output: str) -> str:
    """Where there is no CTest, or no build."""
    if defaults.NOT_STARTED.search(output):
        return "install CMake 3.14 or newer in the job, or set the suite's command"
    if NO_TESTS.search(output):
        return "configure and build first, and name the folder of the build: --test-dir"
    return ""


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether each call of CTest ended by itself."""
    return exit_code == PASSED or (exit_code == FAILED and had_results)


def junit_name(unit: str) -> tuple[str, str]:
    """As CTest writes it: the name as the class, too."""
    return unit, unit


def ancestors(unit: str) -> tuple[str, ...]:
    """As for names that the project's own program lists: all before each separator."""
    return command.ancestors(unit)


_launch = partial(defaults.launcher_invocation, LAUNCHER, _words)
listing = partial(defaults.listing_by, _launch)
# The tests in CTest's order.
read_listing = partial(read_answer, program=NAME)
execution = partial(defaults.execution_by, _launch)
file_of = defaults.announced_first
hit_own_timeout = defaults.reported_timeout
