"""PHPUnit 9 and newer: a unit is the file of a test class, its tests and data sets are cases.

A launcher runs PHPUnit for the leg, with a copy of the project's configuration that names the files
of a batch, and follows its TeamCity log. PHPUnit loads all files before the first test.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Framework, loaded_before, variant_args
from ciguard.run.frameworks.invocations import execution_by, launcher_invocation, listing_by

if TYPE_CHECKING:
    from ciguard.model import Suite

PROGRAM: Final = re.compile(r"(?:^|[\\/])(?:simple-)?phpunit(?:[-.][\w.-]*)?$")


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


_launch = partial(launcher_invocation, "ciguard_phpunit.py", _words)
PHPUNIT: Final = Framework(
    "phpunit",
    unit="file",
    listing=partial(listing_by, _launch),
    # Paths from the suite's folder, in PHPUnit's order.
    read_listing=partial(read_answer, program="PHPUnit"),
    execution=partial(execution_by, _launch),
    default_command=("vendor/bin/phpunit",),
    file_patterns=("*Test.php", "*.phpt"),
    failed_codes=(1, 2),  # failures; errors
    hints=(
        (
            "^ciguard: .* cannot be started: No such file"
            "|set up the project dependencies using Composer",
            "install the project's packages first (composer install), or set the suite's command",
        ),
    ),
    file_of=loaded_before,
)
