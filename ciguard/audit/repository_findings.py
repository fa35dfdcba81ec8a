"""What all rules find in a repository. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.audit.rules.base import RULE_IDS
from ciguard.audit.rules.run_rules import RUN_RULES
from ciguard.audit.rules.workflow_rules import WORKFLOW_RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.audit.repository_runs import RepositoryRuns
    from ciguard.audit.rules.base import RuleFinding, RuleId


@dataclass(frozen=True, slots=True)
class RepositoryAudit:
    """What was read, and what each rule found in it; a rule without findings has none."""

    past: RepositoryRuns
    findings: Mapping[RuleId, tuple[RuleFinding, ...]]

    @property
    def all(self) -> tuple[RuleFinding, ...]:
        """Every finding, in the order of the rules."""
        return tuple(one for found in self.findings.values() for one in found)


def audit_repository(past: RepositoryRuns, workflow: str = "") -> RepositoryAudit:
    """Apply every rule.

    Args:
        workflow: path of the one file that is looked at; "" for all.
    """
    return RepositoryAudit(past, {rule: tuple(_found(rule, past, workflow)) for rule in RULE_IDS})


def _found(rule: RuleId, past: RepositoryRuns, workflow: str) -> Iterator[RuleFinding]:
    if rule in RUN_RULES:
        yield from RUN_RULES[rule].check_runs(past)
    if rule in WORKFLOW_RULES:
        for one in past.workflows:
            if workflow in ("", one.path):
                yield from WORKFLOW_RULES[rule].check_workflow(one, past.required_checks)
