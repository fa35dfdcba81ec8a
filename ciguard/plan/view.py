"""What `ciguard plan` shows, as blocks: facts, warnings, shards, other numbers of shards. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ciguard.document import (
    Block,
    Bullets,
    Chart,
    Code,
    Column,
    Facts,
    Headline,
    Item,
    Section,
    Strong,
    Table,
    identifier,
    join,
)
from ciguard.model import UnitKey
from ciguard.render.mermaid import bar_chart
from ciguard.text import (
    ID_WIDTH,
    count_of,
    distinct_lines,
    duration,
    one_line,
    price,
    size,
    whole_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.document import Content, Row
    from ciguard.model import (
        CulpritCandidate,
        Plan,
        PlannedUnit,
        PlanNote,
        PlanNoteKind,
        Prediction,
        Shard,
    )

MIN_MEASURED_RATIO: Final = 0.5  # of a shard's tests: with fewer, its peak is a lower bound
SMALL_RISK: Final = 0.001  # smaller ones cannot be validated by runs
MAX_NAMED: Final = 5  # names in a sentence
MAX_LISTED: Final = 200  # rows of a table of tests
FOLDED_FROM: Final = 20  # shards
KEY_WIDTH: Final = 12
PLACE_WIDTH: Final = 100
BAR_WIDTH: Final = 12

# The words of every note; a fact's value is shown by the unit at the end of its key.
WORDS: Final[Mapping[PlanNoteKind, str]] = {
    "history_unusable": "the history at {location} cannot be used: {problem}. "
    "No timings, so tests are split evenly by count",
    "history_missing": "there is no history at {location} yet: no timings, "
    "so tests are split evenly by count",
    "history_unrelated": "the history at {location} has none of these tests: no timings, "
    "so tests are split evenly by count",
    "fewer_shards": "{requested} shards requested, {planned} planned: there are no more tests, "
    "or groups of tests that stay together",
    "target_missed_by_test": "the target of {target_s} cannot be met: "
    "a shard of {test} alone takes {wall_s}",
    "target_missed": "the target of {target_s} cannot be met: {shards} shards take {wall_s}",
    "deadline_exceeded": "predicted to exceed the deadline of {deadline_s}: shard {shards_s}; "
    "longest tests: {tests_s}",
    "risk_exceeded": "above the accepted risk of {risk_ratio} to exceed the deadline of "
    "{deadline_s}: shard {shards_s}; longest tests: {tests_s}",
    "memory_exceeded": "tests that need more than the {budget_bytes} that pool {pool} has for "
    "them: {tests_bytes}",
    "gpu_memory_exceeded": "tests that fit on no GPU of pool {pool}, which have {device_bytes}: "
    "{tests_bytes}",
    "declared_memory_contradicted": "tests of {units} were declared to need {declared_bytes}, and "
    "differ from it by more than {tolerance_ratio}: {tests_bytes}",
    "tests_in_several_shards": "tests in more than one shard: {tests}",
    "empty_shards": "shards without a test, left out: {shards}",
    "files_without_tests": "test files without a planned test: {files}; the framework skips the "
    "file, the list of tests omits it, it is outside of the args of its suite, or it is broken",
    "retries_without_effect": "policy.retries has no effect on {suites}: results are in files",
    "requested": "the number was requested",
    "target_met": "they meet the target of {target_s}",
    "deadline_met": "they meet the deadline of {deadline_s}; tests that exceed it alone: {tests}",
    "longest_test": "the longest test alone takes as long",
    "group": "tests that stay together take as long",
    "matrix": "a matrix has no more jobs",
    "indivisible": "there is nothing more to divide",
    "concurrency": "pool {pool} runs {jobs} jobs at once",
    "no_gain": "more would save nothing",
    "no_timings": "one for each command and combination, the default while there are no timings; "
    "set `shards` for more",
}


def note_text(note: PlanNote) -> str:
    """A note in words, without its full stop."""
    return WORDS[note.kind].format(**{name: _shown(name, one) for name, one in note.facts.items()})


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        worst = sorted(value.items(), key=lambda pair: (-pair[1], pair[0]))
        return _some([f"{one_line(key, ID_WIDTH)} ({_number(name, one)})" for key, one in worst])
    if isinstance(value, (list, tuple)):
        return _some([one_line(one, ID_WIDTH) for one in value])
    return one_line(value, ID_WIDTH) if isinstance(value, str) else _number(name, value)


def _number(name: str, value: float) -> str:
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_bytes"):
        return size(value)
    return f"{100 * value:g}%" if name.endswith("_ratio") else f"{value:,}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def document(plan: Plan, split: Sequence[str], *, drawn: bool = False) -> tuple[Block, ...]:
    """The plan for all formats.

    Args:
        split: groups that are in several shards.
        drawn: with the geometry of the chart, which only a page needs. O(units).
    """
    measured = plan.has_timings
    warnings = tuple(Item(note_text(note)) for note in plan.warnings)
    geometry = None
    if drawn:
        from ciguard.plan.svg import shard_chart  # noqa: PLC0415  # only a page needs it

        geometry = shard_chart(plan, is_measured=measured)
    chart = Chart("shards", geometry, _mermaid(plan) if measured else "")
    many = len(plan.shards) >= FOLDED_FROM
    return (
        Headline(_headline(plan, measured=measured)),
        Section("warnings", (Bullets(warnings, "warning"),), "Warnings"),
        _shard_table(plan, measured=measured, bars=True, formats=("text",)),
        Facts(tuple(_facts(plan, split, measured=measured))),
        Section("chart", (chart,)),
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
        yield "skipped files", _some(sorted(skipped))
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
            yield "memory risk", f"{_risk(plan.memory_risk)} that a shard needs more than it has"
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
    if not plan.history.get("source"):
        return "none: tests are split evenly by count"
    known = [unit.has_history for shard in plan.shards for unit in shard.units]
    newest = str(plan.history.get("newest") or "")[:10]
    share = "all" if all(known) else f"{sum(known) / len(known):.1%} of the"
    return (
        f"{count_of(int(plan.history.get('runs', 0)), 'run')} at ",
        Code(str(plan.history["source"])),
        f"{f', newest {newest}' if newest else ''}; has timings of {share} tests",
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
    """With the tests that have no other limit: one that hangs keeps its job until then."""
    text = f"{duration(deadline_s)}, then a job stops itself"
    free = sum(unit.timeout_s is None for shard in plan.shards for unit in shard.units)
    if not free:
        return text
    if free == _unit_count(plan):
        return f"{text}; no test has a timeout"
    return f"{text}; {count_of(free, 'test')} without a timeout"


def _least_headroom(plan: Plan) -> Shard | None:
    """The shard that comes nearest to its budget."""
    ratios = [
        (shard.predicted.peak_bytes / shard.budget_bytes, shard)
        for shard in plan.shards
        if shard.predicted.peak_bytes is not None and shard.budget_bytes
    ]
    return max(ratios, key=lambda one: one[0])[1] if ratios else None


def _peak(shard: Shard) -> str:
    measured = sum(unit.peak_delta_bytes is not None for unit in shard.units)
    is_partial = 0 < measured < MIN_MEASURED_RATIO * len(shard.units)
    return ">" * is_partial + size(shard.predicted.peak_bytes)


def _named(names: Sequence[str]) -> Content:
    found = join([identifier(name) for name in names[:MAX_NAMED]])
    more = len(names) - MAX_NAMED
    return join((found, f"{more:,} more"), " and ") if more > 0 else found


def _candidates(plan: Plan) -> Iterator[str]:
    """For each number of losses: how many are spread, and how many isolated."""
    counts = Counter((one.losses, one.isolated) for one in plan.culprit_candidates)
    for (losses, isolated), count in sorted(counts.items()):
        where = "isolated" if isolated else "spread over the shards to find the culprit"
        yield f"{count_of(count, 'test')} from {count_of(losses, 'lost shard')}, {where}"


def _shard_table(
    plan: Plan, *, measured: bool, bars: bool = False, folded: bool = False, formats: Any
) -> Section:
    """All shards; bars of the wall time, then of the 95 %, where there are no charts."""
    where = "combination" if any(map(plan.combination, plan.shards)) else "pool"
    is_placed = where == "combination" or len(plan.pools) > 1
    columns = [
        Column("shard"),
        *(Column(title, "right") for title in ("tests", "predicted wall")),
        Column("95 %", "right", drop=2),
        Column("peak", "right"),
        *([Column(where)] if is_placed else []),
        *([Column("wall to 95 %", drop=1)] if bars and measured else []),
    ]
    scale_s = max(shard.predicted.wall_p95_s for shard in plan.shards)
    keys = distinct_lines([shard.key for shard in plan.shards], KEY_WIDTH)
    rows: list[Row] = []
    for key, shard in zip(keys, plan.shards, strict=True):
        walls_s = (shard.predicted.wall_s, shard.predicted.wall_p95_s) if measured else (None,) * 2
        # Where each job lists the tests, those of a job without past runs are not known.
        tests = "-" if plan.policy.lists and not shard.units else f"{len(shard.units):,}"
        cells = (key, tests, *map(duration, walls_s), _peak(shard))
        place = shard.pool if where == "pool" else shard.suite_key[1]
        bar = _bar(shard.predicted, scale_s) if bars else ""
        rows.append((*cells, *[one_line(place, PLACE_WIDTH)] * is_placed, bar)[: len(columns)])
    table = Table(tuple(columns), tuple(rows), "shard")
    name = "bars" if bars else "shards"
    title = "" if bars else count_of(len(rows), "shard")
    return Section(name, (table,), title, formats=formats, folded=folded)


def _bar(predicted: Prediction, scale_s: float) -> str:
    """In ASCII, which every log can show."""
    wall, end = (
        round(value_s / scale_s * BAR_WIDTH) if scale_s else 0
        for value_s in (predicted.wall_s, predicted.wall_p95_s)
    )
    return "#" * wall + "." * (end - wall)


def _mermaid(plan: Plan) -> str:
    return bar_chart(
        "Predicted wall by shard",
        "lower bound",
        [shard.key for shard in plan.shards],
        [shard.predicted.wall_s for shard in plan.shards],
        [plan.lower_bound_s] * len(plan.shards),
    )


def _alternatives(plan: Plan, *, measured: bool) -> Iterator[Block]:
    """Other numbers of shards; none without times."""
    if not measured or not plan.alternatives:
        return
    priced = any(one.price_usd is not None for one in plan.alternatives)
    titles = ("shards", "wall of the run", "billed minutes", *(["price"] if priced else []))
    columns = (*(Column(title, "right") for title in titles), Column(""))
    rows: list[Row] = []
    for one in plan.alternatives:
        cells = (f"{one.shards:,}", duration(one.wall_s), f"{one.minutes:,}", price(one.price_usd))
        shown = cells[: len(titles)]
        rows.append((*map(Strong, shown), "chosen") if one.chosen else (*shown, ""))
    notes = Bullets(tuple(map(Item, _alternative_notes(plan))), "note")
    table = Table(columns, tuple(rows), "alternative")
    yield Section("alternatives", (table, notes), "Other numbers of shards")


def _alternative_notes(plan: Plan) -> Iterator[str]:
    for name, pool in plan.pools.items():
        if pool.concurrency is not None:
            yield f"pool {name}: {count_of(pool.concurrency, 'job')} at once"
    silent = [f"pool.{name}.setup" for name, pool in plan.pools.items() if pool.setup_s is None]
    if silent:
        yield f"job set-up is not counted: set {_some(silent)}"
    if len(plan.alternatives) > 1:
        yield "alternatives are sums of times, without the limits of memory"


def _unit_tables(plan: Plan, *, measured: bool) -> Iterator[Section]:
    ordered = sorted(plan.culprit_candidates, key=lambda one: -one.losses)
    lost: list[Row] = [(_name(one), f"{one.losses:,}") for one in ordered]
    yield _unit_table("candidates", "from lost shards", ("lost shards",), lost)
    guessed: list[Row] = [
        (_name(unit), duration(unit.wall_s), shard.key)
        for shard in plan.shards
        for unit in shard.units
        if measured and not unit.has_history
    ]
    titles = ("estimated from similar tests", "shard")
    yield _unit_table("unmeasured", "without history", titles, guessed)


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


def _name(one: CulpritCandidate | PlannedUnit) -> Code:
    return identifier(whole_name(UnitKey(one.suite, one.variant, one.unit)))
