"""A run on GitHub: its jobs, annotations, logs, artifacts, commits and pull request.

The service has neither environment nor event: it finds the pull request of a finished run, and its
base branch, in GitHub's lists. No fact comes from a record.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from ciguard.github.api_errors import GitHubError
from ciguard.github.downloads import Budget
from ciguard.github.events import ActionsRun
from ciguard.github.models import (
    Artifact,
    Branch,
    Comparison,
    FinishedRun,
    JobAnnotation,
    PullRequest,
    RunJob,
    WorkflowRun,
)
from ciguard.model.jobs import LOG_TAIL_BYTES, Job, Step

if TYPE_CHECKING:
    from ciguard.github.client import GitHub
    from ciguard.github.repository_ref import RepositoryRef

T = TypeVar("T")

MAX_JOBS: Final = 1_000  # of all attempts, in ten calls
MAX_LISTED: Final = 1_000  # GitHub's limit of runs in a filtered list
MAX_OF_BASE: Final = 10  # of whose commits GitHub is asked
LOG_MAX_BYTES: Final = 256 * 1024 * 1024
MAX_WHOLE_LOG_BYTES: Final = 1 << 31
MAX_LOGS_BYTES: Final = 1 << 35  # of all logs of a run: more is an attack, or a mistake
# Branches of a merge queue; docs.github.com, "Managing a merge queue".
_QUEUE: Final = re.compile(r"gh-readonly-queue/(?P<base>.+)/pr-\d+-(?P<sha>[0-9a-f]{40})")


class RunClient:
    """A client for one run; every method may raise GitHubError.

    Args:
        attempt: jobs of later run attempts are left out; None for all.
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
        """List the jobs of all attempts; one call per 100.

        Not `filter=latest`: GitHub has changed whether its answer has jobs of earlier attempts that
        did not run again (r-universe-org/help#607).
        """
        return tuple(map(as_job, self.listed_jobs()))

    def listed_jobs(self) -> tuple[RunJob, ...]:
        """List the jobs of all attempts in GitHub's form."""
        path = f"{self._actions}/runs/{self._run_id}/jobs?filter=all"
        jobs = self._github.items(RunJob, path, key="jobs", limit=MAX_JOBS)
        if len(jobs) == MAX_JOBS:
            what = f"more than {MAX_JOBS - 1} jobs in all attempts: which ran last is not known"
            raise GitHubError(what, where=f"GET {path}")
        return tuple(
            job for job in jobs if self._attempt is None or job.run_attempt <= self._attempt
        )

    def annotations(self, job: Job | RunJob) -> tuple[str, ...]:
        """List the annotations of a job; at most 100, in one call.

        Needs `checks: read`. A job's id is that of its check run.
        """
        path = f"{self._repository}/check-runs/{job.id}/annotations"
        listed = self._github.items(JobAnnotation, path, limit=100)
        # GitHub's own titles only repeat the job or the file.
        return tuple(annotation.message or annotation.title or "" for annotation in listed)

    def log_end(self, job: Job) -> str:
        """Return the last lines of a job's log, which may be cut or missing (404, 410)."""
        path = f"{self._actions}/jobs/{job.id}/logs"
        return self._github.tail_text(path, tail_bytes=LOG_TAIL_BYTES, max_bytes=LOG_MAX_BYTES)

    def artifacts(self, limit: int | None = None) -> tuple[Artifact, ...]:
        """List the artifacts of all attempts; one call per 100."""
        path = f"{self._actions}/runs/{self._run_id}/artifacts"
        return self._github.items(Artifact, path, key="artifacts", limit=limit)


def completed_runs(
    github: GitHub,
    repository: str,
    *,
    workflow: str = "",
    branch: str = "",
    created_from: datetime | None = None,
    limit: int | None = None,
) -> tuple[WorkflowRun, ...]:
    """List the completed runs, the newest first; one call per 100.

    GitHub's lists end after 1,000 runs. The next list has the runs that were created before the
    oldest run of the list.

    Args:
        workflow: file name of the workflow; "" for all workflows.
        branch: branch at the head; for a fork's pull request the branch of the fork; "" for all.
        created_from: aware; only runs whose first attempt was created then or later.
        limit: number of runs; None for all.
    """
    within = f"/actions/workflows/{quote(workflow, safe='')}" if workflow else "/actions"
    of_branch = f"&branch={quote(branch, safe='')}" if branch else ""
    query = f"status=completed&exclude_pull_requests=true{of_branch}"
    path = f"/repos/{repository}{within}/runs?{query}"
    runs: dict[int, WorkflowRun] = {}
    until: datetime | None = None
    while limit is None or len(runs) < limit:
        created = _created(created_from, until)
        count, page_limit = len(runs), MAX_LISTED if limit is None else min(limit, MAX_LISTED)
        listed = github.items(WorkflowRun, path + created, key="workflow_runs", limit=page_limit)
        runs |= {run.id: run for run in listed}
        times = [run.created_at for run in listed if run.created_at is not None]
        if len(listed) < MAX_LISTED or len(runs) == count or not times:
            break
        until = min(times)
    return tuple(runs.values())[:limit]


def _created(first: datetime | None, last: datetime | None) -> str:
    """Return the part of a query for runs of a period, to the second, both ends inclusive."""
    since, until = (
        time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else ""
        for time in (first, last)
    )
    if since and until:
        return f"&created={since}..{until}"
    if since or until:
        return f"&created={'%3E%3D' if since else '%3C%3D'}{since or until}"
    return ""


def known_ancestors(github: GitHub, repository: str, old: str, new: str) -> frozenset[str]:
    """Return known ancestors of `new`, and `new` itself: at most 100, in one call.

    All commits that GitHub lists between two commits are ancestors of the later one, and so is the
    merge base. A commit that is not listed may be an ancestor too.
    """
    basehead = f"{quote(old, safe='')}...{quote(new, safe='')}"
    comparison = github.item(Comparison, f"/repos/{repository}/compare/{basehead}?per_page=100")
    return frozenset(
        {new, comparison.merge_base_commit.sha, *(commit.sha for commit in comparison.commits)}
    )


def branch_distance(
    github: GitHub, repository: str, branch: str
) -> Callable[[str | None], int | None]:
    """Return how many commits a commit is behind the tip of a branch; None if it is not on it.

    Costs one call now, and one for each commit but the tip.

    The `head_branch` of a run proves nothing: for a run of a tag, it is the name of the tag.

    Raises:
        GitHubError: GitHub refused or did not answer; so does the test.
    """
    # By its SHA: GitHub could resolve the name to a tag.
    tip = github.item(Branch, f"/repos/{repository}/branches/{quote(branch, safe='')}").commit.sha

    @cache
    def distance(sha: str | None) -> int | None:
        if sha == tip:
            return 0
        try:
            # In this direction, a commit of the branch has no commits and files to list.
            path = f"/repos/{repository}/compare/{tip}...{quote(sha or '-', safe='')}"
            found = github.item(Comparison, path)
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # deleted, or without a common ancestor
                raise
            return None
        return found.behind_by if found.status in {"behind", "identical"} else None

    return distance


def pushed_runs(distances: Mapping[int, int | None]) -> frozenset[int]:
    """Select the runs that a branch started, by run id and distance of the commit to its tip.

    A tag with the name of the branch starts runs, too. The run of a tag is recognized by a commit
    that is not on the branch, or is farther from the tip than the commit of an earlier run.
    """
    pushed, nearest = set[int](), sys.maxsize
    for run_id, distance in sorted(distances.items()):
        if distance is not None and distance <= nearest:
            pushed.add(run_id)
            nearest = distance
    return frozenset(pushed)


def runs_of_base(
    github: GitHub,
    repository: str,
    branch: str,
    events: Sequence[str],
    *,
    run: ActionsRun | None,
    workflow: str = "",
) -> tuple[WorkflowRun, ...]:
    """List completed runs that a branch started, of the first of `events` that has a run.

    Of those before `run`, its own workflow comes first, then the newest run; `workflow` is "" for
    all workflows.
    """
    own, subject = (run.subject_workflow, run.subject_run) if run is not None else ("", None)
    before, _ = subject or (sys.maxsize, 0)
    listed = completed_runs(github, repository, workflow=workflow, branch=branch, limit=100)
    # A cancelled run may lack results.
    ended = [past for past in listed if past.conclusion in {"success", "failure"}]
    ended.sort(key=lambda past: (past.workflow != own, -past.id))
    distance = branch_distance(github, repository, branch)
    # A branch of a fork may have the base's name, but its event is `pull_request`.
    for event in events:
        earlier = [past for past in ended if past.event == event and past.id < before]
        asked = earlier[: MAX_OF_BASE + 1]
        pushed = set(pushed_runs({past.id: distance(past.head_sha) for past in asked}))
        if len(asked) > MAX_OF_BASE:
            pushed.discard(asked[-1].id)  # the run before it is not known
        if pushed:
            return tuple(past for past in earlier if past.id in pushed)
    return ()


def pulls_of(github: GitHub, repository: str, sha: str) -> tuple[PullRequest, ...]:
    """List the pull requests of a commit: `workflow_run.pull_requests` is empty for forks."""
    return github.items(PullRequest, f"/repos/{repository}/commits/{quote(sha, safe='')}/pulls")


def as_job(job: RunJob) -> Job:
    """Convert a job of GitHub's form to the model's."""
    return Job(
        id=job.id,
        name=job.name,
        run_attempt=job.run_attempt,
        status=job.status,
        conclusion=job.conclusion,
        started_at=job.started_at,
        completed_at=job.completed_at,
        url=job.html_url or "",
        head_sha=job.head_sha,
        steps=tuple(
            Step(step.name, step.number, step.conclusion, step.wall_s, step.started_at)
            for step in job.steps or ()
        ),
        labels=job.labels,
    )


def read_job_logs(
    github: GitHub, repository: str, jobs: Sequence[Job], read: Callable[[IO[bytes] | None, Job], T]
) -> list[T]:
    """Download the log of each job to a temporary file, and return the results of `read` in order.

    GitHub also packs all logs of a run into one archive. Its files have shortened names of jobs, in
    a form that has changed (cli/cli#11109), and large archives break off (cli/cli#11059). The token
    needs `actions: read` for either.

    Args:
        read: receives None if GitHub has no log, as for some cancelled jobs and for old ones.

    Raises:
        GitHubError: GitHub refused, or did not answer.
    """
    results: dict[int, T] = {}

    def add(position: int, stream: IO[bytes]) -> None:
        results[position] = read(stream, jobs[position])

    paths = [(f"/repos/{repository}/actions/jobs/{job.id}/logs", "") for job in jobs]
    budget = Budget(MAX_LOGS_BYTES)
    errors = github.download_all(paths, add, max_bytes=MAX_WHOLE_LOG_BYTES, budget=budget)
    for position, error in errors.items():
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise error
        results[position] = read(None, jobs[position])
    return [results[position] for position in range(len(jobs))]


def pull_of_run(github: GitHub, repository: str, run: FinishedRun) -> PullRequest | None:
    """Find the pull request whose head a run tested: an open one, otherwise the newest.

    Raises:
        GitHubError: GitHub refused or did not answer.
    """
    if run.event != "pull_request" or not run.head_sha:
        return None
    pulls = [
        pull
        for pull in pulls_of(github, repository, run.head_sha)
        if is_head(run, pull, repository)
    ]
    return max(pulls, key=lambda pull: (pull.state == "open", pull.number), default=None)


def is_head(run: FinishedRun, pull: PullRequest, repository: str) -> bool:
    """Return whether a run tested the head of a pull request of this repository.

    Several pull requests may have the same commit; branch and repository distinguish them.
    """
    head, base = pull.head, pull.base.repo
    return (
        head.sha == run.head_sha
        and head.ref == run.head_branch
        and base is not None
        and base.full_name.lower() == repository.lower()
        and head.repo is not None
        and head.repo.full_name.lower() == run.repository.lower()
    )


def actions_run(
    repository_ref: RepositoryRef, run: FinishedRun, pull: PullRequest | None, default_branch: str
) -> ActionsRun:
    """Describe a finished run as its own jobs would see it.

    Args:
        run: one attempt of the run.
        pull: pull request that the run tested; None if GitHub knows none any more.
    """
    queue = _QUEUE.fullmatch(run.head_branch or "") if run.event == "merge_group" else None
    head, merge = run.head_repository, pull.merge_commit_sha if pull is not None else None
    base_branch = pull.base.ref if pull is not None else None
    is_proposal = run.event == "pull_request"
    return ActionsRun(
        repository=repository_ref.repository,
        api_url=repository_ref.api_url,
        server_url=repository_ref.server_url,
        workflow=run.workflow,
        run_id=run.id,
        run_attempt=run.run_attempt or 1,
        event=run.event,
        head_sha=run.head_sha,
        # Of an open pull request, GitHub's merge is checked out.
        tested_sha=merge if pull and pull.state == "open" and merge else run.head_sha,
        branch=run.head_branch,
        base_branch=base_branch or (queue["base"] if queue else default_branch),
        pull_request=pull.number if pull else None,
        is_fork=is_proposal and run.repository.lower() != repository_ref.repository.lower(),
        base_sha=pull.base.sha if pull else queue["sha"] if queue else None,
        head_repository=run.repository or None if is_proposal else None,
        head_repository_id=head.id if head and is_proposal else None,
    )


def open_pulls(
    run: FinishedRun, pulls: Sequence[PullRequest], repository: str
) -> tuple[PullRequest, ...]:
    """Select the open pull requests whose head the run tested."""
    return tuple(pull for pull in pulls if pull.state == "open" and is_head(run, pull, repository))
