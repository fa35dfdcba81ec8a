"""The rules that read past runs: one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ciguard.audit.rules import (
    imbalanced_matrix,
    job_near_limit,
    no_tests_run,
    red_without_test_failure,
    shard_died_at_limit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.audit.repository_runs import RepositoryRuns
    from ciguard.audit.rules.base import RuleFinding, RuleId


class RunRule(Protocol):
    """A rule that reads past runs: a module of this folder."""

    def check_runs(self, past: RepositoryRuns) -> Iterator[RuleFinding]:
        """Find what the rule is about in the runs of all workflows that run tests."""


RUN_RULES: Final[Mapping[RuleId, RunRule]] = {
    "red-without-test-failure": red_without_test_failure,
    "shard-died-at-limit": shard_died_at_limit,
    "job-near-limit": job_near_limit,
    "imbalanced-matrix": imbalanced_matrix,
    "no-tests-run": no_tests_run,
}
