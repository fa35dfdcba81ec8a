"""The table of the audit's rules, and their findings in a repository. Pure.

A rule is a file of `rules/`: the words that count its findings, the function that yields them, the
sentence of a finding, and its caveats. docs/reference/audit-rules.md has its examples,
which a test checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ciguard.audit.repository_runs import RepositoryRuns
from ciguard.audit.rules import (
    aggregation_green_on_loss,
    imbalanced_matrix,
    red_without_test_failure,
    results_only_on_success,
    retries_hide_flaky_tests,
    shard_died_at_limit,
)
from ciguard.audit.rules.base import RuleFinding, WorkflowFile


class Rule(Protocol):
    """A rule: a module of `rules/`."""

    @property
    def COUNTED(self) -> tuple[str, str]: ...  # noun of a finding's subject, and what it is
    @property
    def CAVEATS(self) -> Mapping[str, str]: ...

    def sentence(self, facts: Mapping[str, Any]) -> str:
        """Return the sentence of a finding, to which reports prefix `RuleFinding.subject`."""


class WorkflowRule(Rule, Protocol):
    def check_workflow(
        self, workflow: WorkflowFile, required_checks: frozenset[str] | None
    ) -> Iterator[RuleFinding]:
        """Yield the findings in one workflow.

        Args:
            required_checks: names of GitHub's status checks that the default branch requires
                before a merge; None if not known.
        """


class RunRule(Rule, Protocol):
    def check_runs(self, repository: RepositoryRuns) -> Iterator[RuleFinding]:
        """Yield the findings in the runs of all workflows that run tests."""


WORKFLOW_RULES: Final[Mapping[str, WorkflowRule]] = {
    "aggregation-green-on-loss": aggregation_green_on_loss,
    "results-only-on-success": results_only_on_success,
    "retries-hide-flaky-tests": retries_hide_flaky_tests,
}
RUN_RULES: Final[Mapping[str, RunRule]] = {
    "red-without-test-failure": red_without_test_failure,
    "shard-died-at-limit": shard_died_at_limit,
    "imbalanced-matrix": imbalanced_matrix,
}
RULES: Final[Mapping[str, Rule]] = {**WORKFLOW_RULES, **RUN_RULES}


@dataclass(frozen=True, slots=True)
class RepositoryAudit:
    """The facts of a repository, the findings of every rule, and the number of files read."""

    repository: RepositoryRuns
    findings: Mapping[str, tuple[RuleFinding, ...]]
    files: int


def audit_repository(repository: RepositoryRuns, workflow: str = "") -> RepositoryAudit:
    """Apply every rule.

    Args:
        workflow: path of the only workflow file to read; "" for all. Runs are not restricted.
    """
    files = [file for file in repository.workflows if workflow in ("", file.path)]
    required = repository.required_checks
    findings: dict[str, tuple[RuleFinding, ...]] = {
        name: tuple(finding for file in files for finding in rule.check_workflow(file, required))
        for name, rule in WORKFLOW_RULES.items()
    }
    findings |= {name: tuple(rule.check_runs(repository)) for name, rule in RUN_RULES.items()}
    return RepositoryAudit(repository, findings, len(files))
