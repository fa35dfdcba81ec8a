"""The whole log of one job of GitHub, with what is known of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final, TypeVar

from ciguard.errors import InputError
from ciguard.github.downloads import Budget
from ciguard.github.models import RunJob
from ciguard.logs.job_steps import TimedStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from ciguard.github.client import GitHub
    from ciguard.sources.references import JobId

T = TypeVar("T")

MAX_LOG_BYTES: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class JobLog:
    """What GitHub knows of the job whose log is read.

    Attributes:
        title: its name, with its attempt where that is not the first.
        url: of its page.
        steps: those that began.
    """

    title: str
    url: str
    steps: tuple[TimedStep, ...]


def read_job_log(
    github: GitHub, job: JobId, where: str, read: Callable[[IO[bytes] | None, JobLog], T]
) -> T:
    """Download a job's log to a temporary file, and read it there.

    Args:
        read: is given None where GitHub has no log, as of some cancelled jobs, or has it no longer.

    Raises:
        GitHubError: GitHub does not know the job, or did not answer.
        InputError: the job has not ended: its log is not whole.
    """
    path = f"/repos/{job.repository}/actions/jobs/{job.job_id}"
    found = github.item(RunJob, path)
    if found.status != "completed":
        fix = "wait until the job has ended"
        raise InputError(f"the job is {found.status}", where=where, fix=fix)
    known = _job_log(found)
    answers: list[T] = []
    lost = github.download_all(
        [(f"{path}/logs", "")],
        lambda _, stream: answers.append(read(stream, known)),
        max_bytes=MAX_LOG_BYTES,
        budget=Budget(MAX_LOG_BYTES),
    )
    for error in lost.values():
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise error
        return read(None, known)
    return answers[0]


def _job_log(job: RunJob) -> JobLog:
    steps = tuple(
        TimedStep(one.number, one.name, one.started_at)
        for one in job.steps or ()
        if one.started_at is not None and one.conclusion != "skipped"
    )
    attempt = f", attempt {job.run_attempt}" if job.run_attempt > 1 else ""
    return JobLog(f"{job.name}{attempt}", job.html_url or "", steps)
