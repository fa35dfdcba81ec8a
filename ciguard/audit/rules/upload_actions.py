"""Which steps upload results of tests or their coverage: a table of actions, and words of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.workflow.result_words import COVERAGE, RESULTS
from ciguard.workflow.test_commands import action_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def upload_kind(step: Mapping[str, Any]) -> UploadKind | None:
    """What a step uploads; None where it is neither, or where its words do not tell."""
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
