"""Jobs that are there to run tests, and ran none for some time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.audit.declared_jobs import DeclaredJob, DeclaredJobs, events_of
from ciguard.audit.rules.base import FoundAt, RuleFinding
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns

TITLE: Final = "Tests that did not run"
CAVEATS: Final = {
    "triggers": "the filters of its triggers may leave out all changes since",
    "condition": "its `if` may be false on purpose",
}
MIN_DAYS: Final = 14
MIN_RUNS: Final = 3
MAX_EVIDENCE: Final = 3
_ON_REQUEST: Final = frozenset({"workflow_dispatch", "workflow_call", "repository_dispatch"})
_STARTED: Final = frozenset({"success", "failure", "timed_out"})
How = Literal["executed", "step_skipped", "skipped", "absent"]


def check_runs(past: RepositoryRuns) -> Iterator[RuleFinding]:
    """One finding for a workflow without runs, a job that is skipped, result files without tests.

    Time is counted up to the newest run of any workflow that was read.
    """
    if not past.runs:
        return
    declared = DeclaredJobs(past.workflows)
    now = max(run.created_at for run in past.runs)
    requested = {
        workflow.path for workflow in past.workflows if events_of(workflow.content) <= _ON_REQUEST
    }  # started by a person: no run is no finding
    for workflow in past.test_workflows:
        if workflow in requested:
            continue
        idle = _without_runs(past, workflow, now)
        if idle is not None:
            yield idle
            continue
        yield from _without_tests(past, workflow)
        for job in declared.of_workflow(workflow):
            if job.test_steps:
                yield from _never_executed(past, job, declared)


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the time without a test, and how it is known."""
    how = facts["how"]
    if how == "empty_results":
        return f"the result files of {count_of(facts['runs'], 'run')} name no test"
    days = f"{'' if facts['is_known_start'] else 'at least '}{count_of(facts['days'], 'day')}"
    if how == "no_run":
        return f"not started for {days}, while other workflows were"
    runs = count_of(facts["runs"], "run")
    ways = {
        "skipped": f"skipped in {runs}",
        "absent": f"not in {runs}",
        "step_skipped": f"its test step was skipped in {runs}",
    }
    return f"no test for {days}: {ways[how]}"


def _without_runs(past: RepositoryRuns, workflow: str, now: datetime) -> RuleFinding | None:
    """A workflow that was not started while others were."""
    if any(one.what == "runs" and one.detail == workflow for one in past.unread):
        return None
    runs = past.runs_of(workflow)
    since = runs[0].created_at if runs else min(run.created_at for run in past.runs)
    days = (now - since).days
    if days < MIN_DAYS:
        return None
    page = f"{past.url}/blob/{past.branch}/{workflow}"
    seen = FoundAt(f"run {runs[0].id}", runs[0].url) if runs else FoundAt(workflow, page)
    return RuleFinding(
        subject=workflow,
        evidence=(seen,),
        facts={"how": "no_run", "days": days, "is_known_start": bool(runs)},
        caveat="triggers",
    )


def _without_tests(past: RepositoryRuns, workflow: str) -> Iterator[RuleFinding]:
    """A workflow whose newest result files name no test."""
    counted = [run for run in past.runs_of(workflow) if run.id in past.test_counts]
    empty = [run for run in counted if past.test_counts[run.id] == 0]
    if empty and empty[0] is counted[0]:
        yield RuleFinding(
            subject=workflow,
            evidence=tuple(FoundAt(f"run {run.id}", run.url) for run in empty[:MAX_EVIDENCE]),
            facts={"how": "empty_results", "runs": len(empty), "counted": len(counted)},
        )


def _never_executed(
    past: RepositoryRuns, job: DeclaredJob, declared: DeclaredJobs
) -> Iterator[RuleFinding]:
    """A job that its workflow's runs skip."""
    ways: list[How] = []
    idle: list[PastRun] = []
    last: PastRun | None = None
    for run in past.runs_of(job.workflow):
        if run.conclusion == "cancelled":
            continue  # before it began, perhaps
        if run.id not in past.jobs:
            break
        way = _execution(past, run, job, declared)
        if way == "executed":
            last = run
            break
        idle.append(run)
        ways.append(way)
    if len(idle) < MIN_RUNS:
        return
    # Where no run executed it, the time is at least that between those that were read.
    days = (idle[0].created_at - (last or idle[-1]).created_at).days
    if days < MIN_DAYS:
        return
    yield RuleFinding(
        subject=job.name,
        evidence=tuple(FoundAt(f"run {run.id}", run.url) for run in idle[:MAX_EVIDENCE]),
        facts={
            "how": ways[0],
            "days": days,
            "runs": len(idle),
            "is_known_start": last is not None,
            "workflow": job.workflow,
        },
        caveat="condition" if job.condition else "",
    )


def _execution(past: RepositoryRuns, run: PastRun, job: DeclaredJob, declared: DeclaredJobs) -> How:
    """Return how far the jobs of a declared job came in a run."""
    own = [one for one in past.jobs[run.id] if declared.find(job.workflow, one.name) is job]
    started = [one for one in own if one.conclusion in _STARTED]
    if not started:
        return "skipped" if own else "absent"
    ends: Sequence[str | None] = [
        step.conclusion for one in started for step in one.steps if job.is_test_step(step.name)
    ]
    # A step that has another name in the runs is not known to be skipped.
    return "step_skipped" if ends and all(end == "skipped" for end in ends) else "executed"
