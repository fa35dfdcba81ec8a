"""The sections of a verdict as blocks of a document, for `ciguard guard` and a report. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from ciguard.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Folded,
    Headline,
    Item,
    Link,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    first_line,
    identifier,
    join,
)
from ciguard.guard.failure_groups import origin_spans
from ciguard.guard.headline import headline, unit_noun
from ciguard.guard.log_patterns import allocation_of
from ciguard.guard.verdict import Excused, Failure, Finding, Flaky, Leg, Verdict
from ciguard.guard.wording import (
    coverage_text,
    finding_fix,
    finding_message,
    note_text,
    repeats_text,
)
from ciguard.model import CaseKey, Ending, Result, Suite, UnitKey
from ciguard.model.moved_units import MovedUnits, ShardMoves
from ciguard.model.types import MEMORY_ENDINGS
from ciguard.render.links import NO_LINKS, Links
from ciguard.render.machine_view import ShardMachine, machine_section, slowdown_text
from ciguard.render.variant_groups import (
    fingerprint,
    group_variants,
    link_shards,
    name_combinations,
)
from ciguard.text import (
    ID_WIDTH,
    MAX_NAMED,
    case_name,
    count_of,
    distinct_lines,
    duration,
    name_some,
    one_line,
    size,
    unit_name,
)

MANY: Final = 10  # failed tests; of more, the causes are shown first
MAX_HOTSPOTS: Final = 10
MAX_FRAMES: Final = 8  # of a stack
MAX_LOSSES: Final = 10  # files with less coverage than on the base
MAX_UNCOVERED: Final = 20  # files, and lines of each
MAX_OWNERS: Final = 3  # of a test
MAX_COMMANDS: Final = 10  # failures with a command that reproduces them
NAME_WIDTH: Final = 120
# Columns of the table of shards, by the endings that they count; shown if any test ended so.
ENDINGS: Final[Mapping[str, tuple[Ending, ...]]] = {
    "timeouts": ("timeout",),
    "out of memory": MEMORY_ENDINGS,
}
_SEED: Final = re.compile(r"[\w.=:/@ -]{1,200}")  # a record says it: nothing that a shell reads
_FRAME: Final = re.compile(r'^\s*File "([^"\n]+)", line (\d+),? in (.+)$', re.MULTILINE)


def document(verdict: Verdict) -> tuple[Block, ...]:
    """Return the headline and all sections of a verdict."""
    return (Headline(headline(verdict), verdict.state), *sections(verdict))


def sections(
    verdict: Verdict,
    links: Links = NO_LINKS,
    charts: Sequence[Block] = (),
    listed: Sequence[Failure] = (),
) -> tuple[Section, ...]:
    """Return all sections below the headline, in order.

    Args:
        charts: blocks above the table of shards.
        listed: failures whose commands come first.
    """
    failed = group_by_test(verdict.failures, lambda failure: failure_kind(failure.result))
    machines = [
        ShardMachine(leg.shard, leg.machine, leg.wall_s, leg.memory_bytes) for leg in verdict.legs
    ]
    is_grouped = len(failed) > MANY and len(verdict.failure_groups) < len(failed)
    return (
        _findings(verdict, warnings=False),
        *((_groups(verdict, links), _hotspots(verdict)) if is_grouped else ()),
        _failures(verdict, failed, links, folded=is_grouped),
        _stacks(failed),
        _missing(verdict, links),
        _excused("quarantined", verdict, verdict.quarantined, links),
        _excused("ignored", verdict, verdict.failing_on_base, links),
        _flaky("flaky", verdict.flaky, verdict, links),
        _flaky("passed_after_oom", verdict.passed_after_oom, verdict, links),
        _repeats(verdict),
        _coverage(verdict),
        _commands(verdict, links, listed),
        _legs(verdict, links, charts),
        _moved(verdict.moved, links),
        machine_section(machines, links),
        _findings(verdict, warnings=True),
    )


def _findings(verdict: Verdict, *, warnings: bool) -> Section:
    """Return the warnings, or the findings that decide the state."""
    reasons = _missing_reasons(verdict)
    shown = [finding for finding in verdict.findings if (finding.level == "warning") == warnings]
    merged = _merge_shards(shown)
    items = tuple(_finding(finding, shards, reasons) for finding, shards in merged)
    if not warnings:
        size_ = (len(items), "finding")
        return Section("findings", (Bullets(items, "finding"),), size=size_, drop=1)
    title, blocks = count_of(len(items), "warning"), (Bullets(items, "warning"),)
    return Section("warnings", blocks, title, (len(items), "warning"), drop=13, folded=True)


def _merge_shards(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Merge findings that differ only in their shard and units; return each with its shards."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        is_alone = not finding.shard or finding.evidence or finding.culprits
        words = finding_message(replace(finding, shard="")), finding_fix(finding)
        groups.setdefault(number if is_alone else words, []).append(finding)
    return [
        (
            replace(group[0], units=tuple(unit for finding in group for unit in finding.units)),
            [finding.shard for finding in group],
        )
        for group in groups.values()
    ]


def _missing_reasons(verdict: Verdict) -> dict[UnitKey, str]:
    """Word why units have no result. Most share one reason, so each reason is worded once."""
    texts: dict[tuple[int, str], str] = {}
    for unit in verdict.missing:
        reason_key = id(unit.reason), unit.planned_shard
        if reason_key not in texts:
            moved = f", claimed by shard {unit.shard} from shard {unit.planned_shard}"
            texts[reason_key] = note_text(unit.reason) + moved * bool(unit.planned_shard)
    return {unit.key: texts[id(unit.reason), unit.planned_shard] for unit in verdict.missing}


def _finding(finding: Finding, shards: Sequence[str], reasons: Mapping[UnitKey, str]) -> Item:
    advice = finding_fix(finding)
    advice = f" {advice[:1].upper()}{advice[1:]}." if advice else ""
    message = finding_message(finding, shards)
    return Item(f"{message}.{advice}", tuple(_details(finding, reasons)))


def _details(finding: Finding, reasons: Mapping[UnitKey, str]) -> Iterator[Item]:
    for note in finding.evidence:
        text = Link(Code(note_text(note), 300), note.url)
        yield Item((f"{note.kind.replace('_', ' ')}: ", text))
    if finding.culprits:
        is_single = len(finding.culprits) == 1
        label = "the test that was running: " if is_single else "tests that were running: "
        yield Item((label, *_names(finding.culprits)))
    explained = finding.shard and finding.kind not in ("no_record", "no_record_of_plan")
    pairs = sorted((reasons.get(key, "") if explained else "", key) for key in finding.units)
    for reason, group in groupby(pairs, key=lambda pair: pair[0]):
        keys = [key for _, key in group]
        with_reason = f"{count_of(len(keys), 'test')}, {reason}: " if reason else ""
        count = f"{count_of(len(keys), 'test')}: " if len(keys) > MAX_NAMED else ""
        yield Item((with_reason or count, *_names(keys)))


def _names(keys: Sequence[UnitKey]) -> tuple[Span, ...]:
    return join([identifier(unit_name(key)) for key in keys], most=MAX_NAMED)


def _groups(verdict: Verdict, links: Links) -> Section:
    """Return the table of the causes of failures, with count, shards and first test."""
    rows: list[Row] = []
    for cause in verdict.failure_groups:
        origin = (span for part in origin_spans(cause) for span in part)
        message: tuple[Span, ...] = (": ", Code(cause.message)) if cause.message else ()
        first = cause.failures[0].result
        count = Cell(f"{len(cause.failures):,}", len(cause.failures))
        shards = Cell(f"{cause.shards:,}", cause.shards)
        test = Link(identifier(case_name(first.key)), links.line(first))
        rows.append(((Code(cause.kind), *origin, *message), count, shards, test))
    counts = (Column("tests", "right"), Column("shards", "right"))
    columns = (Column("cause"), *counts, Column("first", drop=1))
    title = f"{count_of(len(verdict.failures), 'failure')}, {count_of(len(rows), 'cause')}"
    return Section(
        "causes", (Table(columns, tuple(rows), "cause"),), title, (len(rows), "cause"), drop=2
    )


def _hotspots(verdict: Verdict) -> Section:
    """Return the table of the classes or files that fail most; empty if each has one failure."""
    hotspots = verdict.hotspots if len(verdict.hotspots) < len(verdict.failures) else ()
    names = distinct_lines([hotspot.name for hotspot in hotspots], NAME_WIDTH)
    words = ("timeouts", "out of memory", "failures", "died")
    rows: tuple[Row, ...] = tuple(
        (Code(name), *(Cell(f"{count:,}", count) for count in hotspot.counts))
        for name, hotspot in zip(names, hotspots, strict=True)
    )
    columns = (Column("class or file"), *(Column(word, "right") for word in words))
    table = Table(columns, rows, "class or file", max_rows=MAX_HOTSPOTS)
    title = "Failures by class or file"
    size_ = (len(rows), "class or file")
    return Section("offenders", (table,), title, size_, drop=11, folded=True)


def _failures(
    verdict: Verdict, failed: Sequence[FailedTest], links: Links, *, folded: bool
) -> Section:
    rows = tuple(
        (
            failed_test(test, verdict, links),
            _ending(test.first.result),
            _shards(test, links),
            Folded(test.first.result.message or ""),
        )
        for test in failed
    )
    columns = (Column("test"), Column("result"), Column("shard"), Column("message"))
    title = count_of(len(verdict.failures), "failure")
    if len(rows) < len(verdict.failures):
        title += f" of {count_of(len({test.key._replace(variant='') for test in failed}), 'test')}"
    table = Table(columns, rows, "failure")
    return Section("failures", (table,), title, (len(rows), "failure"), drop=3, folded=folded)


def failed_test(test: FailedTest, verdict: Verdict, links: Links) -> tuple[Span, ...]:
    """Return the name of a test with a link to its line, its combinations and owners."""
    name = Link(identifier(case_name(test.key)), links.line(test.first.result))
    where = test.combinations(verdict.plan.suites)
    owner = owner_text(verdict.owners.get(test.first.result.key.unit_key))
    return (name, *([f" {where}"] if where else []), *([f" ({owner})"] if owner else []))


def owner_text(owners: Sequence[str] | None) -> str:
    """Return "@a, @b and 1 more", or "no owner"; "" if the project has no owners."""
    return "" if owners is None else name_some(owners, one_line, MAX_OWNERS) or "no owner"


def _shards(test: FailedTest, links: Links) -> tuple[Span, ...]:
    return link_shards([failure.shard for failure in test.failures], links)


def failure_kind(result: Result) -> str:
    """Return the word for how a test went wrong: its ending if that is not "completed"."""
    return (result.outcome if result.ending == "completed" else result.ending).replace("_", " ")


def _ending(result: Result) -> str:
    """Word how a test went wrong, with the failed allocation if memory ran out."""
    request = allocation_of(result)
    return f"{failure_kind(result)}, {note_text(request)}" if request else failure_kind(result)


def _stacks(failed: Sequence[FailedTest]) -> Section:
    """Show the stacks of tests that hung or crashed."""
    stacks = [(test.key, own_frames(test.first.result)) for test in failed]
    items = tuple(
        Item(identifier(case_name(key)), tuple(Item(Code(frame)) for frame in frames))
        for key, frames in stacks
        if frames
    )
    tests = "the test" if len(items) == 1 else count_of(len(items), "test")
    title = f"Stack of {tests} that hung or crashed"
    blocks = (Bullets(items, "stack"),)
    return Section("stacks", blocks, title, (len(items), "stack"), drop=12, folded=True)


def own_frames(result: Result) -> tuple[str, ...]:
    """Return the frames of a test that did not end by itself: newest first, the test's file last.

    Empty if the message has no stack with that file.
    """
    if result.ending == "completed" or not result.file:
        return ()
    frames = _FRAME.findall(result.message or "")
    own = [n for n, (file, *_) in enumerate(frames) if f"/{file}".endswith(f"/{result.file}")]
    if not own:
        return ()
    root = frames[own[0]][0].removesuffix(result.file)
    shown = frames[: own[-1] + 1][-MAX_FRAMES:]
    return tuple(f"{file.removeprefix(root)}:{line} {name}" for file, line, name in shown)


def _missing(verdict: Verdict, links: Links) -> Section:
    """Return the table of all tests without a result if the findings name only some: for a page."""
    missing = verdict.missing if len(verdict.missing) > MAX_NAMED else ()
    reasons = _missing_reasons(verdict) if missing else {}
    rows = tuple(
        (
            identifier(unit_name(unit.key)),
            Link(unit.shard, links.job(unit.shard)),
            reasons[unit.key],
        )
        for unit in missing
    )
    columns = (Column("test"), Column("shard"), Column("why"))
    title = f"{count_of(len(rows), 'test')} without a result"
    return Section("missing", (Table(columns, rows, "test"),), title, formats=("html",))


def _excused(word: str, verdict: Verdict, excused: Sequence[Excused], links: Links) -> Section:
    reasons = {failure.result.key: note_text(failure.reason) for failure in excused}
    grouped = group_by_test(
        excused, lambda failure: f"{failure_kind(failure.result)} {reasons[failure.result.key]}"
    )
    rows = tuple(
        (
            failed_test(test, verdict, links),
            failure_kind(test.first.result),
            _shards(test, links),
            reasons[test.first.result.key],
        )
        for test in grouped
    )
    columns = (Column("test"), Column("result"), Column("shard"), Column("why"))
    title = count_of(len(excused), f"{word} failure")
    table = Table(columns, rows, "failure")
    return Section(word, (table,), title, (len(rows), f"{word} failure"), drop=9, folded=True)


def _flaky(name: str, units: Sequence[Flaky], verdict: Verdict, links: Links) -> Section:
    groups = group_variants(
        units, lambda unit: unit.key, lambda unit: fingerprint(describe_result(unit.first, 180))
    )
    items = tuple(_flaky_item(group, verdict, links) for group in groups)
    tests = count_of(len(units), "flaky test" if name == "flaky" else "test")
    why = "failed, then passed" if name == "flaky" else "passed alone after memory ran out"
    title = f"{tests}: {why}" if name == "flaky" else f"{tests} {why}"
    blocks = (Bullets(items, "test"),)
    return Section(name, blocks, title, (len(items), "flaky test"), drop=10, folded=True)


def _flaky_item(group: Sequence[Flaky], verdict: Verdict, links: Links) -> Item:
    first = group[0]
    combinations = name_combinations([flaky.key for flaky in group], verdict.plan.suites)
    key = first.key._replace(variant="") if combinations else first.key
    shards = list(dict.fromkeys(flaky.shard for flaky in group))
    return Item((
        Link(identifier(unit_name(key)), links.line(first.first)),
        f" {combinations}," * bool(combinations),
        f" in {'shard' if len(shards) == 1 else 'shards'} ",
        *link_shards(shards, links),
        f", first {describe_result(first.first, 180)}",
    ))  # fmt: skip


def _repeats(verdict: Verdict) -> Section:
    """Return the line of the repeats; the JSON has each test."""
    notes = (note.facts for note in verdict.plan.warnings if note.kind == "repeats_omitted")
    omitted = sum(facts["tests"] for facts in notes)
    by_name = {unit_name(key): found for key, found in verdict.repeats.items()}
    line = repeats_text(by_name, unit_noun(verdict), omitted)
    number = (len(verdict.repeats), "repeated test")
    return Section("repeats", (Paragraph(line),), size=number, drop=5)


def _coverage(verdict: Verdict) -> Section:
    """Return the line of the coverage, the files that lost most of it, and the uncovered lines."""
    now, base = verdict.coverage, verdict.coverage_base
    if now is None:
        return Section("coverage", ())
    past, losses = base[1].files if base is not None else {}, []
    for path, (covered, total) in now.files.items():
        before, after = past.get(path, (0, 0)), 100 * covered / (total or 1)
        loss = 100 * before[0] / (before[1] or 1) - after
        losses.append((loss * total, path, f"{after + loss:.1f} % -> {after:.1f} %"))
    lost = tuple(
        (identifier(path), text) for lines, path, text in sorted(losses)[::-1] if lines > 0
    )
    uncovered = tuple(
        (identifier(path), name_some(lines, str, MAX_UNCOVERED))
        for path, lines in now.uncovered.items()
    )
    change, lines = ((Column("file"), Column(title)) for title in ("change", "lines"))
    blocks = (
        Paragraph(coverage_text(now, base)),
        Details("Files that lost coverage", (Table(change, lost, "file", MAX_LOSSES),)),
        Details("Uncovered lines of the diff", (Table(lines, uncovered, "file", MAX_UNCOVERED),)),
    )
    return Section("coverage", blocks, drop=5)


def describe_result(result: Result, width: int) -> str:
    """Return outcome, ending if the test did not complete, and first line of the message."""
    ending = "" if result.ending == "completed" else f" ({result.ending})"
    text = f"{result.outcome}{ending}"
    first = first_line(result.message or "")
    return one_line(f"{text}: {first}" if first else text, width)


def _commands(verdict: Verdict, links: Links, listed: Sequence[Failure]) -> Section:
    """Return the commands that run a shard up to a failure."""
    by_test: dict[UnitKey, tuple[str, str]] = {}  # of several combinations the first
    for unit, command in reproduce_commands(verdict, listed).items():
        by_test.setdefault(unit._replace(variant=""), command)
    failed = list(by_test.values())[:MAX_COMMANDS]
    artifact = Code(f"ciguard-plan-{verdict.plan.id}-...")
    has_script = any(" --script script " in command for _, command in failed)
    text = (
        "In a checkout of the tested commit, with the artifact ",
        artifact,
        " in ",
        Code("plan"),
        *((", and the commands of the test step in ", Code("script")) if has_script else ()),
        ":",
    )
    items = tuple(
        Item(("shard ", Link(shard, links.job(shard)), ": ", identifier(command)))
        for shard, command in failed
    )
    blocks = (Bullets((Item(text, items),) if items else ()),)
    title = "Reproduce: run a shard up to a failure"
    return Section("commands", blocks, title, drop=14, formats=("markdown", "html"), folded=True)


def reproduce_commands(
    verdict: Verdict, listed: Sequence[Failure] = ()
) -> Mapping[UnitKey, tuple[str, str]]:
    """Return shard and command of each failed unit, listed failures first.

    Then come tests that died with their shard, then other failures, the earliest first. A command
    that a line cannot show unchanged is left out: a part of it could be another command. Without a
    plan there is none.
    """
    if verdict.plan.is_of_results:
        return {}
    by_time = sorted(verdict.failures, key=lambda failure: failure.result.at_s or 0.0)
    died = [(item.shard, item.culprits[0], None) for item in verdict.findings if item.culprits]
    first, others = (
        [(item.shard, item.result.key.unit_key, item.result.process) for item in failures]
        for failures in (listed, by_time)
    )
    bad = [*first, *died, *others]
    seeds = {leg.shard: leg.seeds for leg in verdict.legs}
    # The command runs the units of the plan: a test that moved is repeated in its planned shard.
    movable = [shard for shard in verdict.plan.shards if shard.blocks and bad]
    home = {unit.key: shard.key for shard in movable for unit in shard.units[shard.own_count :]}
    scripts = {leg.shard for leg in verdict.legs if leg.has_script}
    by_unit: dict[UnitKey, tuple[str, str]] = {}
    for key, unit, process in bad:
        if key:
            # A unit that died with its leg ran in the last process.
            of_leg = seeds.get(key, {})
            seed = of_leg.get(process or max(of_leg, default=0), "")
            shard = home.get(unit, key)
            seed = seed if _SEED.fullmatch(seed) else ""
            command = _command(shard, unit.unit, seed, has_script=shard in scripts)
            if one_line(command, ID_WIDTH) == command:
                by_unit.setdefault(unit, (shard, command))
    return by_unit


def _command(shard: str, unit: str, seed: str, *, has_script: bool) -> str:
    words = ["ciguard", "run", "--plan", "plan", "--shard", shard, "--record", "again"]
    words += ["--script", "script"] if has_script else [f"--args={seed}"] if seed else []
    by_hand = f"  # add {seed} to the command in the script" if has_script and seed else ""
    return shlex.join([*words, "--until", unit]) + by_hand


def _legs(verdict: Verdict, links: Links, charts: Sequence[Block]) -> Section:
    """Return the table of shards, without the columns that would be empty."""
    ended = verdict.endings.keys()
    words = [word for word, endings in ENDINGS.items() if not ended.isdisjoint(endings)]
    has_peaks = any(leg.peak_bytes or leg.predicted_peak_bytes for leg in verdict.legs)
    columns = (
        *(Column("shard"), Column("ending"), Column("tests", "right")),
        *(Column("wall", "right"), Column("predicted", "right", drop=3)),
        *(
            (Column("peak", "right", drop=2), Column("predicted", "right", drop=4))
            if has_peaks
            else ()
        ),
        *(Column("failed", "right"), Column("skipped", "right", drop=5)),
        *(Column(word, "right") for word in words),
    )
    rows = tuple(_leg(leg, verdict, links, words, has_peaks=has_peaks) for leg in verdict.legs)
    counted = (
        verdict.counts.get("skipped", 0),
        *(_count_ended(verdict.endings, word) for word in words),
    )
    total: Row = (
        *("all", "", result_count(verdict.with_result, verdict.promised, ""), "", ""),
        *(("", "") if has_peaks else ()),
        *(f"{number:,}" for number in (sum(leg.bad for leg in verdict.legs), *counted)),
    )
    table = Table(columns, rows, "shard", total=total if len(rows) > 1 else None)
    with_result = result_count(verdict.with_result, verdict.promised, unit_noun(verdict))
    title = f"{count_of(len(rows), 'shard')}, {with_result} have a result"
    return Section("legs", (*charts, table), title, (len(rows), "shard"), drop=6, folded=True)


def _count_ended(endings: Mapping[Ending, int], column: str) -> int:
    return sum(endings.get(ending, 0) for ending in ENDINGS[column])


def result_count(with_result: int, promised: int | None, noun: str = "test") -> str:
    """Return "12 of 13 tests"; "12 tests" if no plan or list promised a number."""
    prefix = "" if promised is None else f"{with_result:,} of "
    number = with_result if promised is None else promised
    return prefix + (count_of(number, noun) if noun else f"{number:,}")


def _leg(leg: Leg, verdict: Verdict, links: Links, words: Sequence[str], *, has_peaks: bool) -> Row:
    peaks = [(size(value), value) for value in (leg.peak_bytes, leg.predicted_peak_bytes)]
    ended = (_count_ended(leg.endings, word) for word in words)
    counts = (leg.bad, leg.counts.get("skipped", 0), *ended)
    has_ending = leg.recorded or leg.ending != "unknown"
    is_known = verdict.promised is not None or verdict.unlisted_shards
    planned = leg.planned if is_known else None
    slowdown = slowdown_text(leg.machine, leg.wall_s)
    # In a column that narrow terminals keep, and both explain the time.
    notes = [note_text(note) for note in (leg.fewer_at_once, leg.after_tests) if note is not None]
    return (
        Link(leg.shard, links.job(leg.shard)),
        leg.ending.replace("_", " ") if has_ending else "no record",
        Cell(result_count(leg.with_result, planned, "") if leg.planned else "-", leg.with_result),
        Cell(", ".join(filter(None, (duration(leg.wall_s), slowdown, *notes))), leg.wall_s),
        Cell(duration(leg.predicted_wall_s), leg.predicted_wall_s),
        *(Cell(text, value) for text, value in peaks if has_peaks),
        *(Cell(f"{value:,}", value) for value in counts),
    )


def _moved_text(moved: MovedUnits) -> str:
    """Word the moves: "120 tests moved between 14 shards; slowest shard 3 min 05 s"."""
    text = f"{count_of(moved.units, 'test')} moved between {count_of(moved.shards, 'shard')}"
    if moved.makespan_s is None:
        return text
    text += f"; slowest shard {duration(moved.makespan_s)}"
    if moved.static_makespan_s is None:
        return text
    return f"{text}, without moves {duration(moved.static_makespan_s)} (predicted)"


def _cost_text(moved: MovedUnits) -> str:
    """Word the costs of claims, and the tests that ran twice."""
    text = (
        f"{count_of(moved.requests, 'request')} to the service. In all shards, no test ran for "
        f"{duration(moved.waited_s)} while shards waited for an answer, and for "
        f"{duration(moved.starts_s)} while further processes started"
    )
    if not moved.ran_twice:
        return f"{text}."
    return (
        f"{text}. {count_of(moved.ran_twice, 'test')} ran in two shards; the worst result counts."
    )


def _moved(moved: MovedUnits | None, links: Links) -> Section:
    """Return the sentence and the table; empty if no test moved."""
    if moved is None or not moved.units:
        return Section("moved", ())
    columns = (
        *(Column("shard"), Column("from others", "right"), Column("to others", "right")),
        *(Column("wall", "right"), Column("without moves", "right")),
        *(Column("requests", "right", 3), Column("waited", "right", 2)),
        Column("process starts", "right", 4),
    )
    table = Table(columns, tuple(_moves(leg, links) for leg in moved.legs), "shard")
    explanation = (
        "Without moves: the predicted wall time of the shard with the tests of its plan, from the "
        "measured times of these tests. Waits and further process starts are left out."
    )
    blocks = (
        Paragraph(f"{_moved_text(moved)}."),
        Details(
            "Moved tests by shard", (table, Paragraph(_cost_text(moved)), Paragraph(explanation))
        ),
    )
    return Section("moved", blocks, "Moved tests", (moved.units, "moved test"), drop=15)


def _moves(leg: ShardMoves, links: Links) -> Row:
    return (
        Link(leg.shard, links.job(leg.shard)),
        Cell(_moved_units(leg.units_in, leg.in_s), leg.units_in),
        Cell(_moved_units(leg.units_out, leg.out_s), leg.units_out),
        *(Cell(duration(value_s), value_s) for value_s in (leg.wall_s, leg.static_s)),
        Cell(f"{leg.requests:,}", leg.requests),
        *(Cell(duration(value_s), value_s) for value_s in (leg.waited_s, leg.starts_s)),
    )


def _moved_units(count: int, wall_s: float | None) -> str:
    return f"{count:,} ({duration(wall_s)})" if count else "0"


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed in one way; at least one failure, each of another variant."""

    failures: tuple[Failure, ...]

    @property
    def first(self) -> Failure:
        """The failure whose message and line are shown."""
        return self.failures[0]

    @property
    def key(self) -> CaseKey:
        """The key of the test; without a variant if there are several failures."""
        key = self.first.result.key
        return key if len(self.failures) == 1 else key._replace(variant="")

    def combinations(self, suites: Mapping[str, Suite]) -> str:
        """Return "in 2 of 15 combinations: a; b"; "" for a single failure."""
        return name_combinations([failure.result.key for failure in self.failures], suites)


def group_by_test(
    failures: Iterable[Failure], kind: Callable[[Failure], str]
) -> Sequence[FailedTest]:
    """Group the failures that differ in their variant only, in the order of the first of each.

    Args:
        kind: returns the words for how a test failed. Failures with other words, or another message
            apart from its numbers and paths, have another cause.
    """
    groups = group_variants(
        failures,
        lambda failure: failure.result.key,
        lambda failure: (kind(failure), fingerprint(first_line(failure.result.message or ""))),
    )
    return [FailedTest(group) for group in groups]
