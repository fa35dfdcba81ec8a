"""CTest 3.14 and newer: a unit is a test, by its name.

CTest has no plugins, so a launcher calls `ctest`. Tests that set up or clean up fixtures are no
units: CTest adds them to each call that needs them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.run.frameworks import command
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

if TYPE_CHECKING:
    from ciguard.model import Suite

# Dropped: the launcher always shows the output of failed tests.
_OUTPUT: Final = frozenset(
    ("-V", "--verbose", "-VV", "--extra-verbose", "-Q", "--quiet", "--progress")
) | {"--output-on-failure"}
_SELECTION: Final = "name the tests to leave out in `exclude`, or use -R, -E, -L, -LE"
_DASHBOARD: Final = "ciguard runs the tests, and no dashboard"
_RETRIES: Final = "set `retries` in ciguard.toml"
# Flags that the launcher sets itself, or that change how often a test runs.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-I", "--tests-information", "-U", "--union"), _SELECTION),
    **dict.fromkeys(("--rerun-failed", "-F", "-N", "--show-only"), _SELECTION),
    "--stop-on-failure": "a job runs all of its tests",
    **dict.fromkeys(("--repeat", "--repeat-until-fail"), _RETRIES),
    **dict.fromkeys(("-D", "--dashboard", "-M", "--test-model", "-T"), _DASHBOARD),
    **dict.fromkeys(("--test-action", "-S", "-SP", "--script", "--build-and-test"), _DASHBOARD),
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command without the flags for output.

    Raises:
        UsageError: the command has a refused flag.
    """
    words = whole_command(suite, variant)
    refuse_flags(words, _REFUSED, "ctest")
    return tuple(word for word in words if word not in _OUTPUT)


CTEST: Final = replace(
    launcher_row("ctest", "ctest", _words, "ciguard_ctest.py", "ciguard_gtest_stream.py"),
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
