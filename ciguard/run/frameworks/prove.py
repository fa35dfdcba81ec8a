"""Perl's `prove`: a unit is a test file, with one result.

A launcher calls `prove` once for each file: a death is then that of the file, whatever wrote the
output, and a process stops between two files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.errors import UsageError
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

if TYPE_CHECKING:
    from ciguard.model import Suite

# Flags that change which files run, or write one file for all of them.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-D", "--dry"), "ciguard lists the tests itself"),
    **dict.fromkeys(("-a", "--archive"), "each call of prove would overwrite the archive"),
    **dict.fromkeys(("-s", "--shuffle"), "the plan has the order of the files"),
    "--state": "name the test files to leave out in `exclude`",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command.

    Raises:
        UsageError: the command takes no file, or a flag is refused.
    """
    if suite.is_script:
        fix = 'set command = ["prove"] in the suite, and options of prove as args'
        what = f"ciguard starts prove itself: {' '.join(suite.command)!r:.200}"
        raise UsageError(what, where="framework prove", fix=fix)
    words = whole_command(suite, variant)
    refuse_flags(words, _REFUSED, "prove")
    return words


PROVE: Final = replace(
    launcher_row("prove", "prove", _words, "ciguard_prove.py"),
    # Paths from the suite's folder, in prove's order.
    default_command=("prove", "-l", "-r"),
    file_patterns=("*.t",),
    hints=((NOT_STARTED, "install Perl with TAP::Harness, or set the suite's command"),),
)
