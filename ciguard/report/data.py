"""All that a report shows, as one value. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ciguard.compare.transitions import Excuse
from ciguard.guard.wording import reason_text
from ciguard.model import repository_path
from ciguard.report.links import Links

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison
    from ciguard.guard.policy import PolicySource
    from ciguard.guard.verdict import Verdict
    from ciguard.model import CaseKey, Plan, Result


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy, for the footer.

    Attributes:
        source: where it is from.
        commit: of the base, where it is from there.
        fail_on: findings of the comparison that fail the run.
        footer: Markdown of the same source, shown last.
    """

    source: PolicySource = "checkout"
    commit: str = ""
    fail_on: tuple[str, ...] = ()
    footer: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """What there is to show.

    Attributes:
        why: there is no comparison, and why.
        from_fork: plan and records are what a fork's own run says of itself.
    """

    plan: Plan
    verdict: Verdict
    comparison: Comparison | None = None
    why: str = ""
    links: Links = field(default_factory=lambda: Links(""))
    policy_info: PolicyInfo = field(default_factory=PolicyInfo)
    from_fork: bool = False

    def link_to(self, result: Result) -> str:
        """The page of the line where a test stands or fell; "" where it is not known."""
        return (
            self.links.line(
                repository_path(self.plan.suites, result.suite, result.file), result.line
            )
            if self.links.url
            else ""
        )


def excuses_of(verdict: Verdict) -> dict[CaseKey, Excuse]:
    """The failures that the guard has excused: they make nothing worse in the comparison either."""
    ignored = {
        one.result.key: Excuse("ignored", reason_text(one.reason))
        for one in verdict.failing_on_base
    }
    return ignored | {
        one.result.key: Excuse("quarantined", reason_text(one.reason))
        for one in verdict.quarantined
    }
