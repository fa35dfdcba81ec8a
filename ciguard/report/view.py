"""What a report shows: the guard's sections, then the comparison's, each fact once; and the report
as a value with its formats and its exit code. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ciguard.compare import view as compare_view
from ciguard.compare.transitions import WORSE_KINDS, Excuse
from ciguard.compare.wording import Shown, kind_text
from ciguard.compare.wording import headline as compare_headline
from ciguard.document import Chart, Facts, Headline, Link, Paragraph, Section, join
from ciguard.guard import view as guard_view
from ciguard.guard.verdict import Policy, PolicySource, Verdict
from ciguard.guard.wording import headline, note_text
from ciguard.render.links import NO_LINKS, Links
from ciguard.render.markdown import SizeLimit, as_markdown
from ciguard.render.mermaid import bar_chart
from ciguard.report import charts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.comparison import Comparison
    from ciguard.document import Block, Content, Span
    from ciguard.github.events import ActionsRun
    from ciguard.guard.github_facts import RunFacts
    from ciguard.model import CaseKey, Plan, Record, Suite

NO_PLAN: Final = "this run has no plan"
NOT_EVALUATED: Final = "this run could not be judged"
MIN_RUNS_TO_CONFIRM: Final = 10  # baseline runs from which a number can be confirmed, see docs
RUNS_FOR_LOW_RATE: Final = 20  # from which so few confirmed peaks are false
# What the rule is held to by tests/compare/test_calibration.py, of 2,000 tests in a simulation.
FALSE_ALARMS: Final = (
    "False alarms, simulated: a pull request that changes nothing has at most 0.2 confirmed "
    "durations and {peaks} confirmed peaks in 2,000 tests, and names 0.3 durations unconfirmed."
)
POLICY_TEXT: Final[Mapping[PolicySource, str]] = {
    "checkout": "policy of the checkout",
    "base": "policy of the base commit {}",
    "strictest": "the strictest policy, as that of the base could not be read",
}
FROM_FORK: Final = (
    "The plan and the records come from a fork's own run and are its own claim. Everything else "
    "here was computed from them by the policy of this repository."
)


@dataclass(frozen=True, slots=True)
class ReportData:
    """The contents of a report.

    Attributes:
        why: there is no comparison, and why.
        from_fork: plan and records are what a fork's own run says of itself.
        records: of this run; a page draws the memory of its shards over time from them.
        platform: what GitHub says of its jobs; None where it was not asked.
    """

    plan: Plan
    verdict: Verdict
    comparison: Comparison | None = None
    why: str = ""
    links: Links = NO_LINKS
    policy: Policy = field(default_factory=Policy)
    from_fork: bool = False
    records: tuple[Record, ...] = ()
    platform: RunFacts | None = None


def excuses_of(verdict: Verdict) -> dict[CaseKey, Excuse]:
    """The failures that the guard has excused: they make nothing worse in the comparison either."""
    ignored = {
        one.result.key: Excuse("ignored", note_text(one.reason)) for one in verdict.failing_on_base
    }
    return ignored | {
        one.result.key: Excuse("quarantined", note_text(one.reason)) for one in verdict.quarantined
    }


def links_of_run(run: ActionsRun, jobs: Mapping[str, str], suites: Mapping[str, Suite]) -> Links:
    """Return links of the judged run, as GitHub has them; none is taken from a record."""
    run_id, attempt = run.subject_run or (None, None)
    sha = run.triggering.head_sha if run.is_triggered else run.tested_sha
    return Links(f"{run.server_url}/{run.repository}", run_id, attempt, sha, jobs, suites)


def document(data: ReportData) -> tuple[Block, ...]:
    """The verdict, what changed, and what both were judged by."""
    verdict = data.verdict
    changes = _changes(data.comparison) if data.comparison is not None else {}
    return (
        Headline(headline(verdict), verdict.state),
        *([Paragraph(FROM_FORK)] if data.from_fork else []),
        Section("run", (_facts(data),), formats=("html",)),
        *guard_view.sections(
            verdict,
            data.links,
            changes,
            charts=_charts(data),
        ),
        *_comparison(data, changes),
        Paragraph(tuple(_sources(data)), is_note=True),
    )


def not_evaluated(problem: str, reason: str) -> tuple[Block, ...]:
    """A run that could not be judged: nothing is known to have run."""
    return (Headline(f"INCOMPLETE: {problem}", "incomplete"), Paragraph(reason))


def _facts(data: ReportData) -> Facts:
    counts = ", ".join(f"{number:,} {word}" for word, number in data.verdict.counts.items())
    rows: list[tuple[str, Content]] = [("plan", _plan(data)), ("results", counts)]
    if data.links.run:
        rows.insert(0, ("run", Link(f"{data.links.run_id}", data.links.run)))
    return Facts(tuple(rows))


def _plan(data: ReportData) -> str:
    return data.plan.id + (f" of {data.plan.head_sha[:10]}" if data.plan.head_sha else "")


def _charts(data: ReportData) -> tuple[Section, ...]:
    """Wall times; on a page also the memory of shards over time."""
    legs = data.verdict.legs
    walls = Chart("walls", charts.wall_chart(legs), _mermaid(data))
    curves, omitted = charts.memory_chart(data.plan, data.records)
    memory = Chart("curves", (curves, omitted) if curves else None)
    return (
        Section("wall_chart", (walls,), drop=16),
        Section("memory_chart", (memory,), "Memory over time", formats=("html",)),
    )


def _mermaid(data: ReportData) -> str:
    """Wall time of the shards that have one, beside what was predicted of all of them."""
    known = [(leg, leg.wall_s) for leg in data.verdict.legs if leg.wall_s is not None]
    if len(known) < 2:  # noqa: PLR2004  # a chart of one bar shows nothing
        return ""
    shards, walls_s = [leg.shard for leg, _ in known], [wall_s for _, wall_s in known]
    predicted_s = [leg.predicted_wall_s for leg, _ in known if leg.predicted_wall_s is not None]
    # A line needs a value at each bar, and what was not predicted is not 0.
    line_s = predicted_s if len(predicted_s) == len(known) else []
    return bar_chart("Wall time by shard", "predicted", shards, walls_s, line_s)


def _changes(compared: Comparison) -> dict[CaseKey, str]:
    """Word how each failure differs from the base's result, and how often the test failed before.

    "New" is a test in the headline, so that a failure is never called so.
    """
    found = {}
    for one in compared.transitions:
        if one.kind in WORSE_KINDS and not one.excuse and one.perhaps_was is None:
            before = f" (failed in {one.baseline_failures} of {one.baseline_runs} runs before)"
            how = "added" if one.kind.endswith("_added") else kind_text(one.kind)
            found[one.key] = how + (before if one.baseline_failures else "")
    return found


def _comparison(data: ReportData, changes: dict[CaseKey, str]) -> tuple[Block, ...]:
    """Show the changes that the verdict above has not named."""
    compared, verdict = data.comparison, data.verdict
    if compared is None:
        return (Paragraph(f"Not compared: {data.why}." if data.why else ""),)
    failed = {one.result.key for one in verdict.failures}
    shown = Shown(
        missing=verdict.state == "incomplete",
        excused=True,
        flaky=frozenset(one.key for one in (*verdict.flaky, *verdict.passed_after_oom)),
        failed=frozenset(key for key in changes if key in failed),
    )
    blocks: tuple[Block, ...] = (
        compare_view.summary(compared, shown),
        *compare_view.sections(compared, data.links, shown),
    )
    return (Section("comparison", blocks),)


def _sources(data: ReportData) -> list[Span]:
    """Show the judged commits, the baseline, the policy and the error rate."""
    parts: list[Content] = [f"Plan {_plan(data)}"]
    if data.links.run:
        parts.append(Link(f"run {data.links.run_id}", data.links.run))
    compared = data.comparison
    if compared is not None and compared.base is not None and compared.base.run_id is not None:
        base = compared.base
        run = Link(f"run {base.run_id}", data.links.run_page(base.run_id, base.run_attempt))
        parts.append(("compared with ", run))
    parts.append(POLICY_TEXT[data.policy.source].format(data.policy.commit[:10]))
    fail_on = data.policy.fail_on
    fails = f"; fails on {', '.join(fail_on)}" if fail_on else ""
    return [*join(parts), f"{fails}. {_false_alarms(compared)}".rstrip()]


def _false_alarms(compared: Comparison | None) -> str:
    """Word the error rate of the comparison; "" where it confirms nothing."""
    runs = (
        len(compared.baseline.runs) if compared is not None and not compared.unjudged_reason else 0
    )
    if runs < MIN_RUNS_TO_CONFIRM:
        return ""
    return FALSE_ALARMS.format(peaks=0.05 if runs >= RUNS_FOR_LOW_RATE else 0.2)


@dataclass(frozen=True, slots=True)
class Report:
    """A report, and the exit code of the process.

    `contents` is None where nothing could be judged: then `problem` names that, and `why` why.
    """

    contents: ReportData | None
    exit_code: int
    why: str = ""
    problem: str = NO_PLAN

    @property
    def headlines(self) -> tuple[str, ...]:
        """The sentences of guard and comparison."""
        if self.contents is None:
            return (f"INCOMPLETE: {self.problem}",)
        compared = self.contents.comparison
        more = () if compared is None else (compare_headline(compared).text,)
        return (headline(self.contents.verdict), *more)

    @property
    def needs_attention(self) -> bool:
        """Return whether the report is worth a look: also where the policy lets it pass."""
        compared = self.contents.comparison if self.contents is not None else None
        regressed = compared is not None and compared.state in {"worse", "mixed"}
        return bool(self.exit_code) or regressed

    def text(self, limit: SizeLimit) -> str:
        """Markdown as long as it may be, with the footer of the policy where that fits."""
        if self.contents is None:
            return as_markdown(not_evaluated(self.problem, self.why), limit=limit)
        footer = self.contents.policy.footer
        size = limit.length(footer) + 1
        footer = f"\n{footer.rstrip()}\n" if footer and size < limit.amount // 2 else ""
        limit = replace(limit, amount=limit.amount - size) if footer else limit
        place = Link("the report", self.contents.links.run)
        return as_markdown(document(self.contents), limit=limit, full_text_location=place) + footer

    def page(self) -> str:
        """The HTML page."""
        # Imported here: Markdown need not pay for Jinja.
        from ciguard.render.html import as_html  # noqa: PLC0415

        if self.contents is None:
            return as_html(not_evaluated(self.problem, self.why))
        return as_html(document(self.contents))
