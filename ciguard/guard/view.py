"""A verdict as blocks, for `ciguard guard` and a report. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ciguard.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Folded,
    Headline,
    Item,
    Link,
    Section,
    Table,
    first_line,
    identifier,
    join,
)
from ciguard.guard.log_patterns import allocation_of
from ciguard.guard.moved_units_view import moved_section
from ciguard.guard.wording import finding_fix, finding_message, headline, note_text
from ciguard.model.types import MEMORY_ENDINGS
from ciguard.render.links import NO_LINKS, Links
from ciguard.render.machine_view import ShardMachine, machine_section, slowdown_text
from ciguard.render.notes import MAX_NAMED
from ciguard.render.variant_groups import (
    fingerprint,
    group_variants,
    link_shards,
    name_combinations,
)
from ciguard.text import case_name, count_of, distinct_lines, duration, one_line, size, unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ciguard.document import Block, Row, Span
    from ciguard.guard.verdict import Excused, Failure, Finding, Flaky, Leg, Verdict
    from ciguard.model import CaseKey, Ending, Result, Suite, UnitKey

MANY: Final = 10  # failures from which on their causes are shown first
MAX_HOTSPOTS: Final = 10
MAX_FRAMES: Final = 8  # of a stack
MAX_COMMANDS: Final = 5  # shards with a command
NAME_WIDTH: Final = 120
# Columns of a table of shards that are shown where a test ended so.
ENDINGS: Final[Mapping[str, tuple[Ending, ...]]] = {
    "timeouts": ("timeout",),
    "out of memory": MEMORY_ENDINGS,
}
_FRAME: Final = re.compile(r'^\s*File "([^"\n]+)", line (\d+),? in (.+)$', re.MULTILINE)


def document(verdict: Verdict) -> tuple[Block, ...]:
    """The whole verdict, its sentence first."""
    return (Headline(headline(verdict), verdict.state), *sections(verdict))


def sections(
    verdict: Verdict,
    links: Links = NO_LINKS,
    changes: Mapping[CaseKey, str] | None = None,
    charts: Sequence[Block] = (),
) -> tuple[Section, ...]:
    """All that is below the headline, in order.

    Args:
        changes: what is new about a failure, where the run was compared with another one.
        charts: what is shown above the table of shards.
    """
    changes = changes or {}
    failed = group_by_test(
        verdict.failures, lambda one: f"{how(one.result)} {_change(one.result.key, changes)}"
    )
    is_grouped = len(failed) > MANY and len(verdict.failure_groups) < len(failed)
    return (
        _findings(verdict),
        *((_groups(verdict, links), _hotspots(verdict)) if is_grouped else ()),
        _failures(verdict, failed, links, changes, folded=is_grouped),
        _stacks(failed),
        _missing(verdict, links),
        _excused("quarantined", verdict, verdict.quarantined, links),
        _excused("ignored", verdict, verdict.failing_on_base, links),
        _flaky("flaky", verdict.flaky, verdict, links),
        _flaky("passed_after_oom", verdict.passed_after_oom, verdict, links),
        _commands(verdict, links),
        _legs(verdict, links, charts),
        moved_section(verdict.moved, links, drop=15),
        _machines(verdict, links),
        _warnings(verdict),
    )


def _findings(verdict: Verdict) -> Section:
    found = [one for one in verdict.findings if one.level != "warning"]
    items = _finding_list(verdict, found)
    return Section("findings", (items,), size=(len(items.items), "finding"), drop=1)


def _warnings(verdict: Verdict) -> Section:
    found = [one for one in verdict.findings if one.level == "warning"]
    items = _finding_list(verdict, found, "warning")
    size_ = len(items.items)
    title = count_of(size_, "warning")
    return Section("warnings", (items,), title, (size_, "warning"), drop=13, folded=True)


def _finding_list(verdict: Verdict, found: Sequence[Finding], noun: str = "finding") -> Bullets:
    reasons = _missing_reasons(verdict)
    merged = _merge_shards(found)
    return Bullets(tuple(_finding(one, shards, reasons) for one, shards in merged), noun)


def _merge_shards(found: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Findings with the shards that they are true of: those that differ in nothing else are one."""
    groups: dict[object, list[Finding]] = {}
    for number, one in enumerate(found):
        is_alone = not one.shard or one.evidence or one.culprits
        words = finding_message(replace(one, shard="")), finding_fix(one)
        groups.setdefault(number if is_alone else words, []).append(one)
    return [
        (
            replace(group[0], units=tuple(unit for one in group for unit in one.units)),
            [one.shard for one in group],
        )
        for group in groups.values()
    ]


def _missing_reasons(verdict: Verdict) -> dict[UnitKey, str]:
    """Word why units have no result. Most share one reason, so each is put into words once."""
    texts: dict[tuple[int, str], str] = {}
    for one in verdict.missing:
        place = id(one.reason), one.planned_shard
        if place not in texts:
            moved = f", claimed by shard {one.shard} from shard {one.planned_shard}"
            texts[place] = note_text(one.reason) + moved * bool(one.planned_shard)
    return {one.key: texts[id(one.reason), one.planned_shard] for one in verdict.missing}


def _finding(finding: Finding, shards: Sequence[str], reasons: Mapping[UnitKey, str]) -> Item:
    advice = finding_fix(finding)
    advice = f" {advice[:1].upper()}{advice[1:]}." if advice else ""
    message = finding_message(finding, shards)
    return Item(f"{message}.{advice}", tuple(_details(finding, reasons)))


def _details(finding: Finding, reasons: Mapping[UnitKey, str]) -> Iterator[Item]:
    for seen in finding.evidence:
        text = Link(Code(note_text(seen), 300), seen.url)
        yield Item((f"{seen.kind.replace('_', ' ')}: ", text))
    if finding.culprits:
        one = len(finding.culprits) == 1
        what = "the test that was running: " if one else "tests that were running: "
        yield Item((what, *_names(finding.culprits)))
    explained = finding.shard and finding.kind not in ("no_record", "no_record_of_plan")
    pairs = sorted((reasons.get(key, "") if explained else "", key) for key in finding.units)
    for reason, found in groupby(pairs, key=lambda pair: pair[0]):
        keys = [key for _, key in found]
        because = f"{count_of(len(keys), 'test')}, {reason}: " if reason else ""
        many = f"{count_of(len(keys), 'test')}: " if len(keys) > MAX_NAMED else ""
        yield Item((because or many, *_names(keys)))


def _names(keys: Sequence[UnitKey]) -> tuple[Span, ...]:
    shown = [identifier(unit_name(key)) for key in keys[:MAX_NAMED]]
    more = len(keys) - len(shown)
    return (*join(shown), f" and {more:,} more") if more else join(shown)


def _groups(verdict: Verdict, links: Links) -> Section:
    """Failures by what caused them."""
    rows: list[Row] = []
    for cause in verdict.failure_groups:
        place: tuple[Span, ...] = (" in ", Code(cause.frame)) if cause.frame else ()
        said: tuple[Span, ...] = (": ", Code(cause.message)) if cause.message else ()
        first = cause.failures[0].result
        count = Cell(f"{len(cause.failures):,}", len(cause.failures))
        shards = Cell(f"{cause.shards:,}", cause.shards)
        cells = ((Code(cause.kind), *place, *said), count, shards, _test(first, links))
        rows.append(cells)
    counts = (Column("tests", "right"), Column("shards", "right"))
    columns = (Column("cause"), *counts, Column("first", drop=1))
    title = f"{count_of(len(verdict.failures), 'failure')}, {count_of(len(rows), 'cause')}"
    return Section(
        "causes", (Table(columns, tuple(rows), "cause"),), title, (len(rows), "cause"), drop=2
    )


def _hotspots(verdict: Verdict) -> Section:
    """The classes or files that fail most, where there is anything to choose from."""
    found = verdict.hotspots if len(verdict.hotspots) < len(verdict.failures) else ()
    names = distinct_lines([one.name for one in found], NAME_WIDTH)
    words = ("timeouts", "out of memory", "failures", "died")
    rows: tuple[Row, ...] = tuple(
        (Code(name), *(Cell(f"{count:,}", count) for count in one.counts))
        for name, one in zip(names, found, strict=True)
    )
    columns = (Column("class or file"), *(Column(word, "right") for word in words))
    table = Table(columns, rows, "class or file", max_rows=MAX_HOTSPOTS)
    title = "Failures by class or file"
    size_ = (len(rows), "class or file")
    return Section("offenders", (table,), title, size_, drop=11, folded=True)


def _failures(
    verdict: Verdict,
    failed: Sequence[FailedTest],
    links: Links,
    changes: Mapping[CaseKey, str],
    *,
    folded: bool,
) -> Section:
    rows = tuple(
        (
            _failed_test(test, verdict, links),
            ", ".join(filter(None, (_ending(test.first.result), _change_of(test, changes)))),
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


def _change(key: CaseKey, changes: Mapping[CaseKey, str]) -> str:
    """Without how often it failed before, which differs between combinations."""
    return changes.get(key, "").partition(" (")[0]


def _change_of(test: FailedTest, changes: Mapping[CaseKey, str]) -> str:
    key = test.first.result.key
    return changes.get(key, "") if len(test.failures) == 1 else _change(key, changes)


def _failed_test(test: FailedTest, verdict: Verdict, links: Links) -> tuple[Span, ...]:
    name = Link(identifier(case_name(test.key)), links.line(test.first.result))
    where = test.combinations(verdict.plan.suites)
    return (name, f" {where}") if where else (name,)


def _shards(test: FailedTest, links: Links) -> tuple[Span, ...]:
    return link_shards([one.shard for one in test.failures], links)


def _test(result: Result, links: Links) -> Link:
    return Link(identifier(case_name(result.key)), links.line(result))


def how(result: Result) -> str:
    """The word for how a test went wrong: its ending, where that says more than "failed"."""
    return (result.outcome if result.ending == "completed" else result.ending).replace("_", " ")


def _ending(result: Result) -> str:
    """Word how it went wrong, and its request if memory ran out."""
    found = allocation_of(result)
    return f"{how(result)}, {note_text(found)}" if found else how(result)


def _stacks(failed: Sequence[FailedTest]) -> Section:
    """Show the stacks of tests that hung or crashed."""
    found = [(test.key, own_frames(test.first.result)) for test in failed]
    items = tuple(
        Item(identifier(case_name(key)), tuple(Item(Code(frame)) for frame in frames))
        for key, frames in found
        if frames
    )
    tests = "the test" if len(items) == 1 else count_of(len(items), "test")
    title = f"Stack of {tests} that hung or crashed"
    blocks = (Bullets(items, "stack"),)
    return Section("stacks", blocks, title, (len(items), "stack"), drop=12, folded=True)


def own_frames(result: Result) -> tuple[str, ...]:
    """Frames of a test that did not end by itself: the newest first, the test's own file last.

    Nothing where the message holds no stack with that file.
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
    """All tests without a result, where the findings name only some: for a page."""
    found = verdict.missing if len(verdict.missing) > MAX_NAMED else ()
    reasons = _missing_reasons(verdict) if found else {}
    rows = tuple(
        (identifier(unit_name(one.key)), Link(one.shard, links.job(one.shard)), reasons[one.key])
        for one in found
    )
    columns = (Column("test"), Column("shard"), Column("why"))
    title = f"{count_of(len(rows), 'test')} without a result"
    return Section("missing", (Table(columns, rows, "test"),), title, formats=("html",))


def _excused(word: str, verdict: Verdict, found: Sequence[Excused], links: Links) -> Section:
    why = {one.result.key: note_text(one.reason) for one in found}
    grouped = group_by_test(found, lambda one: f"{how(one.result)} {why[one.result.key]}")
    rows = tuple(
        (
            _failed_test(test, verdict, links),
            how(test.first.result),
            _shards(test, links),
            why[test.first.result.key],
        )
        for test in grouped
    )
    columns = (Column("test"), Column("result"), Column("shard"), Column("why"))
    title = count_of(len(found), f"{word} failure")
    table = Table(columns, rows, "failure")
    return Section(word, (table,), title, (len(rows), f"{word} failure"), drop=9, folded=True)


def _flaky(name: str, found: Sequence[Flaky], verdict: Verdict, links: Links) -> Section:
    groups = group_variants(
        found, lambda one: one.key, lambda one: fingerprint(describe_result(one.first, 180))
    )
    items = tuple(_flaky_item(group, verdict, links) for group in groups)
    tests = count_of(len(found), "flaky test" if name == "flaky" else "test")
    why = "failed, then passed" if name == "flaky" else "passed alone after memory ran out"
    title = f"{tests}: {why}" if name == "flaky" else f"{tests} {why}"
    blocks = (Bullets(items, "test"),)
    return Section(name, blocks, title, (len(items), "flaky test"), drop=10, folded=True)


def _flaky_item(group: Sequence[Flaky], verdict: Verdict, links: Links) -> Item:
    one = group[0]
    where = name_combinations([flaky.key for flaky in group], verdict.plan.suites)
    key = one.key._replace(variant="") if where else one.key
    shards = list(dict.fromkeys(flaky.shard for flaky in group))
    return Item((
        Link(identifier(unit_name(key)), links.line(one.first)),
        f" {where}," * bool(where),
        f" in {'shard' if len(shards) == 1 else 'shards'} ",
        *link_shards(shards, links),
        f", first {describe_result(one.first, 180)}",
    ))  # fmt: skip


def describe_result(result: Result, width: int) -> str:
    """Outcome, ending where it is more than that, and the first line of the message."""
    ending = "" if result.ending == "completed" else f" ({result.ending})"
    text = f"{result.outcome}{ending}"
    first = first_line(result.message or "")
    return one_line(f"{text}: {first}" if first else text, width)


def _commands(verdict: Verdict, links: Links) -> Section:
    """For the shards with the first failures, a command that runs them up to that.

    One is enough of a test that fails in several combinations.
    """
    failures = sorted(verdict.failures, key=lambda one: one.result.at_s or 0.0)
    found = [(one.shard, one.result.key.unit_key, one.result.process) for one in failures]
    found += [(one.shard, one.culprits[0], None) for one in verdict.findings if one.culprits]
    seeds = {leg.shard: leg.seeds for leg in verdict.legs}
    # A shard runs what the plan gives it: a test that moved is executed again in its own.
    moves = (shard for shard in verdict.plan.shards if shard.blocks and found)
    home = {unit.key: one.key for one in moves for unit in one.units[one.own_count :]}
    of_shard: dict[str, tuple[UnitKey, str]] = {}
    for shard, key, process in found:
        if shard:
            # One that died with its leg is of its last process.
            own = seeds.get(shard, {})
            seed = own.get(process or max(own, default=0), "")
            of_shard.setdefault(home.get(key, shard), (key, seed))
    of_test = {key._replace(variant=""): shard for shard, (key, _) in reversed(of_shard.items())}
    first = {
        shard: (key.unit, seed)
        for shard, (key, seed) in of_shard.items()
        if of_test[key._replace(variant="")] == shard
    }
    artifact = Code(f"ciguard-plan-{verdict.plan.id}-...")
    scripts = {leg.shard for leg in verdict.legs if leg.has_script and leg.shard in first}
    text = (
        "In a checkout of the tested commit, with the artifact ",
        artifact,
        " in ",
        Code("plan"),
        *((", and the commands of the test step in ", Code("script")) if scripts else ()),
        ":",
    )
    items = tuple(
        Item(
            (
                *("shard ", Link(shard, links.job(shard)), ": "),
                identifier(_command(shard, unit, seed, has_script=shard in scripts)),
            )
        )
        for shard, (unit, seed) in list(first.items())[:MAX_COMMANDS]
    )
    listing = Item(text, items)
    blocks = (Bullets((listing,) if items else ()),)
    title = "Reproduce: run a shard up to its first failure"
    return Section("commands", blocks, title, drop=14, formats=("markdown", "html"), folded=True)


def _command(shard: str, unit: str, seed: str, *, has_script: bool) -> str:
    words = ["ciguard", "run", "--plan", "plan", "--shard", shard, "--record", "again"]
    words += ["--script", "script"] if has_script else [f"--args={seed}"] if seed else []
    by_hand = f"  # add {seed} to the command in the script" if has_script and seed else ""
    return shlex.join([*words, "--until", unit]) + by_hand


def _legs(verdict: Verdict, links: Links, charts: Sequence[Block]) -> Section:
    """The table; columns that would be empty are left out."""
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
    rows = tuple(_leg(leg, links, words, has_peaks=has_peaks) for leg in verdict.legs)
    counted = verdict.counts.get("skipped", 0), *(_ended(verdict.endings, word) for word in words)
    total: Row = (
        *("all", "", f"{verdict.with_result:,} of {verdict.planned:,}", "", ""),
        *(("", "") if has_peaks else ()),
        *(f"{number:,}" for number in (sum(leg.bad for leg in verdict.legs), *counted)),
    )
    table = Table(columns, rows, "shard", total=total if len(rows) > 1 else None)
    with_result = f"{verdict.with_result:,} of {count_of(verdict.planned, 'test')} have a result"
    title = f"{count_of(len(rows), 'shard')}, {with_result}"
    return Section("legs", (*charts, table), title, (len(rows), "shard"), drop=6, folded=True)


def _ended(endings: Mapping[Ending, int], word: str) -> int:
    return sum(endings.get(one, 0) for one in ENDINGS[word])


def _leg(leg: Leg, links: Links, words: Sequence[str], *, has_peaks: bool) -> Row:
    peaks = (leg.peak_bytes, leg.predicted_peak_bytes) if has_peaks else ()
    counts = (leg.bad, leg.counts.get("skipped", 0), *(_ended(leg.endings, one) for one in words))
    slowed = slowdown_text(leg.machine, leg.wall_s)
    after = note_text(leg.after_tests) if leg.after_tests is not None else ""
    return (
        Link(leg.shard, links.job(leg.shard)),
        leg_ending(leg),
        Cell(f"{leg.with_result:,} of {leg.planned:,}" if leg.planned else "-", leg.with_result),
        Cell(", ".join(filter(None, (duration(leg.wall_s), slowed, after))), leg.wall_s),
        Cell(duration(leg.predicted_wall_s), leg.predicted_wall_s),
        *(Cell(size(value), value) for value in peaks),
        *(Cell(f"{value:,}", value) for value in counts),
    )


def _machines(verdict: Verdict, links: Links) -> Section:
    legs = [
        ShardMachine(leg.shard, leg.machine, leg.wall_s, leg.memory_bytes) for leg in verdict.legs
    ]
    return machine_section(legs, links)


def leg_ending(leg: Leg) -> str:
    """Word how a shard ended."""
    is_known = leg.recorded or leg.ending != "unknown"
    return leg.ending.replace("_", " ") if is_known else "no record"


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed in one way; at least one failure, each of another variant."""

    failures: tuple[Failure, ...]

    @property
    def first(self) -> Failure:
        """The failure that stands for all."""
        return self.failures[0]

    @property
    def key(self) -> CaseKey:
        """Its name; without a variant where there are several failures."""
        key = self.first.result.key
        return key if len(self.failures) == 1 else key._replace(variant="")

    def combinations(self, suites: Mapping[str, Suite]) -> str:
        """ "in 2 of 15 combinations: a; b"; "" for a single failure."""
        return name_combinations([one.result.key for one in self.failures], suites)


def group_by_test(
    failures: Iterable[Failure], how: Callable[[Failure], str]
) -> Sequence[FailedTest]:
    """Failures that differ in their variant only, in the order of the first of each.

    Args:
        how: the words for how it failed. Failures with other words, or another message apart from
            its numbers and paths, have another cause.
    """
    groups = group_variants(
        failures,
        lambda one: one.result.key,
        lambda one: (how(one), fingerprint(first_line(one.result.message or ""))),
    )
    return [FailedTest(group) for group in groups]
