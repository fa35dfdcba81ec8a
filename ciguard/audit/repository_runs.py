"""The facts of a repository for the rules of the audit: workflows, runs, jobs, their ends. Pure.

GitHub may refuse a request or the calls may be used up: `unread` lists what is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs
from ciguard.audit.rules.base import WorkflowFile
from ciguard.errors import InputError
from ciguard.guard.diagnosis import RUNNER_STEPS, JobEvidence, diagnose
from ciguard.guard.log_patterns import first_match
from ciguard.model.jobs import Job, last_attempts
from ciguard.workflow.test_commands import NO_TASKS, Tasks
from ciguard.workflow.yaml_values import load

FOLDER: Final = ".github/workflows"
# Conclusions of a red run, and of a job that ran.
RED: Final = frozenset({"failure", "cancelled", "timed_out", "startup_failure"})
RAN: Final = frozenset({"success", "failure", "cancelled", "timed_out"})
What = Literal["workflows", "required_checks", "runs", "jobs", "annotations"]
Why = Literal["call_limit", "refused", "not_yaml"]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A workflow run that ended.

    Attributes:
        workflow: path of the workflow file.
        branch: head branch, in `repository`: the fork for the pull request of a fork.
        conclusion: of the last attempt, in GitHub's words.
        created_at: of the first attempt.
    """

    id: int
    workflow: str
    event: str
    branch: str
    repository: str
    conclusion: str
    attempt: int
    created_at: datetime
    url: str

    @property
    def is_red(self) -> bool:
        """Return whether the run ended without success."""
        return self.conclusion in RED


@dataclass(frozen=True, slots=True)
class Unread:
    """A kind of data of which `read` of `total` items were read.

    Attributes:
        detail: answer of GitHub, or name of a file; "" for nothing.
    """

    what: What
    why: Why
    read: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryRuns:
    """The data of a repository that was read. A mapping lacks the keys that were not read.

    Attributes:
        name: `owner/name`.
        url: page of the repository.
        branch: default branch.
        workflows: files of the default branch.
        test_workflows: paths of the workflow files whose runs were read.
        required_checks: None if not known.
        runs: the newest first.
        jobs: of all attempts, by the id of the run.
        annotations: by the id of the job.
        calls: number of requests.
    """

    name: str
    url: str
    branch: str
    workflows: tuple[WorkflowFile, ...] = ()
    test_workflows: tuple[str, ...] = ()
    required_checks: frozenset[str] | None = None
    runs: tuple[PastRun, ...] = ()
    jobs: Mapping[int, tuple[Job, ...]] = field(default_factory=dict)
    annotations: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    calls: int = 0

    def runs_of(self, workflow: str) -> tuple[PastRun, ...]:
        """Return the runs of a workflow, the newest first."""
        return tuple(run for run in self.runs if run.workflow == workflow)

    def jobs_by_name(self, workflow: str) -> dict[str, list[tuple[PastRun, Job]]]:
        """Return the executions of jobs that ran, of all attempts; the newest run first."""
        executions: defaultdict[str, list[tuple[PastRun, Job]]] = defaultdict(list)
        for run in self.runs_of(workflow):
            for job in distinct(self.jobs.get(run.id, ())):
                if job.conclusion in RAN:
                    executions[job.name].append((run, job))
        return dict(executions)


def read_workflow(path: str, content: bytes, tasks: Tasks = NO_TASKS) -> WorkflowFile | Unread:
    """Read a workflow file; return the reason if it cannot be read."""
    try:
        text = content.decode("utf-8")
        return WorkflowFile(path, text, load(text, path), tasks)
    except (UnicodeDecodeError, InputError):
        return Unread("workflows", "not_yaml", 0, 1, path)


def distinct(jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield each execution once: a later attempt lists jobs that it did not run again."""
    keys = set()
    for job in sorted(jobs, key=lambda job: job.run_attempt):
        key = job.name, job.started_at, job.completed_at
        if job.started_at is None or key not in keys:
            keys.add(key)
            yield job


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
    """Return the cause of a red run: the first of `CAUSES` that one of its red jobs has."""
    if run.conclusion == "startup_failure":
        return "startup_failure"
    last = last_attempts(repository.jobs.get(run.id, ()))
    bad = [job for jobs in last.values() for job in jobs if job.conclusion in _BAD]
    declared_jobs = {job.id: declared.find(run.workflow, job.name) for job in bad}
    # An aggregation job failed because other jobs did.
    gates = {id_ for id_, found in declared_jobs.items() if found and found.is_aggregation}
    first = [job for job in bad if job.id not in gates] or bad
    texts = repository.annotations
    matches = (first_match(texts.get(job.id, ()), run_wide=True) for job in bad)
    of_run = tuple(match[1].facts["text"] for match in matches if match is not None)[:1]
    causes = {_job_cause(job, declared_jobs[job.id], texts, of_run) for job in first}
    cause: Cause = next((candidate for candidate in CAUSES if candidate in causes), "unknown")
    return "cancelled" if cause == "unknown" and run.conclusion == "cancelled" else cause


def _job_cause(
    job: Job,
    declared: DeclaredJob | None,
    annotations: Mapping[int, tuple[str, ...]],
    of_run: tuple[str, ...],
) -> Cause | None:
    """Return the cause of a red job; None if another job of the run is the cause."""
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
    patterns = declared.test_steps if declared is not None else ()
    is_test = any(pattern.fullmatch(name) for pattern in patterns for name in failed)
    return "test_step" if is_test else "other_step"
