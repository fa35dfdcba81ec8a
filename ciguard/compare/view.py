"""The view of a comparison as blocks of a document, for `ciguard compare` and a report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isclose
from typing import Final

from ciguard import document as doc
from ciguard.compare import wording as words
from ciguard.compare.comparison import Comparison
from ciguard.compare.jobs import JobChange, JobsComparison
from ciguard.compare.legs import LegChange, LostUnits
from ciguard.compare.log_comparison import LogSide
from ciguard.compare.log_view import (
    PAGE_STATES,
    UNJUDGED_PAIRS,
    endings_text,
    log_sections,
    similar_values,
)
from ciguard.compare.measure_changes import (
    MEASURE_NOUN,
    NO_GPU_MEMORY,
    CaseChange,
    Measure,
    MeasureVerdict,
)
from ciguard.compare.metric_changes import (
    DIFFERENT,
    MetricChange,
    MetricCount,
    metric_change_text,
    metric_text,
    metric_verdict,
    metrics_text,
)
from ciguard.compare.series import series_section, series_title
from ciguard.compare.steps_and_artifacts import artifacts_section, steps_section
from ciguard.compare.transitions import Transition
from ciguard.compare.wording import as_sentence, headline
from ciguard.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Content,
    Details,
    Facts,
    Item,
    Link,
    Paragraph,
    Row,
    Section,
    Table,
    identifier,
)
from ciguard.model import CaseKey
from ciguard.render.links import NO_LINKS, Links
from ciguard.render.variant_groups import (
    fingerprint,
    group_variants,
    link_shards,
    name_combinations,
)
from ciguard.text import case_name, count_of, distinct_lines, duration, size, whole_name

# The section of a measure: name, title, and `drop` (see `Section`).
MEASURES: Final[dict[Measure, tuple[str, str, int]]] = {
    "peak_delta_bytes": ("memory", "Peak memory of tests", 7),
    "gpu_peak_bytes": ("gpu_memory", "Peak GPU memory of tests", 7),
    "wall_s": ("durations", "Durations of tests", 8),
}
VISIBLE_SPEED: Final = 0.02  # a smaller correction does not show in a table
MAX_OPEN: Final = 5  # unconfirmed large changes; more of them are folded


def document(comparison: Comparison, links: Links = NO_LINKS) -> tuple[Block, ...]:
    state = PAGE_STATES.get(comparison.state, "neutral")
    return (doc.Headline(headline(comparison), state), *sections(comparison, links))


def sections(
    comparison: Comparison, links: Links = NO_LINKS, transitions: Sequence[Transition] | None = None
) -> tuple[Section, ...]:
    """Return all sections below the headline, in order; `transitions`: None for all."""
    jobs = comparison.jobs
    listed = comparison.transitions if transitions is None else transitions
    endings = [
        [case.before.ending for case in comparison.transitions if case.before is not None],
        [case.after.ending for case in comparison.transitions if case.after is not None],
    ]
    logs = comparison.log_failures, comparison.log_doubts, comparison.log_missing
    # The headline names the first leak.
    leaks = tuple(Item(words.leak_text(leak)) for leak in comparison.leaks[1:])
    return (
        Section("runs", (_runs(comparison, links),), formats=("text", "html")),
        Section("endings", (Paragraph(endings_text(endings, *logs)),)),
        _lost(comparison.lost_units),
        Section(
            "jobs", (_job_table(jobs),), "Jobs", (len(jobs), "changed or cancelled job"), drop=5
        ),
        Section("leaks", (Bullets(leaks, "leak"),), size=(len(leaks), "leak"), drop=4),
        *_transitions(listed, links),
        _measure(comparison, comparison.memory, links),
        _measure(comparison, comparison.gpu_memory, links),
        _measure(comparison, comparison.durations, links),
        steps_section(comparison.steps),
        artifacts_section(comparison.artifacts),
        _metrics(comparison),
        _neighbours(comparison),
        series_section(comparison.series),
        _both_runs(comparison, links),
    )


def _runs(comparison: Comparison, links: Links) -> Facts:
    runs = (
        ("base", comparison.base),
        ("candidate", comparison.candidate),
        ("previous run", comparison.previous),
    )
    rows: list[tuple[str, Content]] = [
        (name, Link(words.run_text(run), links.run_page(run.run_id, run.run_attempt)))
        for name, run in runs
        if run is not None
    ]
    baseline = comparison.baseline
    rows.append(("baseline", words.baseline_text(baseline)))
    if excluded := words.excluded_text(baseline):
        rows.append(("not used", excluded))
    return Facts(tuple(rows))


def _lost(lost: Sequence[LostUnits]) -> Section:
    folds = []
    for of_shard in lost:
        names = tuple(Item(identifier(whole_name(key))) for key in of_shard.units)
        folds.append(Details(words.lost_text(of_shard), (Bullets(names, "test"),)))
    return Section("lost", tuple(folds), "Lost tests", (len(lost), "shard"), drop=3)


def jobs_document(comparison: JobsComparison) -> tuple[Block, ...]:
    """Return the blocks of two runs without records: conclusions and times of their jobs."""
    state = PAGE_STATES.get(comparison.state, "neutral")
    same = comparison.unchanged
    folded = Details(
        f"{count_of(len(same), 'job')} with the same conclusion, the longest first",
        (_job_table(same),),
    )
    sides = (("base", comparison.base), ("candidate", comparison.candidate))
    return (
        doc.Headline(words.jobs_headline(comparison), state),
        Facts(tuple((name, words.run_text(run)) for name, run in sides)),
        Section("jobs", (_job_table(comparison.changes),), "Changed and cancelled jobs"),
        Section("same_jobs", (folded,)),
        *(log_sections(comparison.logs) if comparison.logs is not None else ()),
        steps_section(comparison.steps),
        artifacts_section(comparison.artifacts),
        Paragraph(words.ONE_RUN_EACH),
    )


def _job_table(jobs: Sequence[JobChange]) -> Table:
    rows = tuple(
        (
            Link(job.name, job.url),
            words.conclusions_text(job),
            Cell(words.job_times_text(job), job.wall_after_s),
        )
        for job in jobs
    )
    columns = Column("job"), Column("conclusion"), Column("wall time", "right")
    return Table(columns, rows, "job")


def _transitions(cases: Sequence[Transition], links: Links) -> tuple[Section, Section]:
    """Return the tests that changed and, folded, those that fail in both runs."""
    changed, both = (
        [case for case in cases if case.fails_on_both == is_both] for is_both in (False, True)
    )
    folded = Details(f"{len(both):,} failing in both runs", (_transition_table(both, links),))
    number, title = (len(changed), "changed test"), "Tests that changed"
    return (
        Section("transitions", (_transition_table(changed, links),), title, number, drop=4),
        Section("failing_on_both", (folded,), size=(len(both), "shared failure"), drop=6),
    )


def _transition_table(cases: Sequence[Transition], links: Links) -> Table:
    columns = ("test", "change", "before", "after", "shard", "message")
    groups = group_variants(cases, lambda case: case.key, _row_key)
    moved: dict[object, list[Sequence[Transition]]] = {}
    for number, group in enumerate(groups):
        moved.setdefault(words.moved_texts(group[0]) or number, []).append(group)
    rows = tuple(_transition(alike, links) for alike in moved.values())
    return Table(tuple(map(Column, columns)), rows, "test")


def _row_key(case: Transition) -> tuple[object, ...]:
    """Return the facts that the variants of a test must share to be one row."""
    others = (case.renamed_from, case.perhaps_was)
    names = [key and key._replace(variant="") for key in others]
    states = (words.before_text(case), words.case_text(case.after), case.excuse)
    return (case.kind, *names, *states, fingerprint(case.first_line))


def _transition(groups: Sequence[Sequence[Transition]], links: Links) -> Row:
    """Return the row of a test with its combinations, or of all tests of one renamed file."""
    group = groups[0]
    first = group[0]
    if len(group) > 1:  # combinations differ in their numbers of past failures
        first = replace(first, past=None)
    is_doubtful = first.kind == "renamed" and first.renamed_from is None
    kind = f"{'perhaps ' * is_doubtful}{words.kind_text(first.kind)}"
    if len(groups) > 1:
        old, new = words.moved_texts(first)
        moved = identifier(old), " -> ", identifier(new), f": {count_of(len(groups), 'test')}"
        shards = [case.shard for alike in groups for case in alike]
        return (moved, kind, "", "", link_shards(shards, links), "")
    name = _name([case.key for case in group], links)
    for relation, other in (("was", first.renamed_from), ("perhaps was", first.perhaps_was)):
        if other is not None:
            name = (*name, f", {relation} ", identifier(case_name(other)))
    return (
        name,
        kind,
        words.before_text(first),
        f"{words.case_text(first.after)}{words.failure_rate_text(first)}",
        link_shards([case.shard for case in group], links),
        Code(first.first_line) if first.first_line else "",
    )


def _name(keys: Sequence[CaseKey], links: Links) -> tuple[doc.Span, ...]:
    """Return the name of a test, with its combinations if there are several."""
    combinations = name_combinations(keys, links.suites)
    key = keys[0]._replace(variant="") if combinations else keys[0]
    return (identifier(case_name(key)), *([f" {combinations}"] if combinations else []))


def _measure(comparison: Comparison, verdict: MeasureVerdict, links: Links) -> Section:
    """Return the section of a measure: the changes, and the sentence unless there is none.

    `CaseChange.is_listed` decides which changes a comment has; a page has them all.
    """
    name, title, drop = MEASURES[verdict.measure]
    is_known = verdict in comparison.verdicts and verdict != NO_GPU_MEMORY
    is_known &= verdict.verdict != "no significant difference"  # the headline has these
    sentence = as_sentence(words.measure_text(verdict)) if is_known else ""
    unconfirmed = verdict.unconfirmed
    folded = unconfirmed if len(unconfirmed) > MAX_OPEN else ()
    few = [change for change in verdict.listed if change not in folded]
    summary = words.unconfirmed_text(folded)
    fold = Details(summary, (_changes(_by_test(folded), links),))
    listed = (_changes(_by_test(few), links), fold)
    all_changes = _changes([(change,) for change in (*verdict.losses, *verdict.gains)], links)
    return Section(
        name,
        (
            Paragraph(sentence),
            Section(f"{name}_listed", listed, formats=("text", "markdown")),
            Section(f"{name}_all", (all_changes,), formats=("html",)),
        ),
        title=title,
        size=(len(verdict.listed), f"change of {MEASURE_NOUN[verdict.measure]}"),
        drop=drop,
    )


def _by_test(changes: Sequence[CaseChange]) -> list[tuple[CaseChange, ...]]:
    return group_variants(changes, lambda change: change.key, words.change_verdict)


def _changes(groups: Sequence[Sequence[CaseChange]], links: Links) -> Table:
    """Return the table of changes; times are uncorrected, their change is at equal speed.

    A row of several combinations has the numbers of the first.
    """
    corrected = any(
        first.measured is not None
        and not isclose(first.measured, first.after, rel_tol=VISIBLE_SPEED)
        for first, *_ in groups
    )
    columns = (
        Column("test"), Column("verdict"), Column("before", "right"), Column("after", "right"),
        Column("change at equal speed" if corrected else "change", "right"),
        Column("shard", drop=1),
    )  # fmt: skip
    return Table(columns, tuple(_change(group, links) for group in groups), "change")


def _change(group: Sequence[CaseChange], links: Links) -> Row:
    first, *others = group
    name = _name([change.key for change in group], links)
    if others:
        name = (*name, f"; the numbers are those of {first.key.variant}")
    before, after = words.value_texts(first)
    return (
        name,
        words.change_verdict(first),
        Cell(before, first.before),
        Cell(after, first.after if first.measured is None else first.measured),
        Cell(words.change_text(first), first.after - first.before),
        Link(first.shard, links.job(first.shard)),
    )


def _metrics(comparison: Comparison) -> Section:
    """Return the metrics that differ; the others are folded."""
    metrics = comparison.metrics
    different = [change for change in metrics.changes if change.verdict in DIFFERENT]
    equal = [change for change in metrics.changes if change.verdict not in DIFFERENT]
    others: tuple[MetricChange | MetricCount, ...] = (*equal, *metrics.counts)
    text = Paragraph(as_sentence(metrics_text(metrics)) if metrics_text(metrics) else "")
    summary = f"{count_of(len(others), 'metric')} without a difference"
    if metrics.counts or metrics.unjudged:
        summary = f"{count_of(len(others), 'metric')} without a verdict or a difference"
    fold = Details(summary, (text, _metric_table(others)))
    blocks: tuple[Block, ...] = (_metric_table(different), fold if others else text)
    title = "Metrics" if different else ""
    number = len(different) or len(others), "metric"
    return Section("metrics", blocks, title, number, drop=9 if different else 12)


def _neighbours(comparison: Comparison) -> Section:
    """Return the pairs of similar printed values, which have no verdict."""
    base, neighbours = comparison.base, comparison.neighbours
    names = (base.name if base is not None else "", comparison.candidate.name)
    sides = (LogSide(names[0], "whole", 0), LogSide(names[1], "whole", 0))
    pairs = similar_values(neighbours, sides)
    size_ = (len(pairs.items), "pair")
    return Section("neighbours", (pairs,), UNJUDGED_PAIRS, size_, drop=12, folded=True)


def _metric_table(metrics: Sequence[MetricChange | MetricCount]) -> Table:
    columns = (
        Column("metric"), Column("verdict"), Column("before and after"), Column("change", "right"),
    )  # fmt: skip
    return Table(columns, tuple(map(_metric, metrics)), "metric")


def _metric(metric: MetricChange | MetricCount) -> Row:
    ratio = metric.ratio if isinstance(metric, MetricChange) else None
    change = metric_change_text(metric) if isinstance(metric, MetricChange) else "-"
    return (
        Code(series_title(metric.name, metric.key)),
        metric_verdict(metric),
        metric_text(metric),
        Cell(change, ratio),
    )


def _both_runs(comparison: Comparison, links: Links) -> Section:
    legs, baseline = comparison.legs, comparison.baseline
    unlisted = tuple(
        Item(as_sentence(f"{text}: see the JSON or the HTML page"))
        for verdict in (comparison.memory, comparison.durations)
        if (text := words.unlisted_text(verdict))
    )
    blocks: tuple[Block, ...] = (
        Section("folded_runs", (_runs(comparison, links),), formats=("markdown",)),
        _legs(comparison, links),
        _totals(comparison),
        Section("unlisted", (Bullets(unlisted, "note"),), formats=("text", "markdown")),
        Bullets(tuple(Item(text) for text in _notes(comparison)), "note"),
    )
    title = f"{count_of(len(legs), 'shard')}, {count_of(len(baseline.runs), 'baseline run')}"
    number = len(legs), "compared shard"
    return Section("both_runs", blocks, title, number, drop=13, folded=True)


def _totals(comparison: Comparison) -> Facts:
    rows: list[tuple[str, Content]] = []
    for total in comparison.totals:
        show = size if total.name.endswith("_bytes") else duration
        after = _placeholder(comparison) if total.after is None else show(total.after)
        n = count_of(total.n, "baseline run")
        if total.name == "tests_s":
            n = f"{count_of(total.n, 'test')} that passed in both runs"
        elif total.n > 1:
            n = f"median of {n}"
        rows.append((words.total_title(total), f"{show(total.before)} ({n}) -> {after}"))
    if cost := _costs(comparison):
        rows.append(("billed", cost))
    if comparison.suite_speed.verdict not in ("not measured", "not enough data"):
        rows.append(("suite speed", words.suite_speed_text(comparison.suite_speed)))
    return Facts(tuple(rows))


def _placeholder(comparison: Comparison) -> str:
    """Return the text in the place of an unknown total."""
    return "not shown: the run is incomplete" if comparison.is_incomplete else "-"


def _costs(comparison: Comparison) -> str:
    """Return "12 minutes (0.072 USD) -> 14 minutes (0.084 USD)"; "" if both are unknown."""
    before, after = comparison.cost_before, comparison.cost_after
    if before is None and after is None:
        return ""
    alone = any(cost is not None and not cost.includes_all_jobs for cost in (before, after))
    old = "-" if before is None else words.cost_text(before)
    new = _placeholder(comparison) if after is None else words.cost_text(after)
    return f"{old} -> {new}{' (only the shards)' * alone}"


def _notes(comparison: Comparison) -> Iterator[str]:
    if comparison.unjudged_reason and words.finding_texts(comparison):  # else in the headline
        yield as_sentence(words.unjudged_text(comparison))
    yield from words.paid_once_texts((comparison.memory, comparison.durations))
    yield from words.slowed_legs_texts(comparison.legs)
    yield from map(words.note_text, comparison.notes)


def _legs(comparison: Comparison, links: Links) -> Table:
    has_gpus = any(
        leg.machine_before.gpu_bytes or leg.machine_after.gpu_bytes for leg in comparison.legs
    )
    columns = (
        Column("shard"), Column("ending"), Column("wall time"), Column("peak memory"),
        *([Column("GPU memory")] if has_gpus else []),
        Column("runner memory", "right", 3), Column("speed", "right", 2),
    )  # fmt: skip
    names = distinct_lines([leg.shard or "-" for leg in comparison.legs], 40)
    legs = zip(names, comparison.legs, strict=True)
    rows = tuple(_leg(name, leg, links, has_gpus=has_gpus) for name, leg in legs)
    return Table(columns, rows, "shard")


def _leg(name: str, leg: LegChange, links: Links, *, has_gpus: bool) -> Row:
    gpus = [
        sum(machine.gpu_bytes.values()) or None
        for machine in (leg.machine_before, leg.machine_after)
    ]
    return (
        Link(name, links.job(leg.shard)),
        words.endings_text(leg),
        Cell(words.leg_times_text(leg), leg.wall_after_s),
        _change_of(leg.peak_before_bytes, leg.peak_after_bytes, size),
        *([_change_of(gpus[0], gpus[1], size)] if has_gpus else []),
        Cell(size(leg.memory_bytes), leg.memory_bytes),
        Cell("-" if leg.speed is None else f"{leg.speed:.2f}", leg.speed),
    )


def _change_of(
    before: float | None, after: float | None, show: Callable[[float | None], str]
) -> Cell:
    """Return a cell that is sorted by the number after."""
    return Cell(f"{show(before)} -> {show(after)}", after)
