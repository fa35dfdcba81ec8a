"""All that a report tells, as one value; the templates know it as `report`. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ciguard.compare.comparison_headline import Shown, headline
from ciguard.compare.test_changes import Excuse
from ciguard.model import repository_path
from ciguard.report.links import Links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.run_info import RunInfo
    from ciguard.guard.verdict import Verdict
    from ciguard.model import CaseKey, Plan, Result

MIN_RUNS_TO_CONFIRM: Final = 10  # baseline runs from which a number can be confirmed, see docs
REPRODUCED: Final = 5  # shards with a command
RUNS_FOR_LOW_RATE: Final = 20  # from which so few confirmed peaks are false
# What the rule is held to by tests/compare/test_calibration.py, of 2,000 tests in a simulation.
FALSE_ALARMS: Final = (
    "in a simulation of 2,000 tests, a pull request that changes nothing has at most 0.2 confirmed "
    "durations and {peaks} confirmed peaks that are false, and names 0.3 durations unconfirmed"
)


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy, in words for the footer.

    Attributes:
        source: whose policy it is.
        fail_on: findings of the comparison that fail the run.
        footer: Markdown of the same source, shown last.
    """

    source: str = "what is checked out"
    fail_on: tuple[str, ...] = ()
    footer: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """How to run a shard again on another machine."""

    shard: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportData:
    """What there is to tell.

    Attributes:
        why: there is no comparison, and why.
        claim: plan and records are what a fork's own run says of itself.
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

    def page_of(self, run: RunInfo) -> str:
        """The page of a run that was compared."""
        return self.links.run_page(run.run_id, run.run_attempt) if self.links.url else ""

    @property
    def false_alarms(self) -> str:
        """How often the comparison is wrong; "" where it confirms nothing."""
        found = self.comparison
        runs = len(found.baseline.runs) if found is not None and not found.unjudged_reason else 0
        if runs < MIN_RUNS_TO_CONFIRM:
            return ""
        return FALSE_ALARMS.format(peaks=0.05 if runs >= RUNS_FOR_LOW_RATE else 0.2)

    @property
    def commands(self) -> tuple[Command, ...]:
        """For the shards with the first failures, a command that runs them up to that."""
        first: dict[str, str] = {}
        for failure in self.verdict.failures:
            first.setdefault(failure.shard, failure.result.unit)
        for finding in self.verdict.findings:
            if finding.shard and finding.culprits:
                first.setdefault(finding.shard, finding.culprits[0].unit)
        return tuple(
            Command(shard, _command(shard, unit))
            for shard, unit in list(first.items())[:REPRODUCED]
        )

    @property
    def counts(self) -> Mapping[str, tuple[int, str]]:
        """How much there is in each section, and of what: for what is left out."""
        verdict, compared = self.verdict, self.comparison
        found = {
            "findings": (len(verdict.findings), "finding"),
            "causes": (len(verdict.failure_groups), "cause"),
            "offenders": (len(verdict.hotspots), "failing group"),
            "failures": (len(verdict.failures), "failure"),
            "excused": (len(verdict.quarantined) + len(verdict.failing_on_base), "excused failure"),
            "flaky": (len(verdict.flaky) + len(verdict.passed_after_oom), "flaky unit"),
            "legs": (len(verdict.legs), "shard"),
        }
        if compared is not None:
            found |= {
                "jobs": (len(compared.jobs), "changed job"),
                "transitions": (len(compared.transitions), "changed test"),
                "memory": (len(compared.memory.listed), "change of memory"),
                "durations": (len(compared.durations.listed), "change of duration"),
                "compared_legs": (len(compared.legs), "compared leg"),
            }
        return found


def _command(shard: str, unit: str) -> str:
    words = ["ciguard", "run", "--plan", "plan", "--shard", shard, "--record", "again"]
    return shlex.join([*words, "--until", unit])


def without_gaps(comparison: Comparison, verdict: Verdict) -> Comparison:
    """The comparison, in its headline nothing of what the run lacks where the verdict says it."""
    if not comparison.state == verdict.state == "incomplete":
        return comparison
    return replace(comparison, headline=headline(comparison, Shown(missing=True)).text)


def deduplicated(comparison: Comparison, verdict: Verdict) -> Comparison:
    """The comparison without what the verdict above it has named: flaky, excused, lost units."""
    flaky = {one.key for one in (*verdict.flaky, *verdict.passed_after_oom)}
    shown = tuple(
        one
        for one in comparison.transitions
        if not one.excuse and (one.kind != "flaky" or one.key.unit_key not in flaky)
    )
    return replace(without_gaps(comparison, verdict), transitions=shown, lost_units=())


def excuses_of(verdict: Verdict) -> dict[CaseKey, Excuse]:
    """The failures that the guard has excused: they make nothing worse in the comparison either."""
    ignored = {one.result.key: Excuse("ignored", one.reason) for one in verdict.failing_on_base}
    return ignored | {
        one.result.key: Excuse("quarantined", one.reason) for one in verdict.quarantined
    }
