"""The report: the sections of guard and comparison, each fact once, with formats and exit code.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare import view as compare_view
from ciguard.compare.comparison import Comparison, triggered
from ciguard.compare.transitions import Excuse
from ciguard.compare.wording import false_alarm_text
from ciguard.document import Chart, Facts, Headline, Link, Paragraph, Section, Table, join, visible
from ciguard.errors import CiguardError, ExitCode, InputError
from ciguard.guard import view as guard_view
from ciguard.guard.headline import headline
from ciguard.guard.verdict import Excused, Policy, PolicySource, Verdict
from ciguard.guard.wording import note_text
from ciguard.history.age import AgeOfGreen, sentence
from ciguard.model.jobs import price_usd
from ciguard.render.formats import as_format
from ciguard.render.links import NO_LINKS, Links
from ciguard.render.markdown import SizeLimit, as_markdown
from ciguard.report import charts
from ciguard.report.answer import (
    MAX_ROWS,
    answers_of,
    change_lines,
    entries_section,
    failed_tests,
    failures_sections,
    quarantine_line,
    status_line,
    whose_text,
)
from ciguard.report.runner_sizing import RunnerUse, runners_section

if TYPE_CHECKING:
    from ciguard.document import Block, Content, Span, State
    from ciguard.github.events import ActionsRun
    from ciguard.guard.github_facts import NeededJob, RunFacts
    from ciguard.model import CaseKey, FailCondition, Plan, Record, Suite

NO_PLAN: Final = "this run has no plan"
NOT_EVALUATED: Final = "this run could not be judged"
POLICY_TEXT: Final[Mapping[PolicySource, str]] = {
    "checkout": "policy of the checkout",
    "base": "policy of the base commit {}",
    "strictest": "the strictest policy, as the policy of the base could not be read",
}
FROM_FORK: Final = (
    "The plan and the records come from a run of a fork, which could have changed them. ciguard "
    "computed everything else from them, by the policy of this repository."
)


@dataclass(frozen=True, slots=True)
class ReportData:
    """The contents of a report.

    Attributes:
        why: the reason why there is no comparison; "" also before the first run of the base.
        from_fork: plan and records are the claim of a fork's own run.
        records: those of this run; a page draws the memory of its shards over time from them.
        platform: GitHub's facts of its jobs; None if GitHub was not asked.
        runners: for a run of the base branch.
        age: of a run of the base branch or of a proposal.
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
    runners: tuple[RunnerUse, ...] = ()
    age: AgeOfGreen | None = None

    @property
    def price_usd(self) -> float | None:
        """Return the price of the shards, also without a comparison; None if one is unknown."""
        if self.comparison is not None and self.comparison.cost_after is not None:
            return self.comparison.cost_after.price_usd
        prices = {name: pool.usd_per_minute for name, pool in self.plan.pools.items()}
        pools = {shard.key: shard.pool for shard in self.plan.shards}
        legs = self.verdict.legs
        return price_usd(((leg.wall_s,), prices.get(pools.get(leg.shard, ""))) for leg in legs)

    @property
    def fails_on(self) -> tuple[FailCondition, ...]:
        """The findings of the comparison that fail a run which guard passed."""
        if self.comparison is None or self.verdict.exit_code:
            return ()
        return triggered(self.comparison, self.policy.fail_on)


def excuses_of(verdict: Verdict) -> dict[CaseKey, Excuse]:
    """Return the failures that guard excused: they make the comparison no worse either."""
    kinds: tuple[tuple[Literal["quarantined", "ignored"], Sequence[Excused]], ...] = (
        ("ignored", verdict.failing_on_base),
        ("quarantined", verdict.quarantined),
    )
    return {
        failure.result.key: Excuse(kind, note_text(failure.reason))
        for kind, failures in kinds
        for failure in failures
    }


def links_of_run(run: ActionsRun, jobs: Mapping[str, str], suites: Mapping[str, Suite]) -> Links:
    """Return links of the judged run by GitHub's facts; none comes from a record."""
    run_id, attempt = run.subject_run or (None, None)
    sha = run.triggering.head_sha if run.is_triggered else run.tested_sha
    return Links(f"{run.server_url}/{run.repository}", run_id, attempt, sha, jobs, suites)


MAX_CAUSES: Final = 4  # of a comment
# The folds of a comment.
# Each has the sections of guard and compare that it holds, in order, with their words in its title.
FOLDS: Final[Mapping[str, Mapping[str, str]]] = {
    "details": {
        "commands": "commands to reproduce",
        "entries": "quarantine entries",
        "stacks": "stacks",
        "offenders": "failures by class or file",
    },
    "other_tests": {
        "missing": "tests without a result",
        "quarantined": "quarantined failures",
        "ignored": "ignored failures",
        "flaky": "flaky tests",
        "passed_after_oom": "tests that ran out of memory",
        "lost": "lost tests",
        "transitions": "changed tests",
        "failing_on_both": "tests that fail in both runs",
    },
    "numbers": {
        **dict.fromkeys(("memory", "gpu_memory", "leaks"), "memory"),
        "durations": "durations",
        **dict.fromkeys(("steps", "artifacts"), "steps and artifacts"),
        **dict.fromkeys(("metrics", "neighbours"), "metrics"),
        "series": "course of the run",
        "machine": "swap and stalls",
    },
    "shards": {
        "jobs": "jobs",
        **dict.fromkeys(("legs", "both_runs"), "shards"),
        "moved": "moved tests",
    },
    "notes": {"warnings": "warnings", **dict.fromkeys(("runs", "sources"), "sources")},
}


def document(data: ReportData) -> tuple[Block, ...]:
    """Return the blocks of a report: the answer, then everything else, folded in a comment."""
    verdict, comparison, links = data.verdict, data.comparison, data.links
    answers = answers_of(verdict, comparison)
    failed = failed_tests(verdict, answers)
    listed = [test.first for test in failed[:MAX_ROWS]]
    sections = {
        section.name: section
        for section in (
            *guard_view.sections(verdict, links, charts=_charts(data), listed=listed),
            entries_section(answers, comparison),
            *(_compared(comparison, verdict, links) if comparison is not None else ()),
            Section("sources", (Paragraph(tuple(_sources(data))),), drop=14),
        )
    }
    folds: list[Section] = []
    for name, parts in FOLDS.items():
        inner = {part: replace(sections[part], folded=False) for part in parts if part in sections}
        words = [word for part, word in parts.items() if part in inner and _shows(inner[part])]
        title = ", ".join(dict.fromkeys(words))
        title = title[:1].upper() + title[1:]
        folds.append(Section(name, tuple(inner.values()), title, drop=14 - len(folds), folded=True))
    return (
        Headline(first_line(data), _state(data)),
        *([Paragraph(FROM_FORK)] if data.from_fork else []),
        Section("run", (_facts(data),), formats=("html",)),
        sections["findings"],
        *(_causes(sections["causes"]) if "causes" in sections else ()),
        *failures_sections(verdict, comparison, links, failed),
        change_lines(comparison),
        Paragraph(sentence(data.age, verdict.state) if data.age is not None else ""),
        quarantine_line(verdict),
        sections["repeats"],
        sections["coverage"],
        status_line(verdict, comparison, links, data.records, data.why),
        runners_section(data.runners, links),
        *folds,
    )


def _compared(comparison: Comparison, verdict: Verdict, links: Links) -> tuple[Section, ...]:
    """Return the sections of the comparison, without the tests that those of guard name."""
    failed = {failure.result.key for failure in verdict.failures}
    flaky = {unit.key for unit in (*verdict.flaky, *verdict.passed_after_oom)}
    others = [
        case
        for case in comparison.transitions
        if not (
            case.key.unit_key in flaky
            if case.kind == "flaky"
            else case.key in failed or case.excuse
        )
    ]
    sections = compare_view.sections(comparison, links, others)
    is_incomplete = verdict.state == "incomplete"  # then guard names the lost tests
    return tuple(part for part in sections if not (is_incomplete and part.name == "lost"))


def _shows(section: Section) -> bool:
    """Return whether a comment or a page shows anything of a section."""
    return any(visible((section,), shape) for shape in ("markdown", "html"))


def _causes(causes: Section) -> tuple[Section, ...]:
    """Return the first causes for a comment, and all for a page."""
    few = [replace(block, max_rows=MAX_CAUSES) if isinstance(block, Table) else block
           for block in causes.blocks]  # fmt: skip
    return (
        replace(causes, name="first_causes", blocks=tuple(few), formats=("text", "markdown")),
        replace(causes, formats=("html",)),
    )


def first_line(data: ReportData) -> str:
    """Word the verdict of guard and comparison in one sentence."""
    whose = whose_text(answers_of(data.verdict, data.comparison), data.comparison)
    text = headline(data.verdict, whose)
    compared = data.comparison
    if compared is None or not data.fails_on:
        return text
    word = ", ".join(condition.replace("-", " ") for condition in data.fails_on)
    return f"FAILED: regression of {word}; {text.removeprefix('PASSED: ')}"


def _state(data: ReportData) -> State:
    return "failed" if data.verdict.state == "passed" and data.fails_on else data.verdict.state


def _facts(data: ReportData) -> Facts:
    counts = ", ".join(f"{number:,} {word}" for word, number in data.verdict.counts.items())
    rows: list[tuple[str, Content]] = [("plan", _plan(data)), ("results", counts)]
    if data.links.run:
        rows.insert(0, ("run", Link(f"{data.links.run_id}", data.links.run)))
    return Facts(tuple(rows))


def _plan(data: ReportData) -> str:
    return data.plan.id + (f" of {data.plan.head_sha[:10]}" if data.plan.head_sha else "")


def _charts(data: ReportData) -> tuple[Section, ...]:
    """Return the charts of a page: wall times, memory over time."""
    legs = data.verdict.legs
    walls = Chart("walls", charts.wall_chart(legs))
    curves, omitted = charts.memory_chart(data.plan, legs, data.records)
    memory = Chart("curves", (curves, omitted) if any(leg.peak_bytes for leg in legs) else None)
    return (
        Section("wall_chart", (walls,), drop=16),
        Section("memory_chart", (memory,), "Memory over time", formats=("html",)),
    )


def _sources(data: ReportData) -> list[Span]:
    """Return the judged commits, the baseline, the policy and the false-alarm rate."""
    source = "Result files, without a plan"
    parts: list[Content] = [source if data.plan.is_of_results else f"Plan {_plan(data)}"]
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
    is_judged = compared is not None and not compared.unjudged_reason
    rate = false_alarm_text(len(compared.baseline.runs)) if compared and is_judged else ""
    return [*join(parts), f"{fails}. {rate}".rstrip()]


@dataclass(frozen=True, slots=True)
class Report:
    """A report, and the exit code of the process.

    `contents` is None if the run could not be judged: `problem` then names that, `why` the reason.
    """

    contents: ReportData | None
    exit_code: int
    why: str = ""
    problem: str = NO_PLAN

    @classmethod
    def of_error(cls, error: CiguardError) -> Report:
        """Return the report of a run that could not be judged: it replaces an earlier report.

        A comment, check or issue of an earlier push must not stay green.
        """
        return cls(None, int(error.exit_code), _describe(error), NOT_EVALUATED)

    @classmethod
    def without_plan(cls, error: InputError, jobs: Sequence[NeededJob] = ()) -> Report:
        """Return the report of a run without a plan, as if the planning job failed."""
        return cls(None, ExitCode.INCOMPLETE, _describe(error, jobs))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks; without contents, no test is known to have run."""
        if self.contents is not None:
            return document(self.contents)
        return (Headline(self.headline, "incomplete"), Paragraph(self.why))

    @property
    def headline(self) -> str:
        if self.contents is None:
            return f"INCOMPLETE: {self.problem}"
        return first_line(self.contents)

    @property
    def needs_attention(self) -> bool:
        """The run failed, or has regressed although the policy lets the run pass."""
        compared = self.contents.comparison if self.contents is not None else None
        regressed = compared is not None and compared.state in {"worse", "mixed"}
        return bool(self.exit_code) or regressed

    def text(self, limit: SizeLimit) -> str:
        """Return Markdown within a limit, with the footer of the policy if that fits."""
        if self.contents is None:
            return as_markdown(self.blocks, limit=limit)
        footer = self.contents.policy.footer
        size = limit.length(footer) + 1
        footer = f"\n{footer.rstrip()}\n" if footer and size < limit.amount // 2 else ""
        limit = replace(limit, amount=limit.amount - size) if footer else limit
        location = Link("the report", self.contents.links.run)
        text = as_markdown(self.blocks, limit=limit, full_text_location=location)
        return text + footer

    def page(self) -> str:
        return as_format(self.blocks, "html")


def _describe(error: CiguardError, jobs: Sequence[NeededJob] = ()) -> str:
    """Word an error as a sentence of a comment, with the needed jobs that did not succeed."""
    where = f"{error.where}: " if error.where else ""
    bad = ", ".join(f"job {job.name} is {job.result!r}" for job in jobs if job.result != "success")
    parts = [f"{where}{error.what}", bad, f"Fix: {error.fix}" if error.fix else ""]
    return ". ".join(part for part in parts if part) + "."
