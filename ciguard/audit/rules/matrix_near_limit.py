"""Matrices that are close to the number of jobs that GitHub runs, or above it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.matrix import MAX_JOBS, count_combinations
from ciguard.workflow.yaml_values import jobs_of, matrix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TITLE: Final = "Matrices near GitHub's limit of 256 jobs"
CAVEATS: Final = {"expression_in_matrix": "`include` or `exclude` has an expression"}
NEAR_RATIO: Final = 0.9  # one more version of a language is the end of a matrix of that size


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find matrices with at least 90 % of the jobs that a matrix may have."""
    del required_checks  # a matrix has its limit either way
    for job_id, job in jobs_of(workflow.content).items():
        matrix = matrix_of(job)
        count = count_combinations(matrix)
        if count is None or count < NEAR_RATIO * MAX_JOBS:
            continue
        # An entry with an expression may match other combinations than its text does.
        is_open = any("${{" in str(matrix[key]) for key in ("include", "exclude") if key in matrix)
        yield RuleFinding(
            job_title(job_id, job),
            locate(workflow, (("jobs", job_id, "strategy", "matrix"), "")),
            {"combinations": count, "limit": MAX_JOBS},
            caveat="expression_in_matrix" if is_open else "",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Compare the jobs of the matrix with the limit."""
    count, limit = facts["combinations"], facts["limit"]
    refused = "; GitHub refuses the run" if count > limit else ""
    return f"{count:,} jobs of {limit} that a matrix may have{refused}"
