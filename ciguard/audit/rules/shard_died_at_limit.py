"""Jobs that GitHub ended at their `timeout-minutes`, by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.rules.base import FoundAt, RuleFinding
from ciguard.guard.log_patterns import first_match
from ciguard.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns
    from ciguard.model.jobs import Job

TITLE: Final = "Jobs that died at their limit"
CAVEATS: Final = {
    "no-annotation": "no annotation names the limit; the wall time is that of the limit",
}
# GitHub ends a job some seconds before or after its limit; 20 to 40 s after it is usual.
EARLY_S: Final = 5.0
LATE_S: Final = 120.0
MAX_EVIDENCE: Final = 5
_LIMIT: Final = re.compile(r"maximum execution time of (?:(\d+)h)?(?:(\d+) ?m(?:inutes)?)?")
_STOPPED: Final = frozenset({"cancelled", "timed_out"})


def check_runs(past: RepositoryRuns) -> Iterator[RuleFinding]:
    """One finding for each name of a job that died at its limit, the most deaths first."""
    declared = DeclaredJobs(past.workflows)
    found = []
    for workflow in past.test_workflows:
        for name, jobs in past.jobs_by_name(workflow).items():
            known = declared.find(workflow, name)
            limit_s = known.limit_s if known is not None else None
            deaths = [(run, job, _death(job, past, limit_s)) for run, job in jobs]
            dead = [(run, job) for run, job, how in deaths if how is not None]
            told = [job for _, job, how in deaths if how == "told"]
            if dead:
                limits = [_parse_limit_s(past.annotations[job.id]) for job in told]
                limit_s = next((limit for limit in limits if limit is not None), limit_s)
                found.append(_finding(name, workflow, dead, (len(told), len(jobs)), limit_s))
    yield from sorted(found, key=lambda one: (-one.facts["died"], one.subject))


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the deaths at the limit."""
    limit = "" if facts["limit_s"] is None else f" of {duration(facts['limit_s'])}"
    inferred = facts["inferred"]
    how = f", {inferred:,} by its wall time" if 0 < inferred < facts["died"] else ""
    executions = count_of(facts["executions"], "execution")
    return f"died at its limit{limit} in {facts['died']:,} of {executions}{how}"


def _death(
    job: Job, past: RepositoryRuns, limit_s: float | None
) -> Literal["told", "inferred"] | None:
    """Return how it is known that a job died at its limit; None where it did not."""
    texts = past.annotations.get(job.id)
    match = first_match(texts or ())
    if match is not None:
        pattern, _ = match
        return "told" if pattern.cause == "job_limit" else None
    if texts or job.wall_s is None or limit_s is None or job.conclusion not in _STOPPED:
        return None
    return "inferred" if limit_s - EARLY_S <= job.wall_s <= limit_s + LATE_S else None


def _parse_limit_s(texts: Sequence[str]) -> float | None:
    for text in texts:
        match = _LIMIT.search(text)
        if match is not None and (match[1] or match[2]):
            return 3600.0 * int(match[1] or 0) + 60.0 * int(match[2] or 0)
    return None


def _finding(
    name: str,
    workflow: str,
    dead: Sequence[tuple[PastRun, Job]],
    told_of: tuple[int, int],
    limit_s: float | None,
) -> RuleFinding:
    told, executions = told_of
    return RuleFinding(
        subject=name,
        evidence=tuple(
            FoundAt(f"run {run.id}", job.url or run.url) for run, job in dead[:MAX_EVIDENCE]
        ),
        facts={
            "died": len(dead),
            "executions": executions,
            "inferred": len(dead) - told,
            "limit_s": limit_s,
            "workflow": workflow,
        },
        caveat="" if told else "no-annotation",
    )
