"""The view of a comparison of two text logs, as blocks of a document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ciguard import document as doc
from ciguard.compare.comparison import State
from ciguard.compare.log_comparison import (
    Caveat,
    ComparedPair,
    FailureCount,
    KeyDifference,
    LogComparison,
    LogSide,
    LogState,
    Pairing,
    ValuePair,
)
from ciguard.compare.metric_changes import VERDICTS, Neighbours, violation_text
from ciguard.compare.series import MIN_SHOWN, series_section
from ciguard.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
    identifier,
)
from ciguard.logs.process_logs import SOURCE
from ciguard.logs.values import LogValue, Place
from ciguard.model import MEMORY_ENDINGS, Ending
from ciguard.render.changes import amount_text, exact_change
from ciguard.text import count_of, name_some

# By state of a comparison of runs, jobs or logs; any other state is neutral.
PAGE_STATES: Final[Mapping[State | LogState, doc.State]] = {
    "worse": "failed",
    "mixed": "failed",
    "incomplete": "incomplete",
    "unknown": "incomplete",
    "better": "passed",
    "same": "passed",
}
_CAVEATS: Final[dict[Caveat, str]] = {
    "base empty": "the base log is empty",
    "candidate empty": "the candidate log is empty",
    "base cut": "the base log is cut",
    "candidate cut": "the candidate log is cut",
    "base missing": "a log of the base is missing on GitHub",
    "candidate missing": "a log of the candidate is missing on GitHub",
    "jobs missing": "the candidate has no log of",
    "not reached": "the candidate may have ended before some values of the base",
    "nothing in common": "the logs have no value in common",
    "values missing": "the candidate does not have all values of the base",
    "nothing judged": "no value could be judged",
}
# The caveats with which base, or candidate, has more texts than those that were counted.
_MISSING: Final = ("base missing", "candidate missing", "jobs missing")
_LOWER_BOUNDS: Final = (("base cut", *_MISSING), ("candidate cut", *_MISSING))
MAX_MISSING: Final = 3  # jobs and steps named in a sentence
UNJUDGED_PAIRS: Final = "No verdict: the keys differ"
ONE_RUN_EACH: Final = (
    "Values without a verdict are of one run each (n = 1): a difference may be chance."
)


def logs_headline(comparison: LogComparison) -> str:
    """Word the comparison of two logs in one sentence."""
    state = "NO DIFFERENCE" if comparison.state == "same" else comparison.state.upper()
    return f"{state}: {logs_text(comparison)}"


def logs_text(comparison: LogComparison) -> str:
    """Word the reasons of the state."""
    counts = [
        f"{number:,} {'equal' if verdict == 'same' else verdict}"
        for verdict in ("worse", "better", "changed", "same", "not judged")
        if (number := sum(pair.verdict == verdict for pair in comparison.pairs))
    ]
    others = [
        f"{count_of(number, noun)} {words}"
        for number, noun, words in (*_changes(comparison), *_no_pairs(comparison))
        if number
    ]
    values = f"values: {', '.join(counts)}" if counts else "no values compared"
    others[:0] = map(violation_text, comparison.violations)
    return "; ".join([*doubt_texts(comparison.doubts, comparison.missing), *others, values])


def doubt_texts(doubts: Sequence[Caveat], missing: Sequence[Place]) -> list[str]:
    """Word the caveats of logs; `missing` are the jobs and steps without a log."""
    names = [
        " of ".join(
            f"{kind} {name}" for kind, name in (("step", place.step), ("job", place.job)) if name
        )
        for place in missing
    ]
    objects = {"jobs missing": f" {name_some(names, str, MAX_MISSING, last=', and ')}"}
    return [_CAVEATS[caveat] + objects.get(caveat, "") for caveat in doubts]


def _changes(comparison: LogComparison) -> Iterator[tuple[int, str, str]]:
    failures, warnings = comparison.failures, comparison.warnings
    yield sum(count.after > count.before for count in failures), "failure", "more often"
    yield sum(count.after < count.before for count in failures), "failure", "less often"
    yield sum(count.earlier is not None for count in failures), "failure", "with a different amount"
    differences = [warning.change.after - warning.change.before for warning in warnings]
    yield sum(lines for lines in differences if lines > 0), "counted line", "more"
    yield -sum(lines for lines in differences if lines < 0), "counted line", "fewer"


def _no_pairs(comparison: LogComparison) -> Iterator[tuple[int, str, str]]:
    """Count the reasons why the state is inconclusive."""
    if comparison.state == "inconclusive":
        pairing = comparison.pairing
        yield len(pairing.counts), "value", "more or less often"
        yield len(pairing.nearest), "value", "with a different key"
        sides = (comparison.base, comparison.candidate)
        yield sum(len(side.unreadable) for side in sides), "text", "in the place of a number"


def logs_document(comparison: LogComparison) -> tuple[Block, ...]:
    sides = (("base", comparison.base), ("candidate", comparison.candidate))
    return (
        doc.Headline(logs_headline(comparison), PAGE_STATES.get(comparison.state, "neutral")),
        Facts(tuple((name, _side(side)) for name, side in sides)),
        *log_sections(comparison),
    )


def log_sections(comparison: LogComparison) -> tuple[Block, ...]:
    """Return the blocks: failures, compared values, and values without a verdict."""
    pairing, both = comparison.pairing, (comparison.base, comparison.candidate)
    return (
        Paragraph(endings_text((), comparison.failures, comparison.doubts)),
        _failures(comparison),
        _pairs(comparison),
        Section("beside", (similar_values(pairing, both),), UNJUDGED_PAIRS),
        _counts(comparison),
        series_section(comparison.series),
        _warnings(comparison),
        Paragraph(ONE_RUN_EACH if comparison.count("not judged") else ""),
    )


def endings_text(
    results: Sequence[Sequence[Ending | None]],
    failures: Sequence[FailureCount],
    doubts: Sequence[Caveat],
    missing: Sequence[Place] | None = None,
) -> str:
    """Return "timeouts 370 -> 31 (results of tests) and 940 -> at least 90 (texts in logs)".

    Args:
        results: endings of tests, in base and candidate.
        missing: jobs and steps without a log; None if the headline has the doubts.
    """
    texts = []
    least = ["at least " * any(doubt in bound for doubt in doubts) for bound in _LOWER_BOUNDS]
    for name, endings in (("timeouts", ("timeout",)), ("out of memory", MEMORY_ENDINGS)):
        of_tests = [sum(ending in endings for ending in side) for side in results]
        own = [failure for failure in failures if failure.ending in endings]
        of_logs = [sum(count.before for count in own), sum(count.after for count in own)]
        found = [f"{of_tests[0]:,} -> {of_tests[1]:,} (results of tests)"] if any(of_tests) else []
        if any(of_logs):
            before, after = (f"{word}{n:,}" for word, n in zip(least, of_logs, strict=True))
            found.append(f"{before} -> {after} (texts in logs)")
        texts += [f"{name} {' and '.join(found)}"] if found else []
    partial = [doubt for doubt in doubts if any(doubt in bound for bound in _LOWER_BOUNDS)]
    reasons = doubt_texts(partial, missing) if missing is not None else []
    return "; ".join(filter(None, [", ".join(texts), *reasons]))


def _side(side: LogSide) -> doc.Content:
    end = "" if side.end == "whole" else f", {side.end}"
    name = doc.Link(identifier(side.name), side.url or None)
    return (name, f", {count_of(side.lines, 'line')}{end}")


def _pairs(comparison: LogComparison) -> Section:
    lengths = Counter(_name(pair.pair.before) for pair in comparison.pairs)
    differing = [pair for pair in comparison.pairs if pair.verdict not in ("same", "not judged")]
    differing += [
        pair
        for pair in comparison.pairs
        if pair.verdict == "not judged" and lengths[_name(pair.pair.before)] < MIN_SHOWN
    ]
    shown = sorted(differing, key=lambda pair: VERDICTS.index(pair.verdict))
    columns = (
        Column("value"), Column("before", "right"), Column("after", "right"),
        Column("change", "right"), Column("verdict"), Column("lines", "right"),
    )  # fmt: skip
    table = Table(columns, tuple(_pair(pair, comparison) for pair in shown), "value")
    return Section("values", (table,), "Values that differ")


def _pair(compared: ComparedPair, comparison: LogComparison) -> Row:
    pair, before, after = compared.pair, compared.pair.before, compared.pair.after
    return (
        Code(_name(before, pair.ordinal)),
        Cell(amount_text(before.value, before.unit), before.value),
        Cell(amount_text(after.value, after.unit), after.value),
        Cell(exact_change(pair.difference, pair.ratio, before.unit), pair.ratio),
        compared.verdict,
        (*_line(before, comparison.base), " -> ", *_line(after, comparison.candidate)),
    )


def _line(value: LogValue, side: LogSide) -> tuple[doc.Span, ...]:
    """Return the line number, linked to the page of the job; for a job with the step's number."""
    place = value.place
    if not place.step_number:
        return (str(place.line),)
    text = f"{place.step_number}:{place.line}"
    page = next((job.url for job in side.jobs if job.name == place.job), "")
    return (doc.Link(text, f"{page}#step:{text}" if page else None),)


def _name(value: LogValue, ordinal: int = 1) -> str:
    """Return a value's name with place and key: `x.after_bytes limit_bytes=5 #2`."""
    place = [f"[{part}]" for part in (value.place.job, value.place.step) if part]
    key = [f"{field.name}={field.value}" for field in value.key]
    return " ".join([*place, value.name, *key, *([f"#{ordinal}"] if ordinal > 1 else [])])


def _exact_amount(value: LogValue) -> str:
    """Return `_amount` with the exact bytes if the log has them; "" for an occurrence."""
    if not value.unit:
        return ""
    text, exact = amount_text(value.value, value.unit), f"{value.value:.0f} B"
    is_rounded = value.unit == "B" and value.resolution <= 1 and text != exact
    return f"{text} ({exact})" if is_rounded else text


def similar_values(pairs: Pairing | Neighbours, sides: tuple[LogSide, LogSide]) -> Bullets:
    """List the pairs of similar values, which have no verdict."""
    items = (
        *(_pair_item(pair, sides) for pair in pairs.nearest),
        *(_pair_item(pair, sides, is_refused=True) for pair in pairs.refused),
    )
    return Bullets(items, "pair")


def _pair_item(
    pair: ValuePair, sides: tuple[LogSide, LogSide], *, is_refused: bool = False
) -> Item:
    """Describe two similar values: their difference, and why they have no verdict."""
    before, after = pair.before, pair.after
    old, new = (amount_text(value.value, value.unit) for value in (before, after))
    reason = "; not compared: one of them has an equal in the other log" if is_refused else ""
    return Item((
        Code(before.name), f" {old} (", *_place(before, sides[0]),
        f") and {new} (", *_place(after, sides[1]),
        f"), {exact_change(pair.difference, pair.ratio, before.unit)}: ",
        *_differing(pair.differing), reason,
    ))  # fmt: skip


def _place(value: LogValue, side: LogSide) -> tuple[doc.Span, ...]:
    """Return "base.log:17"; of a record also which of its logs."""
    source = dict(value.facts).get(SOURCE, "")
    return (f"{side.name}:{source}{':' * bool(source)}", *_line(value, side))


def _differing(fields: Sequence[KeyDifference]) -> tuple[doc.Span, ...]:
    texts: list[doc.Content] = []
    for field in fields:
        printed = f" (both are printed as {field.printed_alike})" if field.printed_alike else ""
        text = f"{field.name} {field.before or 'absent'}, not {field.after or 'absent'}"
        texts.append((Code(text), printed))
    return doc.join(texts)


def _counts(comparison: LogComparison) -> Section:
    verdicts = {warning.change: warning.verdict for warning in comparison.warnings}
    columns = (
        *(Column("value"), Column("before", "right"), Column("after", "right")),
        Column("verdict"),
    )
    rows: tuple[Row, ...] = tuple(
        (Code(_name(count.example)), Cell(f"{count.before:,}", count.before),
         Cell(f"{count.after:,}", count.after),
         verdicts.get(count, "not judged" if count.after else "missing"))
        for count in comparison.pairing.counts
    )  # fmt: skip
    table = Table(columns, rows, "value")
    return Section("counts", (table,), "Different numbers of values")


def _failures(comparison: LogComparison) -> Section:
    columns = (
        Column("failure"), Column("before", "right"), Column("after", "right"),
        Column("amount", "right"), Column("ending"), Column("line", "right"),
    )  # fmt: skip
    rows = tuple(_failure(failure, comparison) for failure in comparison.failures)
    return Section("failures", (Table(columns, rows, "failure"),), "Failures")


def _failure(failure: FailureCount, comparison: LogComparison) -> Row:
    value, side = failure.example, comparison.candidate if failure.after else comparison.base
    inconclusive = " (perhaps)" if failure.weak and failure.ending else ""
    return (
        Code(_name(value)),
        Cell(f"{failure.before:,}", failure.before),
        Cell(f"{failure.after:,}", failure.after),
        " -> ".join(_exact_amount(each) for each in (failure.earlier, value) if each is not None),
        f"{failure.ending or '-'}{inconclusive}",
        _line(value, side),
    )


def _warnings(comparison: LogComparison) -> Section:
    texts = [
        f"{_name(compared.pair.before)} differs: other values may depend on it"
        for compared in comparison.pairs
        if compared.verdict == "changed" and compared.pair.before.name.endswith("_limit")
    ]
    texts += [
        f"{side.name}:{text.place.line}: {text.name} is not a number: {text.text}"
        for side in (comparison.base, comparison.candidate)
        for text in side.unreadable
    ]
    texts += [f"{key} matches no line of the logs" for key in comparison.unmatched]
    items = tuple(Item(text) for text in texts)
    return Section("warnings", (Bullets(items, "warning"),), "Warnings")
