"""What a rule of the audit is: what it reads, and what it finds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RuleId = Literal[
    # read from workflow files
    "aggregation-green-on-loss",
    "required-check-never-reported",
    "results-only-on-success",
    "retries-hide-flaky-tests",
    "matrix-near-limit",
    # read from past runs
    "red-without-test-failure",
    "shard-died-at-limit",
    "job-near-limit",
    "imbalanced-matrix",
    "no-tests-run",
]
RULE_IDS: Final[tuple[RuleId, ...]] = get_args(RuleId)
Certainty = Literal["certain", "possible"]


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A workflow of the repository, as its default branch has it.

    Attributes:
        path: in the repository, as `.github/workflows/ci.yml`.
        text: as it is written.
        content: the value of its YAML, of any shape.
    """

    path: str
    text: str
    content: Any


@dataclass(frozen=True, slots=True)
class FoundAt:
    """Evidence of a finding: a place in a file, or a run or a job.

    Attributes:
        what: file, or name of the run or job.
        url: of its page; "" where there is none.
        line: of the file, from 1; None for a run or a job.
    """

    what: str
    url: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a rule found, as values: the view has the words.

    Attributes:
        subject: the job, matrix or check that the finding is about, as GitHub shows it.
        facts: numbers and names; the end of a key is the unit of its number (`_s`, `_usd`).
        evidence: at least one.
        certainty: "possible" where the rule cannot be sure; then `doubt` is the reason, as a key
            of the view's table of words.
    """

    rule: RuleId
    subject: str
    evidence: tuple[FoundAt, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    certainty: Certainty = "certain"
    doubt: str = ""


class WorkflowRule(Protocol):
    """A rule that reads workflow files: a module of this folder."""

    def check_workflow(
        self, workflow: WorkflowFile, required_checks: frozenset[str] | None
    ) -> Iterator[RuleFinding]:
        """Find what the rule is about in one workflow.

        Args:
            required_checks: names of the checks that the default branch requires; None where they
                are not known.
        """
