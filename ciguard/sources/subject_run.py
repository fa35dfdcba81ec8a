"""The run that is judged: one that is named, else the one around us, or the one that a
`workflow_run` event tells of.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from ciguard.errors import UsageError
from ciguard.github.events import current_run
from ciguard.github.retry import RetryPolicy
from ciguard.model.jobs import is_github_actions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.github.events import ActionsRun
    from ciguard.github.repository_ref import RepositoryRef
    from ciguard.github.run_client import RunClient
    from ciguard.sources.artifacts import RunArtifacts

# What these calls tell only explains: a job that is billed does not wait for it as for a comment.
RETRY_POLICY: Final = RetryPolicy(attempts=3, total_s=120.0)
TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class SubjectRun:
    """`source` is None where there is no token to ask it with.

    `head_shas` are the commits that the event tells it is of; none where it tells nothing.
    `page` is the address of its repository, of a run that is named.
    """

    run_id: int
    run_attempt: int | None
    source: RunClient | None
    artifacts: RunArtifacts | None = None  # of one that is named
    head_shas: frozenset[str] = frozenset()
    page: str = ""


@contextlib.contextmanager
def open_subject_run(environ: Mapping[str, str]) -> Iterator[SubjectRun | None]:
    """Open a client for the run; None outside of a run of GitHub Actions.

    Raises:
        InputError: variables or payload are malformed.
        UsageError: the token or the API's address cannot be meant.
    """
    run = current_run(environ)
    if run is None or run.run_id is None or not is_github_actions(environ):
        yield None
        return
    run_id = run.triggering.id or run.run_id
    attempt = run.triggering.run_attempt if run.is_triggered else run.run_attempt
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    if not token:
        yield SubjectRun(run_id, attempt, None, head_shas=_head_shas(run))
        return
    # Imported here: httpx costs 0.2 s that a laptop need not pay.
    from ciguard.github.client import GitHub  # noqa: PLC0415
    from ciguard.github.run_client import RunClient  # noqa: PLC0415

    with GitHub(
        run.api_url, SecretStr(token), retry_policy=RETRY_POLICY, timeout_s=TIMEOUT_S
    ) as github:
        source = RunClient(github, run.repository, run_id)
        yield SubjectRun(run_id, attempt, source, head_shas=_head_shas(run))


def _head_shas(run: ActionsRun) -> frozenset[str]:
    """A leg says the pull request's own commit where the event has one, else GITHUB_SHA."""
    found = (run.triggering.head_sha,) if run.is_triggered else (run.head_sha, run.tested_sha)
    return frozenset(one for one in found if one)


@contextlib.contextmanager
def open_named_run(
    environ: Mapping[str, str], repository_ref: RepositoryRef, run_id: int, attempt: int | None
) -> Iterator[SubjectRun]:
    """Open a client for a run that somebody named, whose artifacts are to be had as well.

    Raises:
        UsageError: there is no token, or it or the API's address cannot be meant.
    """
    from ciguard.github.client import GitHub  # noqa: PLC0415
    from ciguard.github.run_client import RunClient  # noqa: PLC0415
    from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    if not token:
        what = "artifacts are given to nobody without a token"
        fix = "set GITHUB_TOKEN or GH_TOKEN to one that may read the repository's actions"
        raise UsageError(what, where=f"run {run_id} of {repository_ref.repository}", fix=fix)
    with GitHub(
        repository_ref.api_url, SecretStr(token), retry_policy=RETRY_POLICY, timeout_s=TIMEOUT_S
    ) as github:
        source = RunClient(github, repository_ref.repository, run_id, attempt)
        artifacts = RunArtifacts(github, repository_ref.repository, run_id, attempt)
        page = f"{repository_ref.server_url}/{repository_ref.repository}"
        yield SubjectRun(run_id, attempt, source, artifacts=artifacts, page=page)
