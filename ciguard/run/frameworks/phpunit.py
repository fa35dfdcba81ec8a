"""PHPUnit 9 and newer: a unit is the file of a test class, its tests and data sets are cases.

A launcher runs PHPUnit for the leg, with a copy of the project's configuration that names the files
of a batch, and follows its TeamCity log. PHPUnit loads all files before the first test.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import defaults
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import enclosing, variant_args

if TYPE_CHECKING:
    from ciguard.model import Suite

NAME: Final = "phpunit"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ("*Test.php", "*.phpt")
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("vendor/bin/phpunit",)
IGNORE_FOLDER: Final = ""
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = True
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

LAUNCHER: Final = "ciguard_phpunit.py"
PROGRAM: Final = re.compile(r"(?:^|[\\/])(?:simple-)?phpunit(?:[-.][\w.-]*)?$")
NOT_INSTALLED: Final = re.compile(
    r"^ciguard: .* cannot be started: No such file|set up the project dependencies using Composer",
    re.M,
)
PASSED: Final = 0
FAILED: Final = (1, 2)  # failures; errors


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """The whole command, after the number of its words before options of PHPUnit.

    Raises:
        UsageError: the command takes no options.
    """
    command = suite.command
    if suite.is_script:
        fix = 'set command = ["vendor/bin/phpunit"] in the suite, and options of PHPUnit as args'
        what = f"ciguard starts PHPUnit itself: {' '.join(command)!r:.200}"
        raise UsageError(what, where="framework phpunit", fix=fix)
    ends = [at for at, word in enumerate(command, 1) if PROGRAM.search(word)]
    count = ends[0] if ends else len(command)
    return (str(count), *command, *variant_args(suite, variant))


def advice(output: str) -> str:
    """Where there is no PHPUnit."""
    if NOT_INSTALLED.search(output):
        return "install the project's packages first (composer install), or set the suite's command"
    return ""


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether PHPUnit ended by itself after its last file."""
    return exit_code == PASSED or (exit_code in FAILED and had_results)


_launch = partial(defaults.launcher_invocation, LAUNCHER, _words)
listing = partial(defaults.listing_by, _launch)
# Paths from the suite's folder, in PHPUnit's order.
read_listing = partial(read_answer, program="PHPUnit")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.loaded_before
hit_own_timeout = defaults.reported_timeout
junit_name = defaults.id_alone
ancestors = enclosing
