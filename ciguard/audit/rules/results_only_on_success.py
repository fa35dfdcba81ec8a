"""Test jobs that upload their results only after a success, or not at all. Pure.

A step without a status check function in its `if` runs as if it had `success()`: where the tests
fail or the process dies, no later step of this kind uploads what they wrote until then. Source:
GitHub's documentation of status check functions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.test_commands import (
    COVERAGE,
    RESULTS,
    action_of,
    find_test_commands,
    find_test_steps,
    step_script,
)
from ciguard.workflow.yaml_values import jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


COUNTED: Final = ("job", "can lose results")
CAVEATS: Final = {"coverage_only": "only coverage, which of a failed run may not be wanted"}
UploadKind = Literal["results", "coverage"]
UPLOADERS: Final[Mapping[str, UploadKind]] = {
    "dorny/test-reporter": "results",
    "EnricoMi/publish-unit-test-result-action": "results",
    "mikepenz/action-junit-report": "results",
    "test-summary/action": "results",
    "codecov/test-results-action": "results",
    "phoenix-actions/test-reporting": "results",
    "scacap/action-surefire-report": "results",
    "pmeier/pytest-results-action": "results",
    "datadog/junit-upload-github-action": "results",
    "trunk-io/analytics-uploader": "results",
    "codecov/codecov-action": "coverage",
    "coverallsapp/github-action": "coverage",
    "AndreMiras/coveralls-python-action": "coverage",
    "codacy/codacy-coverage-reporter-action": "coverage",
    "qltysh/qlty-action/coverage": "coverage",
    "paambaati/codeclimate-action": "coverage",
    "irongut/CodeCoverageSummary": "coverage",
}
_UPLOAD_ARTIFACT: Final = "actions/upload-artifact"
_AFTER_FAILURE: Final = re.compile(r"\b(always|cancelled)\(\)|(?<!!)\bfailure\(\)", re.I)


class _Upload(NamedTuple):
    number: int
    kind: UploadKind
    is_after_failure: bool


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find test jobs whose results are lost when their tests fail."""
    del required_checks  # the results of any job are worth reading
    last = {step.job: step.number for step in find_test_steps(workflow.content, workflow.tasks)}
    for job_id, job in jobs_of(workflow.content).items():
        lost = _find_lost_uploads(job)
        later = (step for number, step in steps_of(job) if number > last.get(job_id, 0))
        if not lost and (job_id not in last or any(map(_may_upload_results, later))):
            continue
        kinds = sorted({upload.kind for upload in lost})
        path: tuple[str | int, ...] = ("jobs", job_id)
        steps = [((*path, "steps", upload.number), "") for upload in lost]
        yield RuleFinding(
            job_title(job_id, job),
            locate(workflow, *(steps or [(path, "")])),
            {"kinds": kinds},
            caveat="coverage_only" if kinds == ["coverage"] else "",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the uploads that a failure skips."""
    if not facts["kinds"]:
        return "no step uploads test results, so the tests of a lost job are not known"
    return f"{' and '.join(facts['kinds'])} uploaded only if the tests passed"


def _find_lost_uploads(job: Any) -> list[_Upload]:
    """Return the uploads after the first test step that a failure skips without a substitute."""
    uploads: list[_Upload] = []
    is_after_tests = False
    for number, step in steps_of(job):
        kind = _upload_kind(step)
        if kind and is_after_tests:
            condition = "".join(str(step.get("if", "")).split())
            uploads.append(_Upload(number, kind, bool(_AFTER_FAILURE.search(condition))))
        if not step.get("continue-on-error") and find_test_commands(step_script(step)):
            is_after_tests = True
    safe = {upload.kind for upload in uploads if upload.is_after_failure}
    # Results show the failure, coverage does not: a job that uploads results loses nothing.
    return [
        upload
        for upload in uploads
        if not upload.is_after_failure and upload.kind not in safe and "results" not in safe
    ]


def _may_upload_results(step: Mapping[str, Any]) -> bool:
    """Return whether a step uploads test results, or data of an unknown kind."""
    kind, action = _upload_kind(step), action_of(step)
    is_open = action == _UPLOAD_ARTIFACT or action.startswith("./")
    return kind == "results" or (kind is None and is_open)


def _upload_kind(step: Mapping[str, Any]) -> UploadKind | None:
    """Return the kind of data that a step uploads; None if neither name nor path shows it."""
    action = action_of(step)
    inputs = step.get("with")
    inputs = inputs if isinstance(inputs, dict) else {}
    if action == _UPLOAD_ARTIFACT:
        text = f"{inputs.get('name', '')}\n{inputs.get('path', '')}"
        if RESULTS.search(text):
            return "results"
        return "coverage" if COVERAGE.search(text) else None
    if inputs.get("report_type") == "test_results":
        return "results"
    return UPLOADERS.get(action)
