"""Test jobs that lose their results: uploaded after a success only, or never.

A step without a status check function in its `if` runs as if it had `success()`: where the tests
fail or the process dies, no later step of this kind uploads what they wrote until then. Source:
GitHub's documentation of status check functions. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.result_upload import uploads_artifact
from ciguard.workflow.test_commands import COVERAGE, RESULTS, FoundStep, action_of
from ciguard.workflow.yaml_values import get, steps_of

COUNTED: Final = ("job", "can lose results")
CAVEATS: Final[Mapping[str, str]] = {}
_REPORTERS: Final = (
    "dorny/test-reporter EnricoMi/publish-unit-test-result-action mikepenz/action-junit-report "
    "test-summary/action codecov/test-results-action phoenix-actions/test-reporting "
    "scacap/action-surefire-report pmeier/pytest-results-action trunk-io/analytics-uploader "
    "datadog/junit-upload-github-action"
)
REPORTERS: Final = frozenset(_REPORTERS.split())
_AFTER_FAILURE: Final = re.compile(r"\b(always|cancelled)\(\)|(?<!!)\bfailure\(\)", re.I)


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find test jobs whose results are lost, at least when their tests fail."""
    del required_checks  # the results of any job are worth reading
    jobs = workflow.jobs()
    for job_id, tests in workflow.test_jobs().items():
        numbers = _find_loss(jobs[job_id], tests)
        if numbers is not None:
            path: tuple[str | int, ...] = ("jobs", job_id)
            targets = [((*path, "steps", number), "") for number in numbers] or [(path, "")]
            facts = {"kinds": ["results"] if numbers else []}
            yield RuleFinding(job_title(job_id, jobs[job_id]), locate(workflow, *targets), facts)


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the reason why results are lost."""
    if not facts["kinds"]:
        return "no step uploads test results"
    return "results uploaded only if the tests passed"


def _find_loss(job: Any, tests: Sequence[FoundStep]) -> list[int] | None:
    """Return the numbers of the uploads if results are lost, none for no upload; otherwise None.

    Args:
        tests: the steps that run tests.
    """
    steps = dict(steps_of(job))
    later = {at: step for at, step in steps.items() if at > tests[0].number}
    uploads = {at: step for at, step in later.items() if _uploads_results(step)}
    if not uploads:
        is_open = any(_is_open(step) for at, step in later.items() if at > tests[-1].number)
        return None if is_open else []
    can_fail = not all(steps[found.number].get("continue-on-error") for found in tests)
    conditions = ("".join(str(step.get("if", "")).split()) for step in uploads.values())
    is_safe = not can_fail or any(map(_AFTER_FAILURE.search, conditions))
    return None if is_safe else [*uploads]


def _uploads_results(step: Mapping[str, Any]) -> bool:
    """Return whether the action, a name or a path shows that a step uploads test results."""
    inputs = step.get("with")
    if uploads_artifact(step):
        return bool(RESULTS.search(f"{get(inputs, 'name')}\n{get(inputs, 'path')}"))
    return action_of(step) in REPORTERS or get(inputs, "report_type") == "test_results"


def _is_open(step: Mapping[str, Any]) -> bool:
    """Return whether a step may upload test results: an artifact of another kind than coverage."""
    if uploads_artifact(step):
        return not COVERAGE.search(str(step.get("with")))
    return action_of(step).startswith("./")
