"""The cause of a red run: by its jobs, their annotations, and the runs after it. Pure.

The first cause of `CAUSES` that a red job of the run has is the cause of the run. The texts of
annotations are those of guard's diagnosis of a dead job (`guard.log_patterns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from ciguard.audit.repository_runs import PastRun, RepositoryRuns, distinct
from ciguard.guard.diagnosis import RUNNER_STEPS, JobEvidence, diagnose
from ciguard.guard.log_patterns import first_match
from ciguard.model.jobs import Job, last_attempts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs


Cause = Literal[
    "test_step", "other_step", "startup_failure", "timeout", "lost_runner", "runner_shutdown",
    "out_of_memory", "disk_full", "setup_failed", "superseded", "cancelled", "unknown",
]  # fmt: skip
# By precedence, with the words of the finding.
CAUSES: Final[Mapping[Cause, str]] = {
    "test_step": "failed tests",
    "other_step": "another step failed",
    "startup_failure": "workflow not valid",
    "timeout": "time limit",
    "lost_runner": "lost runner",
    "runner_shutdown": "runner shut down",
    "out_of_memory": "out of memory",
    "disk_full": "disk full",
    "setup_failed": "runner not set up",
    "superseded": "superseded",
    "cancelled": "cancelled",
    "unknown": "unknown",
}
# Causes of a red run in which no test and no step of the project failed.
WITHOUT_FAILURE: Final[frozenset[Cause]] = frozenset(
    {"lost_runner", "runner_shutdown", "disk_full", "setup_failed", "superseded", "cancelled"}
)
_BAD: Final = frozenset({"failure", "cancelled", "timed_out"})
_GRACE: Final = timedelta(seconds=10)  # between a new run and the end of the one it replaces


@dataclass(frozen=True, slots=True)
class RedCause:
    """The cause of a red run; `is_inferred` where no text names it."""

    name: Cause
    is_inferred: bool = False


def bad_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Return the failed or stopped executions of all attempts, the longest first."""
    executions = [job for job in distinct(jobs) if job.conclusion in _BAD]
    return sorted(executions, key=lambda job: (-(job.wall_s or 0.0), job.id))


def is_evident(job: Job, declared: DeclaredJob | None) -> bool:
    """Return whether a failed step explains the end of a job, so that no annotation is needed.

    A failed test step or step of the runner does not: the machine may have died.
    """
    if job.conclusion != "failure" or _failed_step(job, declared) != "other_step":
        return False
    return not any(step.conclusion == "failure" and step.name in RUNNER_STEPS for step in job.steps)


def is_run_wide(annotations: Sequence[str]) -> bool:
    """Return whether the annotations of a job explain all jobs that were cancelled with it."""
    return first_match(annotations, run_wide=True) is not None


def red_cause(run: PastRun, repository: RepositoryRuns, declared: DeclaredJobs) -> RedCause:
    """Return the cause of a red run whose jobs were read."""
    if run.conclusion == "startup_failure":
        return RedCause("startup_failure")
    last = last_attempts(repository.jobs.get(run.id, ()))
    bad = [job for jobs in last.values() for job in jobs if job.conclusion in _BAD]
    declared_jobs = {job.id: declared.find(run.workflow, job.name) for job in bad}
    # An aggregation job failed because other jobs did.
    first = [job for job in bad if not _aggregates(declared_jobs[job.id])] or bad
    texts = repository.annotations
    of_run = _run_wide_text(bad, texts)
    causes = {_job_cause(job, declared_jobs[job.id], texts, of_run) for job in first}
    cause: Cause = next((candidate for candidate in CAUSES if candidate in causes), "unknown")
    if cause not in ("cancelled", "unknown") or run.conclusion != "cancelled":
        return RedCause(cause)
    if cause == "cancelled" and of_run:
        return RedCause(cause)
    if _is_replaced(run, repository.runs):
        return RedCause("superseded", is_inferred=True)
    return RedCause("cancelled")


def _aggregates(declared: DeclaredJob | None) -> bool:
    return declared is not None and declared.is_aggregation


def _run_wide_text(
    jobs: Sequence[Job], annotations: Mapping[int, tuple[str, ...]]
) -> tuple[str, ...]:
    for job in jobs:
        match = first_match(annotations.get(job.id, ()), run_wide=True)
        if match is not None:
            return (match[1].facts["text"],)
    return ()


def _job_cause(
    job: Job,
    declared: DeclaredJob | None,
    annotations: Mapping[int, tuple[str, ...]],
    of_run: tuple[str, ...],
) -> Cause | None:
    """Return the cause of a red job; None where another job of the run is the cause."""
    limit_s = declared.limit_s if declared is not None else None
    texts = annotations.get(job.id)
    end = diagnose(JobEvidence(job, annotations=texts, limit_s=limit_s, of_run=of_run), None)
    if end.cause is not None and end.cause.kind == "cancelled_by_fail_fast":
        return None
    cause: Cause = next((candidate for candidate in CAUSES if candidate == end.ending), "unknown")
    return cause if cause != "unknown" else _failed_step(job, declared)


def _failed_step(job: Job, declared: DeclaredJob | None) -> Cause:
    failed = [step.name for step in job.steps if step.conclusion == "failure"]
    if not failed:
        return "unknown"
    is_test = declared is not None and any(map(declared.is_test_step, failed))
    return "test_step" if is_test else "other_step"


def _is_replaced(run: PastRun, runs: Sequence[PastRun]) -> bool:
    """Return whether a newer run of the same branch began while this one still ran."""
    return any(
        run.created_at < other.created_at <= run.ended_at + _GRACE
        for other in runs
        if (other.workflow, other.event, other.repository, other.branch)
        == (run.workflow, run.event, run.repository, run.branch)
    )
