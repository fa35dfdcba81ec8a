"""Matrices whose longest job takes much longer than the mean, and what balance would change.

Balance shortens the wait for the longest job. GitHub bills each job for its own time, rounded up to
whole minutes, so the billed minutes hardly change: both are computed, neither is promised.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs
from ciguard.audit.rules.base import FoundAt, RuleFinding
from ciguard.model.jobs import Job, whole_minutes
from ciguard.text import duration, price

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns

TITLE: Final = "Imbalanced matrices"
CAVEATS: Final = {
    "axis-of-environments": "the axes may be environments, whose tests cannot change places",
}
MIN_EXECUTIONS: Final = 3  # of each job: one may have met a slow machine
MIN_RATIO: Final = 1.5  # longest / mean
MIN_SAVING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class MatrixJob:
    """A job of the matrix: the median of its successful executions."""

    name: str
    wall_s: float
    executions: int
    newest: FoundAt


def check_runs(past: RepositoryRuns) -> Iterator[RuleFinding]:
    """One finding for each job with a matrix, and each kind of runner that it asks for."""
    declared = DeclaredJobs(past.workflows)
    for workflow in past.test_workflows:
        groups: defaultdict[tuple[DeclaredJob, tuple[str, ...]], list[MatrixJob]] = defaultdict(
            list
        )
        jobs = past.jobs_by_name(workflow)
        for name, executions in jobs.items():
            known = declared.find(workflow, name)
            leg = _leg(name, executions)
            if known is not None and known.has_matrix and leg is not None:
                groups[known, executions[0][1].labels].append(leg)
        present = _present_names(past, workflow)
        for (job, labels), legs in groups.items():
            current = [leg for leg in legs if leg.name in present]
            yield from _imbalance(job, current, _price(past, labels))


def sentence(facts: Mapping[str, Any]) -> str:
    """Compare the longest job with the mean, and name the savings of a balance."""
    longest = f"longest {facts['longest']} {duration(facts['longest_s'])}"
    jobs = (
        f"{facts['ratio']:.1f} times the mean {duration(facts['mean_s'])} of {facts['jobs']} jobs"
    )
    saved = f"balance saves {duration(facts['saved_wall_s'])} of wall time at best"
    before, after = facts["billed_minutes"], facts["balanced_minutes"]
    if before == after:
        minutes = f"the {before:,} billed minutes stay"
    else:
        minutes = f"billed minutes {before:,} -> {after:,}"
        if facts["saved_usd"] is not None:
            side = "less" if before > after else "more"
            minutes += f" ({price(abs(facts['saved_usd']))} a run {side})"
    fewest = facts["fewest_jobs"]
    same = f"; {fewest} balanced jobs take the same wall time" if fewest < facts["jobs"] else ""
    return f"{longest}, {jobs}; {saved}, {minutes}{same}"


def _leg(name: str, executions: Sequence[tuple[PastRun, Job]]) -> MatrixJob | None:
    """Return a job of the matrix; None where too few executions succeeded."""
    found = [
        (run, job, job.wall_s)
        for run, job in executions
        if job.conclusion == "success" and job.wall_s is not None
    ]
    if len(found) < MIN_EXECUTIONS:
        return None
    run, job, _ = found[0]
    newest = FoundAt(name, job.url or run.url)
    return MatrixJob(name, median(wall_s for *_, wall_s in found), len(found), newest)


def _present_names(past: RepositoryRuns, workflow: str) -> frozenset[str]:
    """Names of the jobs in the newest run that succeeded: a shard of old may have been renamed."""
    for run in past.runs_of(workflow):
        if run.conclusion == "success" and past.jobs.get(run.id):
            return frozenset(job.name for job in past.jobs[run.id])
    return frozenset(past.jobs_by_name(workflow))


def _price(past: RepositoryRuns, labels: tuple[str, ...]) -> float | None:
    return past.usd_per_minute.get(labels[0]) if len(labels) == 1 else None


def _imbalance(
    job: DeclaredJob, legs: Sequence[MatrixJob], usd_per_minute: float | None
) -> Iterator[RuleFinding]:
    if len(legs) < 2:  # noqa: PLR2004  # one job has nothing to share with
        return
    walls_s = [leg.wall_s for leg in legs]
    mean_s, longest_s = fmean(walls_s), max(walls_s)
    if longest_s < MIN_RATIO * mean_s or longest_s - mean_s < MIN_SAVING_S:
        return
    billed = sum(map(whole_minutes, walls_s))
    balanced = len(legs) * whole_minutes(mean_s)
    usd = usd_per_minute * (billed - balanced) if usd_per_minute is not None else None
    ordered = sorted(legs, key=lambda leg: (-leg.wall_s, leg.name))
    yield RuleFinding(
        subject=job.name,
        evidence=(ordered[0].newest, ordered[-1].newest),
        facts={
            "ratio": longest_s / mean_s,
            "jobs": len(legs),
            "longest": ordered[0].name,
            "longest_s": longest_s,
            "shortest": ordered[-1].name,
            "shortest_s": ordered[-1].wall_s,
            "mean_s": mean_s,
            "saved_wall_s": longest_s - mean_s,
            "billed_minutes": billed,
            "balanced_minutes": balanced,
            "saved_usd": usd,
            "fewest_jobs": math.ceil(sum(walls_s) / longest_s),
            "executions": min(leg.executions for leg in legs),
            "workflow": job.workflow,
        },
        caveat="" if job.divides_tests else "axis-of-environments",
    )
