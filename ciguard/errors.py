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
    """Exit codes of the process; their comments are the meanings in docs/reference."""

    OK = 0  #: success
    BUG = 1  #: a bug in ciguard, with a traceback
    USAGE = 2  #: wrong usage or configuration
    INPUT = 3  #: an input is missing or malformed
    REMOTE = 4  #: GitHub or the history refused a request or could not be reached
    NOTHING_TO_DO = 5  #: nothing to do
    TESTS_FAILED = 10  #: tests failed, or coverage is below its minimum
    REGRESSION = 11  #: a confirmed regression, or a worse metric
    INCONCLUSIVE = 12  #: memory, durations or metrics could not be judged
    INCOMPLETE = 13  #: a planned test has no result, or a job did not complete
    AUDIT_FINDING = 14  #: the audit found what `--fail-on` names, or could not decide it
    INTERRUPTED = 130  #: interrupted (SIGINT)
    TERMINATED = 143  #: terminated (SIGTERM)


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
