"""The logs of GitHub's jobs, each by a call of its own.

GitHub also packs all logs of a run into one archive. Its files have shortened names of jobs, in a
form that has changed (cli/cli#11109), and large archives break off (cli/cli#11059). The token needs
`actions: read` for either.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final, TypeVar

from ciguard.errors import InputError
from ciguard.github.downloads import Budget
from ciguard.github.models import RunJob
from ciguard.github.run_client import as_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.github.client import GitHub
    from ciguard.model.jobs import Job
    from ciguard.sources.references import JobId

T = TypeVar("T")

MAX_LOG_BYTES: Final = 1 << 31
MAX_BYTES: Final = 1 << 35  # of all logs of a run: more is an attack, or a mistake


def read_job_log(
    github: GitHub, job: JobId, where: str, read: Callable[[IO[bytes] | None, Job], T]
) -> T:
    """Return the result of `read` for the log of a job, as `read_job_logs`.

    Raises:
        GitHubError: GitHub does not know the job, or did not answer.
        InputError: the job has not ended, so that its log is incomplete.
    """
    path = f"/repos/{job.repository}/actions/jobs/{job.job_id}"
    run_job = github.item(RunJob, path)
    if run_job.status != "completed":
        fix = "wait until the job has ended"
        raise InputError(f"the job is {run_job.status}", where=where, fix=fix)
    return read_job_logs(github, job.repository, [as_job(run_job)], read)[0]


def read_job_logs(
    github: GitHub, repository: str, jobs: Sequence[Job], read: Callable[[IO[bytes] | None, Job], T]
) -> list[T]:
    """Download the log of each job to a temporary file, and return the results of `read` in order.

    Args:
        read: receives None where GitHub has no log, as for some cancelled jobs and for old ones.

    Raises:
        GitHubError: GitHub refused, or did not answer.
    """
    results: dict[int, T] = {}

    def add(position: int, stream: IO[bytes]) -> None:
        results[position] = read(stream, jobs[position])

    paths = [(f"/repos/{repository}/actions/jobs/{job.id}/logs", "") for job in jobs]
    budget = Budget(MAX_BYTES)
    errors = github.download_all(paths, add, max_bytes=MAX_LOG_BYTES, budget=budget)
    for position, error in errors.items():
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise error
        results[position] = read(None, jobs[position])
    return [results[position] for position in range(len(jobs))]
