"""The report of a run that could not be judged: it replaces an earlier report. Pure.

A comment, check or issue of an earlier push must not stay green. So an error ends the command only
if nothing is published; otherwise the error becomes the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.errors import CiguardError, ExitCode, InputError
from ciguard.report.view import NOT_EVALUATED, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.guard.github_facts import NeededJob


def report_of_error(error: CiguardError, *, is_published: bool = True) -> Report:
    """Return the report that replaces an earlier one; raise the error if nothing is published."""
    if not is_published:
        raise error
    return Report(None, int(error.exit_code), _describe(error), problem=NOT_EVALUATED)


def report_without_plan(error: InputError, jobs: Sequence[NeededJob] = ()) -> Report:
    """Return the report of a run without a plan, as if the planning job failed."""
    return Report(None, ExitCode.INCOMPLETE, _describe(error, jobs))


def _describe(error: CiguardError, jobs: Sequence[NeededJob] = ()) -> str:
    """Word an error as a sentence of a comment, with the needed jobs that did not succeed."""
    where = f"{error.where}: " if error.where else ""
    bad = ", ".join(f"job {job.name} is {job.result!r}" for job in jobs if job.result != "success")
    parts = [f"{where}{error.what}", bad, f"Fix: {error.fix}" if error.fix else ""]
    return ". ".join(part for part in parts if part) + "."
