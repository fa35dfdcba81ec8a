"""cargo-nextest: a unit is a test of a test binary, `shop::prices rounds_up`, as nextest prints it.

nextest has no plugins, so a launcher runs `cargo nextest run`. Each job builds all tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Mapping

from ciguard.errors import UsageError
from ciguard.model import Suite
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

# Options that the launcher sets itself, or that exclude tests from a run but not from a listing.
REFUSED: Final[Mapping[str, str]] = {
    "--partition": "ciguard divides the tests",
    "--nocapture": "without the output of a test, no exit code 0 can be told from a pass",
    "--no-capture": "without the output of a test, no exit code 0 can be told from a pass",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command.

    Raises:
        UsageError: the command is not `cargo nextest run`, or has a refused option.
    """
    words = whole_command(suite, variant)
    where = "framework nextest"
    if "nextest" not in words or "run" not in words[words.index("nextest") :]:
        fix = 'set command = ["cargo", "nextest", "run"], and its options as args'
        what = f"no `cargo nextest run`: {' '.join(words)!r:.200}"
        raise UsageError(what, where=where, fix=fix)
    refuse_flags(words, REFUSED, "nextest")
    return words


def ancestors(unit: str) -> tuple[str, ...]:
    """Return the modules of the test, from the inside out, its binary, and "" for all."""
    binary, space, test = unit.partition(" ")
    modules = test.split("::")[:-1]
    names = ["::".join(modules[:count]) for count in range(len(modules), 0, -1)]
    inner = (f"{binary} {name}::" for name in names)
    return (*inner, *((f"{binary} ",) if space else ()), "")


NEXTEST: Final = replace(
    launcher_row("nextest", "nextest", _words),
    unit="test of a binary",
    # The tests that options and default filter select; `file` is the folder of the package.
    default_command=("cargo", "nextest", "run"),
    file_patterns=(),  # any file may have tests
    failed_codes=(100,),
    hints=(
        (NOT_STARTED, "install Rust in the job (rustup), or set the suite's command"),
        (
            "^error: no such (?:sub)?command: `nextest`",
            "install cargo-nextest in the job (https://nexte.st/docs/installation)",
        ),
    ),
    junit_name=lambda unit: unit.partition(" ")[::2],  # as nextest's: the binary is the class
    ancestors=ancestors,
)
