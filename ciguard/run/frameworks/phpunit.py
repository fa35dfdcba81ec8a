"""PHPUnit 9 and newer: a unit is the file of a test class, its tests and data sets are cases.

A launcher runs PHPUnit for the leg, with a copy of the project's configuration that names the files
of a batch, and follows its TeamCity log. PHPUnit loads all files before the first test.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Invocation, Listing, enclosing, variant_args
from ciguard.run.frameworks.defaults import (
    batch_variables,
    id_alone,
    launcher_invocation,
    loaded_before,
    reported_timeout,
)

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

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


def _launch(suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str) -> Invocation:
    """The launcher with the whole command; options of PHPUnit may stand in `command`, too.

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
    words = (str(count), *command, *variant_args(suite, variant))
    return launcher_invocation(inside_folder, LAUNCHER, words, env)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Loads all tests; the launcher writes `answer_file`."""
    return _launch(suite, variant, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """Paths from the suite's folder, in PHPUnit's order."""
    return read_answer(suite, answer, printed, code, "PHPUnit")


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the launcher selects the files, and follows what PHPUnit says of them."""
    return _launch(suite, variant, batch_variables(batch), batch.inside_folder)


def advice(output: str) -> str:
    """Where there is no PHPUnit."""
    if NOT_INSTALLED.search(output):
        return "install the project's packages first (composer install), or set the suite's command"
    return ""


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether PHPUnit ended by itself after its last file."""
    return exit_code == PASSED or (exit_code in FAILED and had_results)


file_of = loaded_before
hit_own_timeout = reported_timeout
junit_name = id_alone
ancestors = enclosing
