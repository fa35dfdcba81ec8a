"""Jobs that speak for others, and stay green although one of these is lost. Pure.

The rule itself stands in `workflow/aggregation.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.audit.rules.base import RuleFinding
from ciguard.audit.rules.workflow_evidence import job_title, locate
from ciguard.workflow.aggregation import find_green_on_loss
from ciguard.workflow.yaml_values import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.audit.rules.base import WorkflowFile


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
        in_doubt = needs_required and required_checks is None
        yield RuleFinding(
            "aggregation-green-on-loss",
            title,
            locate(workflow, (("jobs", found.job, "if"), "")),
            {
                "kind": found.kind,
                "unseen_results": list(found.unseen_results),
                "unseen_jobs": list(found.unseen_jobs),
            },
            certainty="possible" if in_doubt else "certain",
            doubt="required_checks_not_known" if in_doubt else "",
        )
