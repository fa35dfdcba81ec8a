"""The one exception tree, and the exit codes that other programs rely on.

    CiguardError            the user can act on it: printed as what / where / fix, never a traceback
    ├── UsageError          2   command line or configuration
    ├── InputError          3   an input is missing, malformed or contradicts another
    ├── RemoteError         4   GitHub or the history could not be reached, or refused
    └── NothingToDo         5   there is nothing to work on

Verdicts (10 and up) are answers of a command, never exceptions. Standard library only, Python
3.8+: this file travels in the leg.
"""

from __future__ import annotations

import enum
from typing import ClassVar, Sequence


class ExitCode(enum.IntEnum):
    """What the process says when it ends; the README table is compared with this by a test."""

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
    """Base: the user can act on it, so it is printed without a traceback.

    Args:
        what: what is wrong, with the value seen.
        where: file:line, URL, key or test id; "" where there is none.
        fix: what to do about it; "" where only the reader can know.
    """

    exit_code: ClassVar[ExitCode]

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{place}{self.what}{advice}"


class UsageError(CiguardError):
    """The command line or the configuration says something that cannot be meant."""

    exit_code = ExitCode.USAGE


class InputError(CiguardError):
    """A file that was given is missing, malformed, of a newer schema, or contradicts another."""

    exit_code = ExitCode.INPUT


class RemoteError(CiguardError):
    """GitHub or the history's store could not be reached, or said no.

    `is_lasting`: the next call of the same kind would not do better.
    """

    exit_code = ExitCode.REMOTE
    is_lasting = True


class NothingToDo(CiguardError):
    """There is nothing to work on, and that is worth knowing (an empty inventory)."""

    exit_code = ExitCode.NOTHING_TO_DO


def combine(errors: Sequence[CiguardError]) -> CiguardError:
    """Join mistakes found in one pass, so that they are mended in one pass.

    Args:
        errors: at least one; the first decides the class and so the exit code.
    """
    if len(errors) == 1:
        return errors[0]
    lines = "\n".join(f"- {error}" for error in errors)
    return type(errors[0])(f"{len(errors)} problems\n{lines}")
