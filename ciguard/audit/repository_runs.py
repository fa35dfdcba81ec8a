"""The past runs of a repository, as far as they were read: what rules of the audit see. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ciguard.audit.rules.base import WorkflowFile
    from ciguard.model.jobs import Job

# Of a run; "success" and "skipped" are not red.
RED: Final = frozenset({"failure", "cancelled", "timed_out", "startup_failure"})
RAN: Final = frozenset({"success", "failure", "cancelled", "timed_out"})  # of a job
What = Literal["workflows", "required_checks", "runs", "jobs", "annotations", "test_results"]
Why = Literal["call_limit", "file_limit", "refused", "not_yaml", "skipped_after_refusal"]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that is done.

    Attributes:
        workflow: path of its file.
        branch: of its head, in `repository`: a fork's for the pull request of a fork.
        conclusion: of its last attempt, in GitHub's words.
        created_at: of its first attempt.
        ended_at: of its last attempt.
    """

    id: int
    workflow: str
    event: str
    branch: str
    repository: str
    conclusion: str
    attempt: int
    created_at: datetime
    ended_at: datetime
    url: str

    @property
    def is_red(self) -> bool:
        """It ended without success."""
        return self.conclusion in RED


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that was not read, or not all of it.

    Attributes:
        read, total: counts; `read` of `total`.
        detail: what GitHub said, or the name of a file; "" for nothing.
    """

    what: What
    why: Why
    read: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryRuns:
    """The data that was read of a repository.

    Attributes:
        repository: `owner/name`; `url` is that of its page.
        workflows: files of the default branch.
        test_workflows: paths of those whose runs were read.
        required_checks: None where they are not known.
        runs: the newest first.
        jobs: of all attempts, by the id of their run; a run whose jobs were not read has none.
        annotations: by the id of their job; a job that was not asked about has none.
        test_counts: by run, how many tests its result files name; a run without any has none.
        usd_per_minute: by label of a runner; a label without a known price has none.
        calls: requests that were made.
    """

    repository: str
    url: str
    branch: str
    workflows: tuple[WorkflowFile, ...] = ()
    test_workflows: tuple[str, ...] = ()
    required_checks: frozenset[str] | None = None
    runs: tuple[PastRun, ...] = ()
    jobs: Mapping[int, tuple[Job, ...]] = field(default_factory=dict)
    annotations: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    test_counts: Mapping[int, int] = field(default_factory=dict)
    usd_per_minute: Mapping[str, float] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    calls: int = 0

    def runs_of(self, workflow: str) -> tuple[PastRun, ...]:
        """Runs of one workflow, the newest first."""
        return tuple(run for run in self.runs if run.workflow == workflow)

    def jobs_by_name(self, workflow: str) -> dict[str, list[tuple[PastRun, Job]]]:
        """Jobs that ran, of all attempts, each once; the newest run first."""
        found: defaultdict[str, list[tuple[PastRun, Job]]] = defaultdict(list)
        for run in self.runs_of(workflow):
            for job in distinct(self.jobs.get(run.id, ())):
                if job.conclusion in RAN:
                    found[job.name].append((run, job))
        return dict(found)


def distinct(jobs: Sequence[Job]) -> Iterator[Job]:
    """Each execution once: a later attempt lists a job that was not run again once more."""
    seen = set()
    for job in sorted(jobs, key=lambda job: job.run_attempt):
        key = job.name, job.started_at, job.completed_at
        if job.started_at is None or key not in seen:
            seen.add(key)
            yield job
