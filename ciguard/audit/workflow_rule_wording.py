"""What the rules that read workflow files found, in words: from the facts of a finding. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ciguard.audit.rules.base import RuleId

WORKFLOW_DOUBTS: Final[Mapping[str, str]] = {
    "required_checks_not_known": "which checks are required is not known; a skipped job passes "
    "only where it is one",
    "needed_job_fails": "only after another job failed, which may be required itself",
    "other_workflow_may_report": "another workflow may report a check of that name",
    "push_may_report": "a run for the push of the branch may report it",
    "called_workflow": "the checks of a called workflow are not in this file",
    "coverage_only": "only coverage, which of a failed run may not be wanted",
    "retry_count_is_variable": "a variable or an expression holds the number of retries",
    "plugin_installed_only": "the plugin is installed; whether it is used stands elsewhere",
    "continue_on_error_is_expression": "an expression decides whether a failure counts",
    "expression_in_matrix": "`include` or `exclude` has an expression",
}


def _aggregation(facts: Mapping[str, Any]) -> str:
    if facts["kind"] == "ignores_results":
        return "runs after a failure and reads no result of the jobs that it needs"
    if facts["kind"] == "skipped_after_failure":
        return "is skipped if a job that it needs fails, and a skipped check passes"
    missed = []
    if facts["unseen_results"]:
        missed.append(f"a job that ends as {_either(facts['unseen_results'])}")
    if facts["unseen_jobs"]:
        missed.append(f"a failure of {_either(facts['unseen_jobs'])}, whose dependents are skipped")
    return f"green after {' and after '.join(missed)}"


def _required(facts: Mapping[str, Any]) -> str:
    reported = f"reported as {facts['reported_as']}"
    return {
        "condition": f"the `if` of job {facts['job']} can skip its matrix, {reported} then",
        "needed_job_skipped": f"a job that {facts['job']} needs can be skipped; {reported} then",
        "needed_job_fails": f"a job that {facts['job']} needs can fail; {reported} then",
        "paths": "its workflow does not start for each pull request: it has a filter of paths",
        "matrix_name": f"job {facts['job']} has a matrix, so that its checks have other names",
    }[facts["cause"]]


def _lost_results(facts: Mapping[str, Any]) -> str:
    return f"{' and '.join(facts['kinds'])} uploaded only if the tests passed"


def _retries(facts: Mapping[str, Any]) -> str:
    return f"a failed test may pass or count for nothing: {', '.join(facts['patterns'])}"


def _near_limit(facts: Mapping[str, Any]) -> str:
    count, limit = facts["combinations"], facts["limit"]
    refused = "; GitHub refuses the run" if count > limit else ""
    return f"{count:,} jobs of {limit} that a matrix may have{refused}"


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


WORKFLOW_SENTENCES: Final[Mapping[RuleId, Callable[[Mapping[str, Any]], str]]] = {
    "aggregation-green-on-loss": _aggregation,
    "required-check-never-reported": _required,
    "results-only-on-success": _lost_results,
    "retries-hide-flaky-tests": _retries,
    "matrix-near-limit": _near_limit,
}
