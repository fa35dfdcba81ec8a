"""Jobs that GitHub ended at their `timeout-minutes`, by name.

A death at the limit is known from an annotation; without annotations, from the wall time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.repository_runs import RepositoryRuns
from ciguard.audit.rules.base import Evidence, RuleFinding
from ciguard.guard.log_patterns import first_match
from ciguard.model.jobs import Job
from ciguard.text import count_of, duration

COUNTED: Final = ("job", "died at a limit")
CAVEATS: Final = {
    "no-annotation": "no annotation names the limit; the wall time is that of the limit",
}
# GitHub ends a job some seconds before or after its limit; 20 to 40 s after it is usual.
EARLY_S: Final = 5.0
LATE_S: Final = 120.0
MAX_EVIDENCE: Final = 5
_STOPPED: Final = frozenset({"cancelled", "timed_out"})


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each name of a job that died at its limit, the most deaths first."""
    declared = DeclaredJobs(repository.workflows)
    findings = []
    for workflow in repository.test_workflows:
        for name, jobs in repository.jobs_by_name(workflow).items():
            declared_job = declared.find(workflow, name)
            limit_s = declared_job.limit_s if declared_job is not None else None
            deaths = [(run, job, _death(job, repository, limit_s)) for run, job in jobs]
            dead = [(run, job) for run, job, proof in deaths if proof is not None]
            if not dead:
                continue
            annotated = sum(proof == "annotation" for *_, proof in deaths)
            facts = {
                "died": len(dead),
                "executions": len(jobs),
                "inferred": len(dead) - annotated,
                "limit_s": limit_s,
                "workflow": workflow,
            }
            shown = dead[:MAX_EVIDENCE]
            evidence = tuple(Evidence(f"run {run.id}", job.url or run.url) for run, job in shown)
            caveat = "" if annotated else "no-annotation"
            findings.append(RuleFinding(name, evidence, facts, caveat))
    yield from sorted(findings, key=lambda finding: (-finding.facts["died"], finding.subject))


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the deaths at the limit."""
    limit = "" if facts["limit_s"] is None else f" of {duration(facts['limit_s'])}"
    inferred = facts["inferred"]
    by_time = f", {inferred:,} by its wall time" if 0 < inferred < facts["died"] else ""
    executions = count_of(facts["executions"], "execution")
    return f"died at its limit{limit} in {facts['died']:,} of {executions}{by_time}"


def _death(
    job: Job, repository: RepositoryRuns, limit_s: float | None
) -> Literal["annotation", "wall_time"] | None:
    """Return the proof that a job died at its limit; None if the job did not."""
    texts = repository.annotations.get(job.id)
    match = first_match(texts or ())
    if match is not None:
        pattern, _ = match
        return "annotation" if pattern.cause == "job_limit" else None
    if texts or job.wall_s is None or limit_s is None or job.conclusion not in _STOPPED:
        return None
    return "wall_time" if limit_s - EARLY_S <= job.wall_s <= limit_s + LATE_S else None
