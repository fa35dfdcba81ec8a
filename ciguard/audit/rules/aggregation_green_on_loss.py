"""Jobs that speak for others, and stay green although one of these is lost. Pure.

The rule itself stands in `workflow/aggregation.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.aggregation import find_green_on_loss
from ciguard.workflow.yaml_values import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TITLE: Final = "Aggregation jobs that stay green"
CAVEATS: Final = {
    "required_checks_not_known": "which checks are required is not known; only one that is speaks "
    "for other jobs",
}
_IGNORED: Final = {
    "ignores_results": "runs after a failure and reads no result of the jobs that it needs",
    "prints_results": "runs after a failure and only prints the results of the jobs that it needs",
    "skipped_after_failure": "is skipped if a job that it needs fails, and a skipped check passes",
}


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find the aggregating jobs of a workflow that do not see each loss."""
    jobs = jobs_of(workflow.content)
    for found in find_green_on_loss(workflow.content):
        title = job_title(found.job, jobs[found.job])
        # Skipped or printing, it passes as a required check; where it is none, nothing hangs on it.
        needs_required = found.kind in ("skipped_after_failure", "prints_results")
        if needs_required and required_checks is not None and title not in required_checks:
            continue
        is_unknown = needs_required and required_checks is None
        yield RuleFinding(
            title,
            locate(workflow, (("jobs", found.job, "if"), "")),
            {
                "kind": found.kind,
                "unseen_results": list(found.unseen_results),
                "unseen_jobs": list(found.unseen_jobs),
            },
            caveat="required_checks_not_known" if is_unknown else "",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the losses that the job does not see."""
    if facts["kind"] in _IGNORED:
        return _IGNORED[facts["kind"]]
    missed = []
    if facts["unseen_results"]:
        missed.append(f"a job that ends as {' or '.join(facts['unseen_results'])}")
    if facts["unseen_jobs"]:
        jobs = " or ".join(facts["unseen_jobs"])
        missed.append(f"a failure of {jobs}, whose dependents are skipped")
    return f"green after {' and after '.join(missed)}"
