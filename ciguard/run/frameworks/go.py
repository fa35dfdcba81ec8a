"""Go: a unit is a test function of a package, `example.org/shop/cart.TestAdds`; subtests are cases.

Go has no plugins, so a launcher runs `go test -json`. The plan keeps a package together if it can:
each job that runs a part of a package builds all of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Mapping

from ciguard.errors import UsageError
from ciguard.model import Suite
from ciguard.run.frameworks.base import enclosing
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

# Flags that the launcher sets itself, or that exclude listed tests.
REFUSED: Final[Mapping[str, str]] = {
    "run": "name the tests to leave out in `exclude`",
    "skip": "name the tests to leave out in `exclude`",
    "exec": "ciguard runs the test binaries itself",
    "failfast": "a job runs all of its tests",
    "c": "ciguard runs the tests, and compiles them for that",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command.

    Raises:
        UsageError: the command is not `go test`, or has a refused flag.
    """
    words = whole_command(suite, variant)
    where = "framework go"
    if "test" not in words[1:]:
        fix = 'set command = ["go", "test", FLAGS] and args = ["./..."]'
        raise UsageError(f"no `go test`: {' '.join(words)!r:.200}", where=where, fix=fix)
    flags = words[words.index("test", 1) :]
    refuse_flags(flags[: flags.index("-args") if "-args" in flags else len(flags)], REFUSED, "go")
    return words


GO: Final = replace(
    launcher_row("go", "go test", _words),
    unit="test function of a package",
    # The tests of each package in the order of the source; `file` is the package's folder.
    default_command=("go", "test"),
    file_patterns=("*_test.go",),
    failed_codes=(1, 2),  # 2 where a package could not be built, before Go 1.24
    hints=((NOT_STARTED, "install Go in the job (actions/setup-go), or set the suite's command"),),
    # As go-junit-report and gotestsum write them: the package is the class.
    junit_name=lambda unit: unit.rpartition(".")[::2],
    ancestors=lambda unit: enclosing(unit.rpartition(".")[0]),  # the package and its folders
)
