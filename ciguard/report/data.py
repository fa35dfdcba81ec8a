"""All that a report shows, as one value. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ciguard.compare.transitions import Excuse
from ciguard.guard.verdict import EffectivePolicy
from ciguard.guard.wording import reason_text
from ciguard.links import NO_LINKS, Links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.comparison import Comparison
    from ciguard.github.events import ActionsRun
    from ciguard.guard.verdict import Verdict
    from ciguard.model import CaseKey, Plan, Record, Suite


@dataclass(frozen=True, slots=True)
class ReportData:
    """What there is to show.

    Attributes:
        why: there is no comparison, and why.
        from_fork: plan and records are what a fork's own run says of itself.
        records: of this run; a page draws the memory of its shards over time from them.
    """

    plan: Plan
    verdict: Verdict
    comparison: Comparison | None = None
    why: str = ""
    links: Links = NO_LINKS
    policy: EffectivePolicy = field(default_factory=EffectivePolicy)
    from_fork: bool = False
    records: tuple[Record, ...] = ()


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


def links_of_run(run: ActionsRun, jobs: Mapping[str, str], suites: Mapping[str, Suite]) -> Links:
    """Of the run that is judged, as GitHub says; nothing of it is taken from a record."""
    run_id, attempt = run.subject_run or (None, None)
    sha = run.triggering.head_sha if run.is_triggered else run.tested_sha
    return Links(f"{run.server_url}/{run.repository}", run_id, attempt, sha, jobs, suites)
