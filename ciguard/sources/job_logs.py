"""The log of one job of GitHub, with the starts of its steps."""

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
    """The job whose log is read, as GitHub knows it.

    Attributes:
        title: name of the job, with its run attempt unless that is the first.
        url: address of its page.
        steps: steps that began.
    """

    title: str
    url: str
    steps: tuple[TimedStep, ...]


def read_job_log(
    github: GitHub, job: JobId, where: str, read: Callable[[IO[bytes] | None, JobLog], T]
) -> T:
    """Download the log of a job to a temporary file, and return the result of `read` for it.

    Args:
        read: receives None where GitHub has no log, as for some cancelled jobs and for old ones.

    Raises:
        GitHubError: GitHub does not know the job, or did not answer.
        InputError: the job has not ended, so that its log is incomplete.
    """
    path = f"/repos/{job.repository}/actions/jobs/{job.job_id}"
    run_job = github.item(RunJob, path)
    if run_job.status != "completed":
        fix = "wait until the job has ended"
        raise InputError(f"the job is {run_job.status}", where=where, fix=fix)
    job_log = _job_log(run_job)
    results: list[T] = []
    errors = github.download_all(
        [(f"{path}/logs", "")],
        lambda _, stream: results.append(read(stream, job_log)),
        max_bytes=MAX_LOG_BYTES,
        budget=Budget(MAX_LOG_BYTES),
    )
    for error in errors.values():
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise error
        return read(None, job_log)
    return results[0]


def _job_log(job: RunJob) -> JobLog:
    steps = tuple(
        TimedStep(step.number, step.name, step.started_at)
        for step in job.steps or ()
        if step.started_at is not None and step.conclusion != "skipped"
    )
    attempt = f", attempt {job.run_attempt}" if job.run_attempt > 1 else ""
    return JobLog(f"{job.name}{attempt}", job.html_url or "", steps)
