"""The one exception tree, and the exit codes that other programs rely on.

    CiguardError            an error that the user can fix, printed without a traceback
    ├── UsageError          2   command line or configuration
    ├── InputError          3   an input is missing, malformed or contradicts another
    ├── RemoteError         4   GitHub or the history could not be reached, or refused
    └── NothingToDo         5   there is nothing to work on

Verdicts (10 and up) are answers of a command, never exceptions. Standard library only, Python 3.8+:
the program that runs a shard contains this module.
"""

from __future__ import annotations

import enum
from typing import ClassVar, Sequence


class ExitCode(enum.IntEnum):
    """Exit codes of the process; a test compares them with docs/reference/exit-codes.md."""

    OK = 0
    BUG = 1
    USAGE = 2
    INPUT = 3
    REMOTE = 4
    NOTHING_TO_DO = 5
    TESTS_FAILED = 10
    REGRESSION = 11
    INCONCLUSIVE = 12
    INCOMPLETE = 13
    AUDIT_FINDING = 14
    INTERRUPTED = 130
    TERMINATED = 143


class CiguardError(Exception):
    """Base of errors that the user can fix; printed as what / where / fix, without a traceback.

    Args:
        what: the fault, with the value found.
        where: file:line, URL, key or test id; "" for no place.
        fix: the remedy; "" if unknown.
    """

    exit_code: ClassVar[ExitCode]

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{where}{self.what}{fix}"


class UsageError(CiguardError):
    """Error for an invalid command line or configuration."""

    exit_code = ExitCode.USAGE


class InputError(CiguardError):
    """Error for an input file that is missing, malformed, of a newer schema, or contradictory."""

    exit_code = ExitCode.INPUT


class RemoteError(CiguardError):
    """Error if GitHub or the history's store could not be reached, or refused a request.

    `is_lasting`: a retry would fail, too.
    """

    exit_code = ExitCode.REMOTE
    is_lasting = True


class NothingToDo(CiguardError):
    """Error if there is nothing to work on, such as no tests; the caller must notice it."""

    exit_code = ExitCode.NOTHING_TO_DO


def combine(errors: Sequence[CiguardError]) -> CiguardError:
    """Join errors, so that the user can fix all at once; the first decides the exit code."""
    if len(errors) == 1:
        return errors[0]
    lines = "\n".join(f"- {error}" for error in errors)
    return type(errors[0])(f"{len(errors)} problems\n{lines}")
