"""The facts of a repository on which the rules of the audit decide: workflows, runs, jobs. Pure.

GitHub may refuse a request or the calls may be used up: `unread` lists what is not known.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ciguard.audit.rules.base import Evidence, WorkflowFile
from ciguard.errors import InputError
from ciguard.workflow.test_commands import NO_TASKS, Tasks
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ciguard.model.jobs import Job

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


def run_evidence(runs: Iterable[PastRun]) -> tuple[Evidence, ...]:
    return tuple(Evidence(f"run {run.id}", run.url) for run in runs)


def job_evidence(executions: Iterable[tuple[PastRun, Job]]) -> tuple[Evidence, ...]:
    """Return the runs of executions of jobs as evidence, with the page of the job."""
    return tuple(Evidence(f"run {run.id}", job.url or run.url) for run, job in executions)
