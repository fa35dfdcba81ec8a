"""cargo-nextest: a unit is a test of a test binary, `shop::prices rounds_up`, as nextest prints it.

A launcher runs `cargo nextest run` for the leg, as nextest has no plugins. Each job builds all.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.run.frameworks import defaults
from ciguard.run.frameworks.answers import read_answer

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import Suite

NAME: Final = "nextest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ()  # tests stand in any file
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("cargo", "nextest", "run")
IGNORE_FOLDER: Final = ""
UNIT: Final = "test of a binary"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = False  # by binary and name, or by the priorities that the project configures
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

LAUNCHER: Final = "ciguard_nextest.py"
PASSED, FAILED = 0, 100
NO_NEXTEST: Final = re.compile(r"^error: no such (?:sub)?command: `nextest`", re.M)
# What the launcher says itself, or what `cargo nextest list` would list and a run leave out.
REFUSED: Final[Mapping[str, str]] = {
    "--partition": "ciguard divides the tests",
    "--nocapture": "without the output of a test, no exit code 0 can be told from a pass",
    "--no-capture": "without the output of a test, no exit code 0 can be told from a pass",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """The whole command.

    Raises:
        UsageError: it is not `cargo nextest run`, or has an option that cannot be kept.
    """
    words = defaults.whole_command(suite, variant)
    where = "framework nextest"
    if "nextest" not in words or "run" not in words[words.index("nextest") :]:
        fix = 'set command = ["cargo", "nextest", "run"], and its options as args'
        what = f"no `cargo nextest run`: {' '.join(words)!r:.200}"
        raise UsageError(what, where=where, fix=fix)
    defaults.refuse_flags(words, REFUSED, NAME)
    return words


def advice(output: str) -> str:
    """Where there is no Rust, or no nextest."""
    if defaults.NOT_STARTED.search(output):
        return "install Rust in the job (rustup), or set the suite's command"
    if NO_NEXTEST.search(output):
        return "install cargo-nextest in the job (https://nexte.st/docs/installation)"
    return ""


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether nextest ended by itself after its last test."""
    return exit_code == PASSED or (exit_code == FAILED and had_results)


def junit_name(unit: str) -> tuple[str, str]:
    """As nextest writes it: the binary as the class."""
    binary, _, test = unit.partition(" ")
    return binary, test


def ancestors(unit: str) -> tuple[str, ...]:
    """The modules that hold the test, from the inside out, its binary, and all."""
    binary, space, test = unit.partition(" ")
    modules = test.split("::")[:-1]
    names = ["::".join(modules[:count]) for count in range(len(modules), 0, -1)]
    inner = (f"{binary} {name}::" for name in names)
    return (*inner, *((f"{binary} ",) if space else ()), "")


_launch = partial(defaults.launcher_invocation, LAUNCHER, _words)
listing = partial(defaults.listing_by, _launch)
# The tests that options and default filter select; `file` is the folder of the package.
read_listing = partial(read_answer, program=NAME)
execution = partial(defaults.execution_by, _launch)
file_of = defaults.announced_first
hit_own_timeout = defaults.reported_timeout
