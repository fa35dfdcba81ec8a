"""Jobs that should run tests, and ran none for at least 14 days: runs skip them, or their step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs
from ciguard.audit.repository_runs import run_evidence
from ciguard.audit.rules.base import RuleFinding
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns
    from ciguard.model.jobs import Job

COUNTED: Final = ("job", "ran no test")
CAVEATS: Final = {"condition": "its `if` may be false on purpose"}
MIN_DAYS: Final = 14
MIN_RUNS: Final = 3
MAX_EVIDENCE: Final = 3
_STARTED: Final = frozenset({"success", "failure", "timed_out"})
How = Literal["executed", "step_skipped", "skipped", "absent"]


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each job that the newest runs skip."""
    declared = DeclaredJobs(repository.workflows)
    for workflow in repository.test_workflows:
        for job in declared.of_workflow(workflow):
            if job.test_steps:
                yield from _never_executed(repository, job, declared)


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the time without a test, and how it is known."""
    days = f"{'' if facts['is_known_start'] else 'at least '}{count_of(facts['days'], 'day')}"
    runs = count_of(facts["runs"], "run")
    ways = {
        "skipped": f"skipped in {runs}",
        "absent": f"not in {runs}",
        "step_skipped": f"its test step was skipped in {runs}",
    }
    return f"no test for {days}: {ways[facts['how']]}"


def _never_executed(
    repository: RepositoryRuns, job: DeclaredJob, declared: DeclaredJobs
) -> Iterator[RuleFinding]:
    """Yield a finding for a job that the newest runs of its workflow skip."""
    ways: list[How] = []
    idle: list[PastRun] = []
    last_execution: PastRun | None = None
    for run in repository.runs_of(job.workflow):
        if run.conclusion == "cancelled":
            continue  # before it began, perhaps
        if run.id not in repository.jobs:
            break
        way = _execution(repository.jobs[run.id], job, declared)
        if way == "executed":
            last_execution = run
            break
        idle.append(run)
        ways.append(way)
    if len(idle) < MIN_RUNS:
        return
    # If no run executed the job, the time between the runs that were read is a lower bound.
    days = (idle[0].created_at - (last_execution or idle[-1]).created_at).days
    if days < MIN_DAYS:
        return
    yield RuleFinding(
        subject=job.name,
        evidence=run_evidence(idle[:MAX_EVIDENCE]),
        facts={
            "how": ways[0],
            "days": days,
            "runs": len(idle),
            "is_known_start": last_execution is not None,
            "workflow": job.workflow,
        },
        caveat="condition" if job.condition else "",
    )


def _execution(jobs: Iterable[Job], job: DeclaredJob, declared: DeclaredJobs) -> How:
    """Return how far the jobs of a run executed a declared job."""
    executions = [ran for ran in jobs if declared.find(job.workflow, ran.name) is job]
    started = [execution for execution in executions if execution.conclusion in _STARTED]
    if not started:
        return "skipped" if executions else "absent"
    steps = [step for execution in started for step in execution.steps]
    ends = [step.conclusion for step in steps if job.is_test_step(step.name)]
    # A step that has another name in the runs is not known to be skipped.
    return "step_skipped" if ends and all(end == "skipped" for end in ends) else "executed"
