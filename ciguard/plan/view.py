"""Output of `ciguard plan`: facts, warnings, shards, and other numbers of shards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from ciguard.document import (
    Block,
    Bullets,
    Code,
    Column,
    Content,
    Facts,
    Headline,
    Item,
    Row,
    Section,
    Strong,
    Table,
    identifier,
    join,
)
from ciguard.model import (
    CulpritCandidate,
    Plan,
    PlannedUnit,
    PlanNote,
    PlanNoteKind,
    Prediction,
    Shard,
    UnitKey,
)
from ciguard.text import (
    ID_WIDTH,
    MAX_NAMED,
    count_of,
    distinct_lines,
    duration,
    name_some,
    one_line,
    price,
    size,
    whole_name,
)

MIN_MEASURED_RATIO: Final = 0.5  # of a shard's tests: with fewer, its peak is a lower bound
SMALL_RISK: Final = 0.001  # smaller ones cannot be validated by runs
MAX_LISTED: Final = 200  # rows of a table of tests
FOLDED_FROM: Final = 20  # shards
KEY_WIDTH: Final = 12
PLACE_WIDTH: Final = 100
BAR_WIDTH: Final = 12

# The sentence of each kind of note; the end of a fact's key is the unit of its value.
WORDS: Final[Mapping[PlanNoteKind, str]] = {
    "history_unusable": "the history at {location} cannot be used: {problem}",
    "history_missing": "there is no history at {location} yet",
    "history_unrelated": "the history at {location} has no timings of these tests",
    "fewer_shards": "{requested} shards requested, {planned} planned: there are no more tests "
    "(or groups of tests that stay together)",
    "target_missed_by_test": "the target of {target_s} cannot be met: "
    "a shard with only {test} takes {wall_s}",
    "target_missed": "the target of {target_s} cannot be met: {shards} shards take {wall_s}",
    "deadline_exceeded": "predicted to exceed the deadline of {deadline_s}: shard {shards_s}; "
    "longest tests: {tests_s}",
    "risk_exceeded": "above the accepted risk of {risk_ratio} to exceed the deadline of "
    "{deadline_s}: shard {shards_s}; longest tests: {tests_s}",
    "memory_exceeded": "tests that need more memory than pool {pool} has for tests, "
    "{budget_bytes}: {tests_bytes}",
    "gpu_memory_exceeded": "tests that fit on no GPU of pool {pool} ({device_bytes}): "
    "{tests_bytes}",
    "declared_memory_contradicted": "tests of {units} whose peaks differ from the declared "
    "{declared_bytes} by more than {tolerance_ratio}: {tests_bytes}",
    "tests_in_several_shards": "tests in more than one shard: {tests}",
    "empty_shards": "shards without a test, left out: {shards}",
    "files_without_tests": "test files without a planned test: {files}; the framework skips them, "
    "the list of tests omits them, the args of their suite leave them out, or they are broken",
    "drill": "this is a drill ({drill}): the run must end red",
    "retries_without_effect": "policy.retries has no effect on {suites}: results are in files",
    "untried": "not tried with ciguard: {untried}",
    "changed_tests_unknown": "changed tests are not known: check out the merge commit that GitHub "
    "tests, with fetch-depth: 2",
    "repeats_omitted": "{tests} more new or changed tests are not repeated: "
    "new_tests.at_most is {at_most}",
    "requested": "the number was requested",
    "target_met": "they meet the target of {target_s}",
    "deadline_met": "they meet the deadline of {deadline_s}; tests that alone exceed it: {tests}",
    "longest_test": "the longest test alone takes as long",
    "group": "tests that stay together take as long",
    "matrix": "a matrix has no more jobs",
    "indivisible": "there is nothing more to divide",
    "concurrency": "pool {pool} runs {jobs} jobs at once",
    "no_gain": "more would save nothing",
    "no_timings": "by count: there are no timings yet; the next plan chooses by time",
}


def note_text(note: PlanNote) -> str:
    """Return the sentence of a note, without its full stop."""
    shown = {name: _shown(name, value) for name, value in note.facts.items()}
    return WORDS[note.kind].format(**shown)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        worst = sorted(value.items(), key=lambda pair: (-pair[1], pair[0]))
        named = [f"{one_line(key, ID_WIDTH)} ({_number(name, n)})" for key, n in worst]
        return name_some(named, str)
    if isinstance(value, (list, tuple)):
        return name_some(value, partial(one_line, width=ID_WIDTH))
    return one_line(value, ID_WIDTH) if isinstance(value, str) else _number(name, value)


def _number(name: str, value: float) -> str:
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_bytes"):
        return size(value)
    return f"{100 * value:g}%" if name.endswith("_ratio") else f"{value:,}"


def document(plan: Plan, split: Sequence[str]) -> tuple[Block, ...]:
    """Return the blocks of a plan for all formats; `split` are groups in several shards."""
    measured = plan.has_timings
    noted = [note for note in plan.warnings if note.kind != "history_missing"]  # in a row of facts
    warnings = tuple(Item(note_text(note)) for note in noted)
    many = len(plan.shards) >= FOLDED_FROM
    return (
        Headline(_headline(plan, measured=measured)),
        Section("warnings", (Bullets(warnings, "warning"),), "Warnings"),
        _shard_table(plan, measured=measured, bars=True, formats=("text",)),
        Facts(tuple(_facts(plan, split, measured=measured))),
        *_alternatives(plan, measured=measured),
        _shard_table(plan, measured=measured, formats=("markdown", "html"), folded=many),
        *_unit_tables(plan, measured=measured),
    )


def _headline(plan: Plan, *, measured: bool) -> str:
    text = f"{count_of(_unit_count(plan), 'test')} in {count_of(len(plan.shards), 'shard')}"
    if plan.policy.lists and not _unit_count(plan):
        shards = count_of(len(plan.shards), "shard")
        return f"{shards} without a past run; each job lists the tests and runs its share"
    listed = "; each job lists the tests that exist" if plan.policy.lists else ""
    if not measured:
        return f"{text}; no timings yet{listed}"
    wall_s = max(shard.predicted.wall_s for shard in plan.shards)
    return f"{text}, {duration(wall_s)} predicted, {plan.gap:.1%} over the lower bound{listed}"


def _unit_count(plan: Plan) -> int:
    return sum(len(shard.units) for shard in plan.shards)


def _facts(plan: Plan, split: Sequence[str], *, measured: bool) -> Iterator[tuple[str, Content]]:
    yield "plan", ", ".join(filter(None, (plan.id, plan.repository, plan.workflow, plan.head_sha)))
    if len(plan.pools) == 1:
        yield "pool", Code(next(iter(plan.pools)))
    if plan.inventory.excluded:
        yield "excluded", f"{count_of(len(plan.inventory.excluded), 'test')}, by rules"
    deselected, skipped = Counter[str](), []
    for reason, file, count in plan.omitted:
        deselected[reason] += count
        skipped += [] if count else [f"{file} ({one_line(reason, ID_WIDTH)})"]
    for reason, count in sorted((+deselected).items()):
        yield "deselected", f"{count_of(count, 'test')} by {one_line(reason)}"
    if skipped:
        yield "skipped files", name_some(sorted(skipped), str)
    yield "history", _history(plan)
    if measured:
        yield from _times(plan)
    if plan.shard_count_limited_by:
        why = "; ".join(map(note_text, plan.shard_count_limited_by))
        yield count_of(len(plan.shards), "shard"), why
    if plan.policy.deadline_s is not None:
        yield "deadline", _deadline(plan, plan.policy.deadline_s)
        if measured and plan.risk is not None:
            yield "risk", f"{_risk(plan.risk)} that a shard exceeds the deadline"
    if (tight := _least_headroom(plan)) is not None:
        yield "memory", f"{_peak(tight)} of {size(tight.budget_bytes)}, shard {tight.key}"
        if plan.memory_risk is not None:
            yield "memory risk", f"{_risk(plan.memory_risk)} that a shard runs out of memory"
    if serial := [shard.key for shard in plan.shards if shard.serial]:
        why = "several tests at once do not fit into the memory"
        yield "one test at a time", f"in shard {name_some(serial, str)}: {why}"
    if plan.policy.repeat_until_s is not None:
        counts = Counter(unit.change for shard in plan.shards for unit in shard.units)
        repeated = [f"{counts[kind]:,} {kind}" for kind in ("new", "changed") if counts[kind]]
        if plan.policy.repeat_unplanned:
            repeated.append(f"up to {plan.policy.repeat_unplanned:,} new in each shard")
        until = f"until {duration(plan.policy.repeat_until_s)} of a shard"
        yield "repeated tests", f"{', '.join(repeated)}; {until}"
    if split:
        yield "split files", _named(split)
    if plan.claims:
        blocks = [block for shard in plan.shards for block in shard.blocks]
        tests = count_of(sum(block.units for block in blocks), "test")
        may = f"{tests} in {count_of(len(blocks), 'block')} may move during the run, by "
        yield "claims", (may, Code(plan.claims))
    yield from (("candidates", text) for text in _candidates(plan))


def _risk(ratio: float) -> str:
    return "under 0.1%" if ratio < SMALL_RISK else f"{ratio:.1%}"


def _history(plan: Plan) -> Content:
    absent = [note for note in plan.warnings if note.kind == "history_missing"]
    none = f"none yet at {absent[0].facts['location']}" if absent else "none"
    if not plan.history.get("source"):
        return f"{none}: tests are divided by count"
    known = [unit.has_history for shard in plan.shards for unit in shard.units]
    newest = str(plan.history.get("newest") or "")[:10]
    share = f"{sum(known):,} of {count_of(len(known), 'test')}"
    if "runs" not in plan.history:
        return f"{none}; timings of {share} are from ", Code(str(plan.history["source"]))
    return (
        f"{count_of(int(plan.history['runs']), 'run')} at ",
        Code(str(plan.history["source"])),
        f"{f', newest {newest}' if newest else ''}; has timings of {share}",
    )


def _times(plan: Plan) -> Iterator[tuple[str, Content]]:
    longest = max(plan.shards, key=lambda shard: shard.predicted.wall_s)
    yield "makespan", f"{duration(longest.predicted.wall_s)}, shard {longest.key}"
    yield "lower bound", f"{duration(plan.lower_bound_s)}; gap {plan.gap:.1%}"
    if plan.floor is not None:
        estimated = "" if plan.floor.has_history else ", estimated"
        wall = f"{duration(plan.floor.wall_s)}{estimated}, "
        yield "longest test", (wall, identifier(plan.floor.unit))


def _deadline(plan: Plan, deadline_s: float) -> str:
    """Return the deadline, and how many tests have no timeout: these could hang until then."""
    text = f"{duration(deadline_s)}, then a job stops itself"
    unlimited = sum(unit.timeout_s is None for shard in plan.shards for unit in shard.units)
    if not unlimited:
        return text
    if unlimited == _unit_count(plan):
        return f"{text}; no test has a timeout"
    return f"{text}; {count_of(unlimited, 'test')} without a timeout"


def _least_headroom(plan: Plan) -> Shard | None:
    """Return the shard whose peak is the largest part of its budget."""
    ratios = [
        (shard.predicted.peak_bytes / shard.budget_bytes, shard)
        for shard in plan.shards
        if shard.predicted.peak_bytes is not None and shard.budget_bytes
    ]
    return max(ratios, key=itemgetter(0))[1] if ratios else None


def _peak(shard: Shard) -> str:
    measured = sum(unit.peak_delta_bytes is not None for unit in shard.units)
    is_partial = 0 < measured < MIN_MEASURED_RATIO * len(shard.units)
    return ">" * is_partial + size(shard.predicted.peak_bytes)


def _named(names: Sequence[str]) -> Content:
    named = join([identifier(name) for name in names[:MAX_NAMED]])
    more = len(names) - MAX_NAMED
    return join((named, f"{more:,} more"), " and ") if more > 0 else named


def _candidates(plan: Plan) -> Iterator[str]:
    """Yield the numbers of spread and of isolated candidates, by number of losses."""
    counts = Counter((each.losses, each.isolated) for each in plan.culprit_candidates)
    for (losses, isolated), count in sorted(counts.items()):
        where = "isolated" if isolated else "spread over the shards to find the culprit"
        yield f"{count_of(count, 'test')} from {count_of(losses, 'lost shard')}, {where}"


def _shard_table(
    plan: Plan, *, measured: bool, bars: bool = False, folded: bool = False, formats: Any
) -> Section:
    """Return the table of shards; `bars` of wall time and 95 % for a terminal."""
    place_title = "combination" if any(map(plan.combination, plan.shards)) else "pool"
    has_place = place_title == "combination" or len(plan.pools) > 1
    columns = [
        Column("shard"),
        *(Column(title, "right") for title in ("tests", "predicted wall")),
        Column("95 %", "right", drop=2),
        Column("peak", "right"),
        *([Column(place_title)] if has_place else []),
        *([Column("wall to 95 %", drop=1)] if bars and measured else []),
    ]
    scale_s = max(shard.predicted.wall_p95_s for shard in plan.shards)
    keys = distinct_lines([shard.key for shard in plan.shards], KEY_WIDTH)
    rows: list[Row] = []
    for key, shard in zip(keys, plan.shards, strict=True):
        walls_s = (shard.predicted.wall_s, shard.predicted.wall_p95_s) if measured else (None,) * 2
        # If each job lists the tests, those of a job without past runs are unknown.
        tests = "-" if plan.policy.lists and not shard.units else f"{len(shard.units):,}"
        cells = (key, tests, *map(duration, walls_s), _peak(shard))
        place = shard.pool if place_title == "pool" else shard.suite_key[1]
        bar = _bar(shard.predicted, scale_s) if bars else ""
        rows.append((*cells, *[one_line(place, PLACE_WIDTH)] * has_place, bar)[: len(columns)])
    table = Table(tuple(columns), tuple(rows), "shard")
    name = "bars" if bars else "shards"
    title = "" if bars else count_of(len(rows), "shard")
    return Section(name, (table,), title, formats=formats, folded=folded)


def _bar(predicted: Prediction, scale_s: float) -> str:
    """Return a bar in ASCII, which every log can show."""
    wall, end = (
        round(value_s / scale_s * BAR_WIDTH) if scale_s else 0
        for value_s in (predicted.wall_s, predicted.wall_p95_s)
    )
    return "#" * wall + "." * (end - wall)


def _alternatives(plan: Plan, *, measured: bool) -> Iterator[Block]:
    """Yield the table of other numbers of shards; none without times."""
    if not measured or not plan.alternatives:
        return
    priced = any(option.price_usd is not None for option in plan.alternatives)
    titles = ("shards", "wall of the run", "billed minutes", *(["price"] if priced else []))
    columns = (*(Column(title, "right") for title in titles), Column(""))
    rows: list[Row] = []
    for option in plan.alternatives:
        wall, minutes = duration(option.wall_s), f"{option.minutes:,}"
        cells = (f"{option.shards:,}", wall, minutes, price(option.price_usd))[: len(titles)]
        rows.append((*map(Strong, cells), "chosen") if option.chosen else (*cells, ""))
    notes = Bullets(tuple(map(Item, _alternative_notes(plan))), "note")
    table = Table(columns, tuple(rows), "alternative")
    yield Section("alternatives", (table, notes), "Other numbers of shards")


def _alternative_notes(plan: Plan) -> Iterator[str]:
    for name, pool in plan.pools.items():
        if pool.concurrency is not None:
            yield f"pool {name}: {count_of(pool.concurrency, 'job')} at once"
    unset = [f"pool.{name}.setup" for name, pool in plan.pools.items() if pool.setup_s is None]
    if unset:
        yield f"job set-up is not counted: set {name_some(unset, str)}"
    if len(plan.alternatives) > 1:
        yield "the table adds up times; it does not consider memory"


def _unit_tables(plan: Plan, *, measured: bool) -> Iterator[Section]:
    candidates = sorted(plan.culprit_candidates, key=lambda each: -each.losses)
    lost: list[Row] = [(_name(each), f"{each.losses:,}") for each in candidates]
    yield _unit_table("candidates", "from lost shards", ("lost shards",), lost)
    estimated: list[Row] = [
        (_name(unit), duration(unit.wall_s), shard.key)
        for shard in plan.shards
        for unit in shard.units
        if measured and not unit.has_history
    ]
    titles = ("estimated from similar tests", "shard")
    yield _unit_table("unmeasured", "without history", titles, estimated)


def _unit_table(name: str, what: str, titles: Sequence[str], rows: Sequence[Row]) -> Section:
    columns = (Column("test"), *(Column(title, "right") for title in titles))
    first = f", the first {MAX_LISTED}" if len(rows) > MAX_LISTED else ""
    return Section(
        name,
        (Table(columns, tuple(rows[:MAX_LISTED]), "test"),),
        f"{count_of(len(rows), 'test')} {what}{first}",
        formats=("markdown", "html"),
        folded=True,
    )


def _name(unit: CulpritCandidate | PlannedUnit) -> Code:
    return identifier(whole_name(UnitKey(unit.suite, unit.variant, unit.unit)))
