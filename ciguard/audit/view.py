"""The audit of a matrix as blocks and as JSON, schema 1: counts, then the findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ciguard.audit.filters.expression import positions_in
from ciguard.audit.findings import REASONS, Audit, MissingReason, SelectedShard
from ciguard.audit.next_step import NextStep, as_section
from ciguard.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Content,
    Facts,
    Headline,
    Item,
    Row,
    Section,
    Span,
    Table,
    join,
)
from ciguard.text import count_of, duration

MAX_EXAMPLES: Final = 3  # tests named in a row
MAX_SHARDS: Final = 4  # shards named in a row
MAX_ROWS: Final = 200
NAME_WIDTH: Final = 60

REASON_TEXT: Final[Mapping[MissingReason, str]] = {
    "outside_projects": "outside of the folder of every shard",
    "common_filter": "excluded by the filter that all shards share",
    "label": "excluded only by a shard's own category term",
    "not_requested": "requested by no shard",
}
SCHEMA: Final = 1


def headline(audit: Audit) -> str:
    """Return the counts of tests and shards in one sentence."""
    total = count_of(len(audit.tests.units), "test")
    empty = sum(shard.is_empty for shard in audit.shards)
    missing = sum(tests.bit_count() for tests in audit.missing.values())
    parts = []
    if missing:
        parts.append(f"{missing:,} in no shard")
    if audit.in_several:
        parts.append(f"{audit.in_several.bit_count():,} in several")
    if audit.undecided:
        parts.append(f"{audit.undecided.bit_count():,} undecided")
    if not parts:
        parts.append("each in one shard")
    shards = count_of(len(audit.shards), "shard")
    return f"{total}: {', '.join(parts)}; {shards}{f', {empty} empty' if empty else ''}"


def document(audit: Audit, following: NextStep | None) -> tuple[Block, ...]:
    """Return the whole audit, for all formats; `following` is None without a workflow."""
    is_bad = bool(audit.orphans or audit.in_several)
    return (
        Headline(headline(audit), "failed" if is_bad else "neutral"),
        Facts(tuple(_facts(audit))),
        _missing(audit),
        _overlaps(audit),
        _vacuous_terms(audit),
        _empty_terms(audit),
        _shards(audit),
        *([as_section(following)] if following else ()),
    )


def _facts(audit: Audit) -> Iterator[tuple[str, Content]]:
    yield "executions", f"{audit.executions:,} ({audit.redundant:,} redundant)"
    empty = len(audit.empty_terms)
    yield "filter terms", f"{audit.term_count:,} distinct ({empty:,} match no test)"
    unknown = [shard.shard for shard in audit.shards if shard.shard.unknown]
    for shard in unknown[:MAX_SHARDS]:
        yield "not evaluated", (Code(shard.name, NAME_WIDTH), f": {shard.unknown}")
    if len(unknown) > MAX_SHARDS:
        yield "not evaluated", f"{len(unknown) - MAX_SHARDS} more shards"
    unsure = [("all shards", term) for term in audit.unsure]
    unsure += [(shard.shard.name, term) for shard in audit.shards for term in shard.unsure]
    if any(term.is_label for _, term in unsure):
        yield "undecided", "the list of tests does not have the categories that filters name"
    if not audit.tests.has_files and any(shard.shard.project for shard in audit.shards):
        yield "undecided", "the list of tests has no files, so the tests of a project are unknown"
    unevaluated = [(name, term.text) for name, term in unsure if not term.is_label]
    for name, text in unevaluated[:MAX_SHARDS]:
        words = ": not known which tests ", Code(text, NAME_WIDTH), " selects"
        yield "undecided", (Code(name, NAME_WIDTH), *words)
    if len(unevaluated) > MAX_SHARDS:
        yield "undecided", f"{len(unevaluated) - MAX_SHARDS:,} more filters"
    sizes = [shard.selected.sure.bit_count() for shard in audit.shards]
    if audit.executions:
        mean = audit.executions / len(sizes)
        yield "largest shard", f"{max(sizes):,} tests, {max(sizes) / mean:.1f} times the mean"
    walls_s = [shard.wall_s or 0.0 for shard in audit.shards]
    if any(walls_s):
        ratio = max(walls_s) * len(walls_s) / sum(walls_s)
        yield "longest shard", f"{duration(max(walls_s))}, {ratio:.1f} times the mean"


def _missing(audit: Audit) -> Section:
    rows: list[Row] = []
    for reason in REASONS:
        tests = audit.missing[reason]
        if tests:
            units = [audit.tests.units[position].unit for position in positions_in(tests)]
            examples = join([Code(unit, NAME_WIDTH) for unit in units], most=MAX_EXAMPLES)
            rows.append((REASON_TEXT[reason], f"{tests.bit_count():,}", examples))
    columns = (Column("Reason"), Column("Tests", "right"), Column("Examples", drop=1))
    return Section("missing", (Table(columns, tuple(rows)),), "Tests in no shard")


def _named(audit: Audit, shards: Sequence[int]) -> tuple[Span, ...]:
    names = [Code(audit.shards[position].shard.name, NAME_WIDTH) for position in shards]
    return join(names, most=MAX_SHARDS)


def _overlaps(audit: Audit) -> Section:
    words = {"equal": "the same tests", "contained": "one contains the other", "overlapping": ""}
    ordered = sorted(audit.overlaps, key=lambda overlap: -overlap.tests.bit_count())
    rows = tuple(
        (
            _named(audit, (overlap.first, overlap.second)),
            Cell(f"{overlap.tests.bit_count():,}", overlap.tests.bit_count()),
            words[overlap.kind],
        )
        for overlap in ordered
    )
    columns = (Column("Shards"), Column("Tests", "right"), Column(""))
    table = Table(columns, rows, "pair", MAX_ROWS)
    return Section("overlaps", (table,), "Tests in several shards", (len(rows), "pair"), drop=2)


def _vacuous_terms(audit: Audit) -> Section:
    items = []
    for shard, texts in audit.vacuous_terms:
        name = Code(audit.shards[shard].shard.name, NAME_WIDTH)
        terms = join([Code(text, NAME_WIDTH) for text in texts])
        words = (": ", *terms, " is true for all tests that the rest of the filter selects")
        items.append(Item((name, *words)))
    bullets = Bullets(tuple(items), "filter")
    return Section("vacuous_terms", (bullets,), "Terms without an effect")


def _empty_terms(audit: Audit) -> Section:
    rows = tuple(
        (Code(empty_term.text, NAME_WIDTH), _named(audit, empty_term.shards))
        for empty_term in audit.empty_terms
    )
    table = Table((Column("Term"), Column("Shards", drop=1)), rows, "term", MAX_ROWS)
    size = (len(rows), "term")
    return Section("terms", (table,), "Terms that match no test", size, drop=3, folded=True)


def _shards(audit: Audit) -> Section:
    timed = any(shard.wall_s is not None for shard in audit.shards)
    located = any(shard.shard.line is not None for shard in audit.shards)
    rows = tuple(tuple(_cells(shard, timed=timed, located=located)) for shard in audit.shards)
    columns = [Column("Shard"), Column("Tests", "right"), Column("Only here", "right", drop=2)]
    columns += [Column("Time", "right")] * timed + [Column("Limit", "right", drop=1)]
    columns += [Column("Line", "right", drop=3)] * located + [Column("")]
    table = Table(tuple(columns), rows, "shard")
    return Section("shards", (table,), "Shards", (len(rows), "shard"), drop=1)


def _cells(selected: SelectedShard, *, timed: bool, located: bool) -> Iterator[Content | Cell]:
    count = selected.selected.sure.bit_count()
    yield Code(selected.shard.name, NAME_WIDTH)
    most = selected.selected.possible.bit_count()
    yield Cell(f"{count:,}" if count == most else f"{count:,} to {most:,}", count)
    yield Cell(f"{selected.own.bit_count():,}", selected.own.bit_count())
    if timed:
        yield Cell(duration(selected.wall_s), selected.wall_s)
    yield duration(selected.shard.timeout_s) if selected.shard.timeout_s is not None else ""
    if located:
        yield str(selected.shard.line or "")
    remarks = ["empty"] * selected.is_empty + ["over its limit"] * selected.is_over_limit
    yield ", ".join(remarks)


def as_json(audit: Audit, following: NextStep | None) -> dict[str, Any]:
    """Return the audit as JSON values: every key is present, null if not known.

    Tests are named, in the order of the list.
    """
    names = [shard.shard.name for shard in audit.shards]

    def tests(members: int) -> list[str]:
        return [audit.tests.units[position].unit for position in positions_in(members)]

    return {
        "schema": SCHEMA,
        "headline": headline(audit),
        "tests": len(audit.tests.units),
        "executions": audit.executions,
        "redundant_executions": audit.redundant,
        "in_several_shards": tests(audit.in_several),
        "in_no_shard": {reason: tests(audit.missing[reason]) for reason in REASONS},
        "orphans": audit.orphans.bit_count(),
        "undecided": tests(audit.undecided),
        "terms": audit.term_count,
        "shards": [
            {
                "name": shard.shard.name,
                "line": shard.shard.line,
                "filter": shard.shard.text,
                "tests": shard.selected.sure.bit_count(),
                "tests_at_most": shard.selected.possible.bit_count(),
                "only_here": shard.own.bit_count(),
                "wall_s": shard.wall_s,
                "timeout_s": shard.shard.timeout_s,
                "unknown": shard.shard.unknown or None,
            }
            for shard in audit.shards
        ],
        "overlaps": [
            {
                "shards": [names[overlap.first], names[overlap.second]],
                "kind": overlap.kind,
                "tests": overlap.tests.bit_count(),
            }
            for overlap in audit.overlaps
        ],
        "empty_terms": [
            {"term": empty_term.text, "shards": [names[shard] for shard in empty_term.shards]}
            for empty_term in audit.empty_terms
        ],
        "vacuous_terms": [
            {"shard": names[shard], "terms": list(texts)} for shard, texts in audit.vacuous_terms
        ],
        "next_step": following._asdict() if following is not None else None,
    }
