"""The names under which GitHub reports the jobs of a workflow as checks. Pure.

Each combination of a matrix is a check, named by the job's `name`, or by its id and the label of
the combination. A job that is skipped before its matrix is expanded is one check without a label.
Sources: the workflow parser in actions/runner, actions/runner#952.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count
from typing import Any, Final

from ciguard.errors import InputError
from ciguard.workflow.matrix import combinations, fill
from ciguard.workflow.yaml_values import get, jobs_of, matrix_of

CHECK: Final = "ciguard"  # the check to require


def has_matrix(job: Any) -> bool:
    return bool(get(get(job, "strategy"), "matrix"))


def unexpanded_name(job_id: str, job: Any) -> str:
    """Return the name of a job's check when the job is skipped."""
    name = get(job, "name")
    return name if isinstance(name, str) and name else job_id


def names_check(job_id: str, job: Any, check: str) -> bool:
    """Return whether a job that runs reports a check of that name.

    If an expression computes the matrix, any label in brackets counts. A job that calls a workflow
    reports every check whose name begins with the job's name.
    """
    job_name = unexpanded_name(job_id, job)
    is_caller = isinstance(get(job, "uses"), str)
    name, called, _ = check.rpartition(" / ") if is_caller else (check, "called", "")
    if not called:
        return False
    if not has_matrix(job):
        return name == job_name
    names = _combination_names(job_name, job)
    is_labelled = name.startswith(f"{job_name} (") and name.endswith(")")
    return name in names if names is not None else is_labelled


def _combination_names(job_name: str, job: Any) -> frozenset[str] | None:
    """Return the names of a matrix' jobs; None if an expression computes them."""
    try:
        entries = combinations(matrix_of(job))
    except InputError:
        return None
    template = job_name if "${{" in job_name else ""
    names = {
        fill(template, entry.values, index) if template else f"{job_name} ({entry.label})"
        for index, entry in enumerate(entries)
    }
    return None if any("${{" in name for name in names) and not template else frozenset(names)


def report_check(job: str, others: Iterable[Any]) -> str:
    """Return a name for the check of a moved job's report that no job of other workflows has."""
    taken = {unexpanded_name(name, value) for it in others for name, value in jobs_of(it).items()}
    names = chain((CHECK, f"{CHECK} ({job})"), (f"{CHECK} ({job} {at})" for at in count(2)))
    return next(name for name in names if name not in taken)
