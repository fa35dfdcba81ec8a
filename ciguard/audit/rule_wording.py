"""What each rule found, in words: from the facts of a finding. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ciguard.text import count_of, duration, price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ciguard.audit.rules.base import RuleFinding, RuleId

TITLES: Final[Mapping[RuleId, str]] = {
    "aggregation-green-on-loss": "Aggregation jobs that stay green",
    "required-check-never-reported": "Required checks that no job reports",
    "results-only-on-success": "Results that are uploaded only on success",
    "retries-hide-flaky-tests": "Retries that hide flaky tests",
    "matrix-near-limit": "Matrices near GitHub's limit of 256 jobs",
    "red-without-test-failure": "Red runs without a failure",
    "shard-died-at-limit": "Jobs that died at their limit",
    "job-near-limit": "Jobs close to their limit",
    "imbalanced-matrix": "Imbalanced matrices",
    "no-tests-run": "Tests that did not run",
}
CAUSES: Final[Mapping[str, str]] = {
    "test_step": "failed tests",
    "other_step": "another step failed",
    "startup_failure": "workflow not valid",
    "timeout": "time limit",
    "lost_runner": "lost runner",
    "runner_shutdown": "runner shut down",
    "out_of_memory": "out of memory",
    "disk_full": "disk full",
    "setup_failed": "runner not set up",
    "superseded": "superseded",
    "cancelled": "cancelled",
    "unknown": "unknown",
}
DOUBTS: Final[Mapping[str, str]] = {
    "required_checks_not_known": "which checks are required is not known; only one that is speaks "
    "for other jobs",
    "needed_job_fails": "only after another job failed, which may be required itself",
    "other_workflow_may_report": "another workflow may report a check of that name",
    "push_may_report": "a run for the push of the branch may report it",
    "called_workflow": "the checks of a called workflow are not in this file",
    "coverage_only": "only coverage, which of a failed run may not be wanted",
    "retry_count_is_variable": "a variable or an expression holds the number of retries",
    "plugin_installed_only": "the plugin is installed; whether it is used stands elsewhere",
    "continue_on_error_is_expression": "an expression decides whether a failure counts",
    "expression_in_matrix": "`include` or `exclude` has an expression",
    "superseded-by-time": "no annotation names the cause; a newer run of the same branch began "
    "while these still ran",
    "no-annotation": "no annotation names the limit; the wall time is that of the limit",
    "few-executions": "fewer than 20 executions: the longest counts as the 95th percentile",
    "limit-changed": "an execution succeeded above the limit, which was another one then",
    "axis-of-environments": "the axes may be environments, whose tests cannot change places",
    "triggers": "the filters of its triggers may leave out all changes since",
    "condition": "its `if` may be false on purpose",
}


def sentence(found: RuleFinding) -> str:
    """What was found of the subject."""
    return _SENTENCES[found.rule](found.facts)


def doubt(found: RuleFinding) -> str:
    """Why a finding is only possible; "" of one that is certain."""
    return DOUBTS[found.doubt] if found.doubt else ""


def _aggregation(facts: Mapping[str, Any]) -> str:
    if facts["kind"] == "ignores_results":
        return "runs after a failure and reads no result of the jobs that it needs"
    if facts["kind"] == "prints_results":
        return "runs after a failure and only prints the results of the jobs that it needs"
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


def _red(facts: Mapping[str, Any]) -> str:
    ordered = sorted(facts["causes"].items(), key=lambda one: -one[1])
    causes = ", ".join(f"{CAUSES[cause]} {count:,}" for cause, count in ordered)
    without, red = facts["without_failure"], facts["red"]
    inferred = f"; {facts['inferred']:,} known by times alone" if facts["inferred"] else ""
    share = f"{without:,} of {red:,} red runs ({100 * without / red:.0f} %) had no failure"
    return f"{share}; causes: {causes}{inferred}; n = {count_of(facts['runs'], 'run')}"


def _died(facts: Mapping[str, Any]) -> str:
    limit = "" if facts["limit_s"] is None else f" of {duration(facts['limit_s'])}"
    inferred = facts["inferred"]
    how = f", {inferred:,} by its wall time" if 0 < inferred < facts["died"] else ""
    executions = count_of(facts["executions"], "execution")
    return f"died at its limit{limit} in {facts['died']:,} of {executions}{how}"


def _near(facts: Mapping[str, Any]) -> str:
    ratio = facts["p95_s"] / facts["limit_s"]
    times = f"{duration(facts['p95_s'])} of {duration(facts['limit_s'])}"
    executions = count_of(facts["executions"], "successful execution")
    return f"95th percentile {times} ({100 * ratio:.0f} %), n = {executions}"


def _imbalanced(facts: Mapping[str, Any]) -> str:
    longest = f"longest {facts['longest']} {duration(facts['longest_s'])}"
    jobs = (
        f"{facts['ratio']:.1f} times the mean {duration(facts['mean_s'])} of {facts['jobs']} jobs"
    )
    saved = f"balance saves {duration(facts['saved_wall_s'])} of wall time at best"
    before, after = facts["billed_minutes"], facts["balanced_minutes"]
    if before == after:
        minutes = f"the {before:,} billed minutes stay"
    else:
        minutes = f"billed minutes {before:,} -> {after:,}"
        if facts["saved_usd"] is not None:
            minutes += f" ({price(abs(facts['saved_usd']))} a run {_side(before - after)})"
    fewest = facts["fewest_jobs"]
    same = f"; {fewest} balanced jobs take the same wall time" if fewest < facts["jobs"] else ""
    return f"{longest}, {jobs}; {saved}, {minutes}{same}"


def _side(saved: int) -> str:
    return "less" if saved > 0 else "more"


def _idle(facts: Mapping[str, Any]) -> str:
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


_SENTENCES: Final[Mapping[RuleId, Callable[[Mapping[str, Any]], str]]] = {
    "aggregation-green-on-loss": _aggregation,
    "required-check-never-reported": _required,
    "results-only-on-success": _lost_results,
    "retries-hide-flaky-tests": _retries,
    "matrix-near-limit": _near_limit,
    "red-without-test-failure": _red,
    "shard-died-at-limit": _died,
    "job-near-limit": _near,
    "imbalanced-matrix": _imbalanced,
    "no-tests-run": _idle,
}
