"""The rules that read workflow files: one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.audit.rules import (
    aggregation_green_on_loss,
    matrix_near_limit,
    required_check_never_reported,
    results_only_on_success,
    retries_hide_flaky_tests,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.audit.rules.base import RuleId, WorkflowRule

WORKFLOW_RULES: Final[Mapping[RuleId, WorkflowRule]] = {
    "aggregation-green-on-loss": aggregation_green_on_loss,
    "required-check-never-reported": required_check_never_reported,
    "results-only-on-success": results_only_on_success,
    "retries-hide-flaky-tests": retries_hide_flaky_tests,
    "matrix-near-limit": matrix_near_limit,
}
