"""The run of the same pull request before the one that is judged: which it is, and its values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec.record.reader import read_records
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.github.client import PAGE_SIZE, GitHub
from ciguard.github.models import Artifact, UploadingRun
from ciguard.sources.artifacts import download

if TYPE_CHECKING:
    from ciguard.github.events import ActionsRun
    from ciguard.model import Record

VALUES: Final = "ciguard-values-"
VALUES_DIGITS: Final = 24
VALUES_LIMITS: Final = ArchiveLimits(members=10, bytes=1 << 28)


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """What the run of the same pull request before this one measured: it confirms what this shows.

    Each report uploads the values that its successor needs as one artifact, whose name both can
    tell from workflow, repository and branch: one call finds it, one downloads it, however many
    legs there were. They are the pull request's own claim, as its records are, and never become a
    baseline.
    """

    run_id: int
    records: tuple[Record, ...]


def artifact_name(run: ActionsRun) -> str:
    """What the values of this pull request are called; "" of a run that belongs to none.

    A digest, for a branch may be called by what no artifact may be called.
    """
    head, branch = run.subject_head_repository, run.subject_branch
    if head is None or not branch:
        return ""
    identity = "\n".join((run.subject_workflow, head.lower(), branch))
    return (
        VALUES
        + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:VALUES_DIGITS]
    )


def load_previous_run(github: GitHub, run: ActionsRun, subject_run_id: int) -> PreviousRun | None:
    """The newest values of the same pull request that an earlier run left; None without any.

    Anybody's run may call an artifact by this name, so GitHub's word decides whose it is.

    Args:
        subject_run_id: the id of this run.

    Raises:
        GitHubError: it cannot be had.
        InputError: it is no archive that an honest upload makes.
    """
    name = artifact_name(run)
    if not name:
        return None
    path = f"/repos/{run.repository}/actions/artifacts?name={name}"
    listed = github.items(Artifact, path, key="artifacts", limit=PAGE_SIZE)
    found = [
        (one.workflow_run.id, one.id, one)
        for one in listed
        if one.name == name
        and not one.expired
        and one.workflow_run is not None
        and one.workflow_run.id < subject_run_id
        and _is_of(one.workflow_run, run)
    ]
    if not found:
        return None
    run_id, _, newest = max(found, key=lambda one: one[:2])
    files = download(
        github, run.repository, newest, VALUES_LIMITS, lambda name: name.endswith(".jsonl")
    )
    return PreviousRun(
        run_id, read_records((f"{newest.name}/{name}", content) for name, content in files)
    )


def _is_of(uploading: UploadingRun, run: ActionsRun) -> bool:
    if uploading.head_branch != run.subject_branch or uploading.head_repository_id is None:
        return False
    known = run.subject_head_repository_id
    if known is None and (run.subject_head_repository or "").lower() == run.repository.lower():
        known = uploading.repository_id
    return uploading.head_repository_id == known
