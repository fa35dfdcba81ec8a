"""Required checks that no job reports in some pull requests, so that these wait for ever. Pure.

A skipped job passes, but a skipped matrix does so under its name without values, and a workflow
that its filter of paths leaves out reports nothing. Sources: GitHub's documentation of
troubleshooting required status checks; actions/runner#952.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, locate
from ciguard.workflow.check_names import calls_workflow, has_matrix, names_check, unexpanded_name
from ciguard.workflow.conditions import evaluate, runs_after_failure, runs_after_skip
from ciguard.workflow.yaml_values import get, jobs_of, needs_of, triggers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


COUNTED: Final = ("required check", "may never report")
CAVEATS: Final = {
    "needed_job_fails": "only after another job failed, which may be required itself",
    "other_workflow_may_report": "another workflow may report a check of that name",
    "push_may_report": "a run for the push of the branch may report it",
    "called_workflow": "the checks of a called workflow are not in this file",
}
Cause = Literal["condition", "needed_job_skipped", "needed_job_fails", "paths", "matrix_name"]
_SENTENCES: Final[Mapping[Cause, str]] = {
    "condition": "the `if` of job {job} can skip its matrix, reported as {reported_as} then",
    "needed_job_skipped": "a job that {job} needs can be skipped; reported as {reported_as} then",
    "needed_job_fails": "a job that {job} needs can fail; reported as {reported_as} then",
    "paths": "its workflow does not start for each pull request: it has a filter of paths",
    "matrix_name": "job {job} has a matrix, so that its checks have other names",
}
# Runs that report the checks of a change before it is merged.
_PULL_EVENTS: Final = ("pull_request", "pull_request_target", "merge_group")
_PATH_FILTERS: Final = ("paths", "paths-ignore")


@dataclass(frozen=True, slots=True)
class _Loss:
    """The reason why a check is not reported.

    Attributes:
        path: keys in the workflow file that are the reason.
        caveat: "" if the loss is certain.
    """

    cause: Cause
    path: tuple[str | int, ...]
    caveat: str = ""


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find required checks of this workflow that a run may not report.

    No file names the required checks: if they are not known, there is no finding.
    """
    triggers = triggers_of(workflow.content)
    events = tuple(event for event in _PULL_EVENTS if event in triggers)
    jobs = jobs_of(workflow.content)
    for check in sorted(required_checks or ()) if events else ():
        owners = [name for name, job in jobs.items() if names_check(name, job, check)]
        losses = [_find_loss(name, jobs, triggers, events) for name in owners]
        if not owners:
            owners = [
                name
                for name, job in jobs.items()
                if has_matrix(job) and not calls_workflow(job)
                if check == unexpanded_name(name, job)
            ]
            losses = [
                _Loss("matrix_name", ("jobs", name), "other_workflow_may_report") for name in owners
            ]
        if not losses or None in losses:
            continue
        loss = losses[0]
        assert loss is not None
        yield RuleFinding(
            check,
            locate(workflow, (loss.path, "")),
            {
                "job": owners[0],
                "cause": loss.cause,
                "reported_as": unexpanded_name(owners[0], jobs[owners[0]]),
            },
            caveat=loss.caveat,
        )


def _find_loss(
    name: str,
    jobs: Mapping[str, Any],
    triggers: Mapping[str, Any],
    events: tuple[str, ...],
) -> _Loss | None:
    """Find why the checks of a job may be missing; the surest reason first."""
    job = jobs[name]
    if has_matrix(job) or calls_workflow(job):
        loss = _find_skip(name, jobs, triggers, events)
        if loss is not None:
            is_called = calls_workflow(job) and not loss.caveat
            return _Loss(loss.cause, loss.path, "called_workflow") if is_called else loss
    for event in events:
        filters = triggers[event]
        for key in _PATH_FILTERS:
            if isinstance(filters, dict) and filters.get(key):
                return _Loss("paths", ("on", event, key), "other_workflow_may_report")
    return None


def _find_skip(
    name: str,
    jobs: Mapping[str, Any],
    triggers: Mapping[str, Any],
    events: tuple[str, ...],
) -> _Loss | None:
    """Find why a job is skipped in a pull request: its condition, or a job that it needs."""
    condition = _text(jobs[name], "if")
    if not all(evaluate(condition, event) for event in events):
        # A push of the branch may report the same name for the same commit.
        caveat = "push_may_report" if _runs_on_push(condition, triggers) else ""
        return _Loss("condition", ("jobs", name, "if"), caveat)
    needs = needs_of(jobs[name])
    if needs and not runs_after_skip(condition):
        for ancestor in _skipping_ancestors(name, jobs):
            if not all(evaluate(_text(jobs[ancestor], "if"), event) for event in events):
                return _Loss("needed_job_skipped", ("jobs", ancestor, "if"))
    if needs and not runs_after_failure(condition):
        return _Loss("needed_job_fails", ("jobs", name, "needs"), "needed_job_fails")
    return None


def _skipping_ancestors(name: str, jobs: Mapping[str, Any]) -> list[str]:
    """Return the jobs whose skip skips this job as well, the nearest first."""
    ancestors: list[str] = []
    open_jobs = [name]
    while open_jobs:
        job = jobs[open_jobs.pop(0)]
        if runs_after_skip(_text(job, "if")):
            continue
        for need in needs_of(job):
            if need in jobs and need not in ancestors:
                ancestors.append(need)
                open_jobs.append(need)
    return ancestors


def _runs_on_push(condition: str, triggers: Mapping[str, Any]) -> bool:
    filters = triggers.get("push", {})
    is_any_branch = not (isinstance(filters, dict) and {"branches", "tags"} & filters.keys())
    return "push" in triggers and is_any_branch and evaluate(condition, "push") is True


def _text(job: Any, key: str) -> str:
    value = get(job, key)
    return "" if value is None else str(value)


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the reason why the check is not reported."""
    return _SENTENCES[facts["cause"]].format_map(facts)
