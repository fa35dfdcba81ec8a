"""PHPUnit 9 and newer: a unit is the file of a test class, its tests and data sets are cases.

A launcher runs PHPUnit for the leg, with a copy of the project's configuration that names the files
of a batch, and follows its TeamCity log. PHPUnit loads all files before the first test.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ciguard.errors import UsageError
from ciguard.model import Suite
from ciguard.run.frameworks.base import loaded_before, variant_args
from ciguard.run.frameworks.plugin_protocol import launcher_row

PROGRAM: Final = re.compile(r"(?:^|[\\/])(?:simple-)?phpunit(?:[-.][\w.-]*)?$")


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command, preceded by the number of words before PHPUnit's options.

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


PHPUNIT: Final = replace(
    launcher_row("phpunit", "PHPUnit", _words),
    # Paths from the suite's folder, in PHPUnit's order.
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
