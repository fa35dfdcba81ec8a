"""Go: a unit is a test function of a package, `example.org/shop/cart.TestAdds`; subtests are cases.

A launcher runs `go test -json` for the leg, as Go has no plugins. The plan keeps a package together
where it can, as each job that runs a part of one builds all of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import defaults
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import enclosing

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite

NAME: Final = "go"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ("*_test.go",)
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("go", "test")
IGNORE_FOLDER: Final = ""
UNIT: Final = "test function of a package"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # packages as they are built, in each its tests as the source has them
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

LAUNCHER: Final = "ciguard_go.py"
PASSED, FAILED = 0, 1
# What the launcher says itself, or what takes tests out that were listed.
REFUSED: Final[Mapping[str, str]] = {
    "run": "name the tests to leave out in `exclude`",
    "skip": "name the tests to leave out in `exclude`",
    "exec": "ciguard runs the test binaries itself",
    "failfast": "a job runs all of its tests",
    "c": "ciguard runs the tests, and compiles them for that",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """The whole command.

    Raises:
        UsageError: it is not `go test`, or has a flag that cannot be kept.
    """
    words = defaults.whole_command(suite, variant)
    where = "framework go"
    if "test" not in words[1:]:
        fix = 'set command = ["go", "test", FLAGS] and args = ["./..."]'
        raise UsageError(f"no `go test`: {' '.join(words)!r:.200}", where=where, fix=fix)
    flags = words[words.index("test", 1) :]
    defaults.refuse_flags(
        flags[: flags.index("-args") if "-args" in flags else len(flags)], REFUSED, NAME
    )
    return ("run", *words)


def advice(output: str) -> str:
    """Where there is no Go."""
    if defaults.NOT_STARTED.search(output):
        return "install Go in the job (actions/setup-go), or set the suite's command"
    return ""


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether `go test` ended by itself; 2 where a package could not be built, before Go 1.24."""
    return exit_code == PASSED or (exit_code in (FAILED, 2) and had_results)


def junit_name(unit: str) -> tuple[str, str]:
    """As go-junit-report and gotestsum write it: the package as the class."""
    package, _, test = unit.rpartition(".")
    return package, test


def ancestors(unit: str) -> tuple[str, ...]:
    """The package, the folders above it, and all."""
    return enclosing(unit.rpartition(".")[0])


_launch = partial(defaults.launcher_invocation, LAUNCHER, _words)
listing = partial(defaults.listing_by, _launch)
# The tests of each package in the order of the source; `file` is the package's folder.
read_listing = partial(read_answer, program="go test")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.announced_first
hit_own_timeout = defaults.reported_timeout
