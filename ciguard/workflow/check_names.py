"""The names under which GitHub reports the jobs of a workflow as checks. Pure.

A matrix makes a check of each combination, named by the job's `name` or by its id and the label. A
job that is skipped before its matrix is expanded has one check, named without values.
Sources: the workflow parser in actions/runner, actions/runner#952.
"""

from __future__ import annotations

from typing import Any

from ciguard.errors import InputError
from ciguard.workflow.expressions import fill
from ciguard.workflow.matrix import combinations
from ciguard.workflow.yaml_values import matrix_of


def has_matrix(job: Any) -> bool:
    strategy = job.get("strategy") if isinstance(job, dict) else None
    return isinstance(strategy, dict) and bool(strategy.get("matrix"))


def calls_workflow(job: Any) -> bool:
    """Say whether the job is another workflow, whose jobs are `CALLER / JOB`."""
    return isinstance(job, dict) and isinstance(job.get("uses"), str)


def unexpanded_name(job_id: str, job: Any) -> str:
    """The name of a job's check when it is skipped."""
    name = job.get("name") if isinstance(job, dict) else None
    return name if isinstance(name, str) and name else job_id


def names_check(job_id: str, job: Any, check: str) -> bool:
    """Say whether a job that runs reports a check of that name.

    Where a run makes the matrix, any label in brackets counts. A job that calls a workflow reports
    all that begins with its own name.
    """
    written = unexpanded_name(job_id, job)
    name, called, _ = check.rpartition(" / ") if calls_workflow(job) else (check, "called", "")
    if not called:
        return False
    if not has_matrix(job):
        return name == written
    names = _leg_names(written, job)
    is_labelled = name.startswith(f"{written} (") and name.endswith(")")
    return name in names if names is not None else is_labelled


def _leg_names(written: str, job: Any) -> frozenset[str] | None:
    """The names of a matrix' jobs; None where a run makes them."""
    try:
        found = combinations(matrix_of(job))
    except InputError:
        return None
    template = written if "${{" in written else ""
    names = {
        fill(template, one.values, index) if template else f"{written} ({one.label})"
        for index, one in enumerate(found)
    }
    return None if any("${{" in name for name in names) and not template else frozenset(names)
