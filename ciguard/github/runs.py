"""What GitHub knows of a run: its jobs, what is said of them, their logs, artifacts, commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ciguard.github.client import PAGE_SIZE
from ciguard.github.models import (
    Artifact,
    CheckAnnotation,
    Comparison,
    PullRequest,
    RunJob,
    WorkflowRun,
)
from ciguard.github.refusals import GitHubError
from ciguard.model.jobs import Job, Step

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MOST_JOBS: Final = 1_000  # of all attempts, in ten calls
LOG_KEPT_BYTES: Final = 64 * 1024  # its end: what a runner says last is a few lines
LOG_MOST_BYTES: Final = 256 * 1024 * 1024


class RunOnGitHub:
    """One run, asked call by call; every method may raise GitHubError.

    Args:
        attempt: the run as it was then: jobs of later ones are left out; None for now.
    """

    def __init__(
        self, github: GitHub, repository: str, run_id: int, attempt: int | None = None
    ) -> None:
        self._github = github
        self._actions = f"/repos/{repository}/actions"
        self._repository = f"/repos/{repository}"
        self._run_id = run_id
        self._attempt = attempt

    def jobs(self) -> tuple[Job, ...]:
        """The jobs of all attempts; one call per 100.

        Not `filter=latest`: whether that holds the jobs of an earlier attempt that were not run
        again has changed (r-universe-org/help#607).
        """
        path = f"{self._actions}/runs/{self._run_id}/jobs?filter=all"
        found = self._github.items(RunJob, path, key="jobs", most=MOST_JOBS)
        if len(found) == MOST_JOBS:
            what = f"more than {MOST_JOBS - 1} jobs in all attempts: which ran last is not known"
            raise GitHubError(what, where=f"GET {path}")
        return tuple(
            _job(one) for one in found if self._attempt is None or one.run_attempt <= self._attempt
        )

    def jobs_of(self, attempt: int) -> tuple[Job, ...]:
        """The jobs of one attempt."""
        path = f"{self._actions}/runs/{self._run_id}/attempts/{attempt}/jobs"
        return tuple(map(_job, self._github.items(RunJob, path, key="jobs", most=MOST_JOBS)))

    def annotations(self, job: Job) -> tuple[str, ...]:
        """What is said of a job, title first where there is one; at most 100, in one call.

        Needs `checks: read`. A job's id is that of its check run.
        """
        path = f"{self._repository}/check-runs/{job.id}/annotations"
        found = self._github.items(CheckAnnotation, path, most=100)
        # A title of GitHub's own only repeats the job or the file.
        return tuple(one.message or one.title or "" for one in found)

    def log_end(self, job: Job) -> str:
        """The last lines of a job's log; may be cut, or may never have come (404, 410)."""
        path = f"{self._actions}/jobs/{job.id}/logs"
        return self._github.end_of(path, kept_bytes=LOG_KEPT_BYTES, most_bytes=LOG_MOST_BYTES)

    def artifacts(self, most: int | None = None) -> tuple[Artifact, ...]:
        """All attempts' artifacts; one call per 100."""
        path = f"{self._actions}/runs/{self._run_id}/artifacts"
        return self._github.items(Artifact, path, key="artifacts", most=most)

    def artifact_names(self) -> tuple[str, ...] | None:
        """In one call; None where there are more than it shows."""
        found = self.artifacts(most=PAGE_SIZE)
        return tuple(one.name for one in found) if len(found) < PAGE_SIZE else None


def finished_runs(
    github: GitHub,
    repository: str,
    *,
    workflow: str = "",
    branch: str = "",
    event: str = "",
    most: int = 30,
) -> tuple[WorkflowRun, ...]:
    """The newest runs that are done, the newest first, in one call.

    Args:
        workflow: its file's name; "" for those of all.
        branch: its name at the head: of a fork's pull request the fork's.
    """
    asked = {"status": "completed", "branch": branch, "event": event}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items() if value)
    within = f"/actions/workflows/{quote(workflow, safe='')}" if workflow else "/actions"
    path = f"/repos/{repository}{within}/runs?{query}"
    return github.items(WorkflowRun, path, key="workflow_runs", most=most)


def known_ancestors(github: GitHub, repository: str, old: str, new: str) -> frozenset[str]:
    """Commits that are known to come before `new`, or to be it: at most 100, in one call.

    All that GitHub lists between two commits is an ancestor of the later one, and so is the commit
    at which they parted; what is not listed may be one all the same.
    """
    basehead = f"{quote(old, safe='')}...{quote(new, safe='')}"
    found = github.item(Comparison, f"/repos/{repository}/compare/{basehead}?per_page=100")
    return frozenset({new, found.merge_base_commit.sha, *(one.sha for one in found.commits)})


def pulls_of(github: GitHub, repository: str, sha: str) -> tuple[PullRequest, ...]:
    """The pull requests that hold a commit: `workflow_run.pull_requests` is empty for forks."""
    return github.items(PullRequest, f"/repos/{repository}/commits/{quote(sha, safe='')}/pulls")


def _job(found: RunJob) -> Job:
    return Job(
        id=found.id,
        name=found.name,
        run_attempt=found.run_attempt,
        status=found.status,
        conclusion=found.conclusion,
        started_at=found.started_at,
        completed_at=found.completed_at,
        url=found.html_url or "",
        head_sha=found.head_sha,
        steps=tuple(Step(one.name, one.number, one.conclusion) for one in found.steps or ()),
    )
