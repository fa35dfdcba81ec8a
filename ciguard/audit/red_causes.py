"""The cause of a red run: by its jobs and their annotations. Pure.

The first cause of `CAUSES` that a red job of the run has is the cause of the run. The texts of
annotations are those of guard's diagnosis of a dead job (`guard.log_patterns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from ciguard.audit.repository_runs import PastRun, RepositoryRuns, distinct
from ciguard.guard.diagnosis import RUNNER_STEPS, JobEvidence, diagnose
from ciguard.guard.log_patterns import first_match
from ciguard.model.jobs import Job, last_attempts

if TYPE_CHECKING:
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


def red_cause(run: PastRun, repository: RepositoryRuns, declared: DeclaredJobs) -> Cause:
    if run.conclusion == "startup_failure":
        return "startup_failure"
    last = last_attempts(repository.jobs.get(run.id, ()))
    bad = [job for jobs in last.values() for job in jobs if job.conclusion in _BAD]
    declared_jobs = {job.id: declared.find(run.workflow, job.name) for job in bad}
    # An aggregation job failed because other jobs did.
    gates = {id_ for id_, found in declared_jobs.items() if found and found.is_aggregation}
    first = [job for job in bad if job.id not in gates] or bad
    texts = repository.annotations
    of_run = _run_wide_text(bad, texts)
    causes = {_job_cause(job, declared_jobs[job.id], texts, of_run) for job in first}
    cause: Cause = next((candidate for candidate in CAUSES if candidate in causes), "unknown")
    return "cancelled" if cause == "unknown" and run.conclusion == "cancelled" else cause


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
