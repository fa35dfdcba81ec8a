"""A workflow run that has ended, as its own job would see it, by what GitHub says of it.

A service has no environment and no event: which pull request a run belongs to, and where that is
meant to go, come from GitHub's lists. Nothing of it is taken from a record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ciguard.github.events import ActionsRun
from ciguard.github.run_client import pulls_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.github.client import GitHub
    from ciguard.github.models import FinishedRun, PullRequest
    from ciguard.github.repository_ref import RepositoryRef

# Branches of a merge queue; docs.github.com, "Managing a merge queue".
_QUEUE: Final = re.compile(r"gh-readonly-queue/(?P<base>.+)/pr-\d+-(?P<sha>[0-9a-f]{40})")


def pull_of_run(github: GitHub, repository: str, run: FinishedRun) -> PullRequest | None:
    """The pull request whose head a run tested; the open one, else the newest.

    Raises:
        GitHubError: GitHub did not say.
    """
    if run.event != "pull_request" or not run.head_sha:
        return None
    found = [
        one for one in pulls_of(github, repository, run.head_sha) if is_head(run, one, repository)
    ]
    return max(found, key=lambda one: (one.state == "open", one.number), default=None)


def is_head(run: FinishedRun, pull: PullRequest, repository: str) -> bool:
    """Say whether a run tested the head of a pull request of this repository.

    Two may have the same commit: then its branch and repository say which it is.
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
    place: RepositoryRef, run: FinishedRun, pull: PullRequest | None, default_branch: str
) -> ActionsRun:
    """The run as its own job sees it, but for the job.

    Args:
        run: one attempt of it.
        pull: of a run of a pull request; None where GitHub knows none any more.
    """
    queue = _QUEUE.fullmatch(run.head_branch or "") if run.event == "merge_group" else None
    head = run.head_repository
    is_proposal = run.event == "pull_request"
    return ActionsRun(
        repository=place.repository,
        api_url=place.api_url,
        server_url=place.server_url,
        workflow=run.workflow,
        run_id=run.id,
        run_attempt=run.run_attempt or 1,
        job="",
        event=run.event,
        head_sha=run.head_sha,
        tested_sha=_tested_sha(run, pull),
        branch=run.head_branch,
        base_branch=_base_branch(pull, queue, default_branch),
        default_branch=default_branch,
        pull_request=pull.number if pull else None,
        is_fork=is_proposal and run.repository.lower() != place.repository.lower(),
        base_sha=pull.base.sha if pull else queue["sha"] if queue else None,
        head_repository=run.repository or None if is_proposal else None,
        head_repository_id=head.id if head and is_proposal else None,
    )


def _tested_sha(run: FinishedRun, pull: PullRequest | None) -> str | None:
    """What was checked out: of an open pull request the merge that GitHub made for its tests."""
    if pull is not None and pull.state == "open" and pull.merge_commit_sha:
        return pull.merge_commit_sha
    return run.head_sha


def _base_branch(pull: PullRequest | None, queue: re.Match[str] | None, default_branch: str) -> str:
    if pull is not None and pull.base.ref:
        return pull.base.ref
    return queue["base"] if queue else default_branch


def open_pulls(
    run: FinishedRun, pulls: Sequence[PullRequest], repository: str
) -> tuple[PullRequest, ...]:
    """Those whose head the run tested, and that are open."""
    return tuple(one for one in pulls if one.state == "open" and is_head(run, one, repository))
