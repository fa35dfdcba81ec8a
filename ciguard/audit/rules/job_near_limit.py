"""Jobs whose successful executions come close to their `timeout-minutes`.

A job is reported if the 95th percentile of at least 5 executions is 80 % of the limit or more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.repository_runs import job_evidence
from ciguard.audit.rules.base import RuleFinding
from ciguard.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns
    from ciguard.model.jobs import Job

COUNTED: Final = ("job", "close to a limit")
CAVEATS: Final = {
    "few-executions": "fewer than 20 executions: the longest counts as the 95th percentile",
    "limit-changed": "an execution succeeded above the limit, which was another one then",
}
MIN_EXECUTIONS: Final = 5
SURE_EXECUTIONS: Final = 20  # with fewer, the 95th percentile is the longest of them
NEAR_RATIO: Final = 0.8
_PERCENTILE: Final = 0.95
MAX_EVIDENCE: Final = 3


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each name of a job that comes close to its limit, the closest first."""
    declared = DeclaredJobs(repository.workflows)
    findings: list[RuleFinding] = []
    for workflow in repository.test_workflows:
        for name, jobs in repository.jobs_by_name(workflow).items():
            job = declared.find(workflow, name)
            succeeded = [run_job for run_job in jobs if run_job[1].conclusion == "success"]
            limit_s = job.limit_s if job is not None else None
            if limit_s is not None and len(succeeded) >= MIN_EXECUTIONS:
                findings += _near_limit(name, workflow, succeeded, limit_s)
    yield from sorted(findings, key=lambda item: -item.facts["p95_s"] / item.facts["limit_s"])


def sentence(facts: Mapping[str, Any]) -> str:
    """Compare the 95th percentile with the limit."""
    ratio = facts["p95_s"] / facts["limit_s"]
    times = f"{duration(facts['p95_s'])} of {duration(facts['limit_s'])}"
    executions = count_of(facts["executions"], "successful execution")
    return f"95th percentile {times} ({100 * ratio:.0f} %), n = {executions}"


def _near_limit(
    name: str, workflow: str, jobs: Sequence[tuple[PastRun, Job]], limit_s: float
) -> Iterator[RuleFinding]:
    walls_s = sorted(job.wall_s for _, job in jobs if job.wall_s is not None)
    if not walls_s:
        return
    p95_s = walls_s[math.ceil(_PERCENTILE * len(walls_s)) - 1]
    if p95_s < NEAR_RATIO * limit_s:
        return
    caveat = "few-executions" if len(walls_s) < SURE_EXECUTIONS else ""
    if walls_s[-1] > limit_s + 60.0:  # a success beyond the limit had another limit
        caveat = "limit-changed"
    longest = sorted(jobs, key=lambda job: -(job[1].wall_s or 0.0))[:MAX_EVIDENCE]
    yield RuleFinding(
        subject=name,
        evidence=job_evidence(longest),
        facts={
            "p95_s": p95_s,
            "longest_s": walls_s[-1],
            "limit_s": limit_s,
            "executions": len(walls_s),
            "workflow": workflow,
        },
        caveat=caveat,
    )
