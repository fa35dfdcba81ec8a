"""Matrices whose longest job takes much longer than the mean, and what balance would change.

Balance shortens the wait for the longest job. GitHub bills each job for its own time, rounded up to
whole minutes, so the billed minutes hardly change: both are computed, neither is promised.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs
from ciguard.audit.repository_runs import PastRun, RepositoryRuns
from ciguard.audit.rules.base import Evidence, RuleFinding
from ciguard.model.jobs import Job, whole_minutes
from ciguard.text import duration

COUNTED: Final = ("job", "with an imbalanced matrix")
CAVEATS: Final = {
    "axis-of-environments": "the axes may be environments, between which tests cannot move",
}
MIN_EXECUTIONS: Final = 3  # of each job: one may have met a slow machine
MIN_RATIO: Final = 1.5  # longest / mean
MIN_SAVING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class MatrixJob:
    """A job of the matrix; `wall_s` is the median of the successful executions."""

    name: str
    wall_s: float
    newest: Evidence


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each imbalanced matrix and kind of runner."""
    declared = DeclaredJobs(repository.workflows)
    for workflow in repository.test_workflows:
        groups: dict[tuple[DeclaredJob, tuple[str, ...]], list[MatrixJob]] = defaultdict(list)
        for name, executions in repository.jobs_by_name(workflow).items():
            declared_job = declared.find(workflow, name)
            job_times = _leg(name, executions)
            if declared_job is not None and declared_job.has_matrix and job_times is not None:
                groups[declared_job, executions[0][1].labels].append(job_times)
        present = _present_names(repository, workflow)
        for (job, _), legs in groups.items():
            current = [job_times for job_times in legs if job_times.name in present]
            yield from _imbalance(job, current)


def sentence(facts: Mapping[str, Any]) -> str:
    """Compare the longest job with the mean, and name the savings of a balance."""
    longest = f"the longest job, {facts['longest']}, took {duration(facts['longest_s'])}"
    mean = f"the mean of {facts['jobs']} jobs ({duration(facts['mean_s'])})"
    jobs = f"{facts['ratio']:.1f} times {mean}"
    saved = f"balancing saves at most {duration(facts['saved_wall_s'])} of wall time"
    before, after = facts["billed_minutes"], facts["balanced_minutes"]
    minutes = f"billed minutes {before:,} -> {after:,}"
    if before == after:
        minutes = f"the {before:,} billed minutes do not change"
    fewest = facts["fewest_jobs"]
    same = f"; {fewest} balanced jobs take the same wall time" if fewest < facts["jobs"] else ""
    return f"{longest}, {jobs}; {saved}, {minutes}{same}"


def _leg(name: str, executions: Sequence[tuple[PastRun, Job]]) -> MatrixJob | None:
    """Return a job of the matrix; None if too few executions succeeded."""
    succeeded = [
        (run, job, job.wall_s)
        for run, job in executions
        if job.conclusion == "success" and job.wall_s is not None
    ]
    if len(succeeded) < MIN_EXECUTIONS:
        return None
    run, job, _ = succeeded[0]
    newest = Evidence(name, job.url or run.url)
    return MatrixJob(name, median(wall_s for *_, wall_s in succeeded), newest)


def _present_names(repository: RepositoryRuns, workflow: str) -> frozenset[str]:
    """Names of the jobs in the newest run that succeeded: a shard of old may have been renamed."""
    for run in repository.runs_of(workflow):
        if run.conclusion == "success" and repository.jobs.get(run.id):
            return frozenset(job.name for job in repository.jobs[run.id])
    return frozenset(repository.jobs_by_name(workflow))


def _imbalance(job: DeclaredJob, jobs: Sequence[MatrixJob]) -> Iterator[RuleFinding]:
    if len(jobs) < 2:  # noqa: PLR2004  # one job has nothing to share with
        return
    walls_s = [job_times.wall_s for job_times in jobs]
    mean_s, longest_s = fmean(walls_s), max(walls_s)
    if longest_s < MIN_RATIO * mean_s or longest_s - mean_s < MIN_SAVING_S:
        return
    billed = sum(map(whole_minutes, walls_s))
    balanced = len(jobs) * whole_minutes(mean_s)
    ordered = sorted(jobs, key=lambda job_times: (-job_times.wall_s, job_times.name))
    yield RuleFinding(
        subject=job.name,
        evidence=(ordered[0].newest, ordered[-1].newest),
        facts={
            "ratio": longest_s / mean_s,
            "jobs": len(jobs),
            "longest": ordered[0].name,
            "longest_s": longest_s,
            "mean_s": mean_s,
            "saved_wall_s": longest_s - mean_s,
            "billed_minutes": billed,
            "balanced_minutes": balanced,
            "fewest_jobs": math.ceil(sum(walls_s) / longest_s),
            "workflow": job.workflow,
        },
        caveat="" if job.divides_tests else "axis-of-environments",
    )
