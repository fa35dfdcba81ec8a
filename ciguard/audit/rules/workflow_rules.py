"""The rules that read workflow files: one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.audit.rules.base import RuleId, WorkflowRule

WORKFLOW_RULES: Final[Mapping[RuleId, WorkflowRule]] = {}
