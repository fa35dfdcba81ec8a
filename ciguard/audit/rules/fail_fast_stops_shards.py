"""Shards that GitHub cancelled because another job of their matrix failed.

`strategy.fail-fast` is true by default. The tests of the cancelled jobs have no result, so the run
does not show all failures. An annotation of each cancelled job names the strategy.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs
from ciguard.audit.repository_runs import job_evidence
from ciguard.audit.rules.base import RuleFinding
from ciguard.guard.log_patterns import first_match
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns
    from ciguard.model.jobs import Job

TITLE: Final = "Shards that fail-fast cancelled"
CAVEATS: Final[Mapping[str, str]] = {}
MAX_EVIDENCE: Final = 3


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each matrix with a cancelled job, the most runs first.

    Environments are left out: the jobs of several versions run the same tests.
    """
    declared = DeclaredJobs(repository.workflows)
    cancelled: defaultdict[DeclaredJob, list[tuple[PastRun, Job]]] = defaultdict(list)
    for workflow in repository.test_workflows:
        for name, executions in repository.jobs_by_name(workflow).items():
            job = declared.find(workflow, name)
            if job is not None and job.test_steps and job.divides_tests:
                cancelled[job] += [
                    (run, execution)
                    for run, execution in executions
                    if _is_stopped_by_fail_fast(repository.annotations.get(execution.id, ()))
                ]
    findings = [_finding(job, executions) for job, executions in cancelled.items() if executions]
    yield from sorted(findings, key=lambda finding: (-finding.facts["runs"], finding.subject))


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the cancelled jobs and their runs."""
    jobs, runs = count_of(facts["cancelled"], "job"), count_of(facts["runs"], "run")
    return f"a failure cancelled {jobs} of the matrix in {runs}; set strategy.fail-fast to false"


def _is_stopped_by_fail_fast(annotations: Sequence[str]) -> bool:
    match = first_match(annotations)
    return match is not None and match[0].cause == "cancelled_by_fail_fast"


def _finding(job: DeclaredJob, executions: Sequence[tuple[PastRun, Job]]) -> RuleFinding:
    newest = {run.id: (run, execution) for run, execution in reversed(executions)}
    evidence = sorted(newest.values(), key=lambda pair: pair[0].created_at, reverse=True)
    return RuleFinding(
        subject=job.name,
        evidence=job_evidence(evidence[:MAX_EVIDENCE]),
        facts={"runs": len(newest), "cancelled": len(executions), "workflow": job.workflow},
    )
