"""The answer of a report, at most one screen: how many tests failed, whose, and what changed. Pure.

Everything that it leaves out is below it, folded, and on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Final

from ciguard.codec.quarantine import MAX_PERIOD
from ciguard.compare.comparison import Comparison
from ciguard.compare.measure_changes import MEASURE_NOUN, CaseChange, MeasureVerdict
from ciguard.compare.statistics import MIN_BASELINE_RUNS
from ciguard.compare.transitions import Transition, TransitionKind
from ciguard.compare.whose import Answer, Whose, advice_text, evidence_text
from ciguard.compare.wording import (
    change_verdict,
    doubled_texts,
    growth_texts,
    leak_text,
    suite_speed_text,
    value_texts,
)
from ciguard.document import (
    LISTED_WIDTH,
    Bullets,
    Code,
    Column,
    Content,
    Folded,
    Item,
    Link,
    Listing,
    Paragraph,
    Row,
    Section,
    Strong,
    Table,
    first_line,
    identifier,
    join,
)
from ciguard.guard.headline import unit_noun
from ciguard.guard.verdict import Failure, Verdict
from ciguard.guard.view import FailedTest, failed_test, failure_kind, group_by_test, result_count
from ciguard.history.runs import UNMERGED_EVENTS
from ciguard.model import CaseKey, Record, UnitKey
from ciguard.render.changes import exact_change
from ciguard.render.links import Links
from ciguard.render.variant_groups import link_shards
from ciguard.text import case_name, count_of, duration, price, unit_name

MAX_ROWS: Final = 6  # failures of a comment, so that it fits a screen; the page has all
MAX_NAMED: Final = 2  # tests of a line
NO_PAST: Final = Answer("unknown", "no_past")
# By answer, after a count of 1 and of more tests.
COUNTED: Final[Mapping[Whose, tuple[str, str]]] = {
    "this change": ("looks caused by this change", "look caused by this change"),
    "likely this change": ("is likely caused by this change", "are likely caused by this change"),
    "new test": ("is new", "are new"),
    "order": ("depends on the order of tests", "depend on the order of tests"),
    "unknown": ("has an unknown cause", "have an unknown cause"),
    "infrastructure": ("is caused by the runner", "are caused by the runner"),
    "main": ("also fails on {base}", "also fail on {base}"),
    "flaky": ("is flaky", "are flaky"),
}
SHOWN_KINDS: Final[tuple[tuple[TransitionKind, str], ...]] = (
    ("added", "new"),
    ("removed", "removed"),
    ("renamed", "renamed"),
    ("fixed", "fixed"),
)
RUNS: Final = {
    "confirmed": "2 runs; reduce it, or accept it as the new baseline",
    "confirmed gain": "2 runs",
    "suspect": "1 run; the next run confirms or clears it",
}
LONGER: Final = {"wall_s": ("takes longer", "take longer", "takes less time", "take less time")}
NEEDS_MORE: Final = (
    "needs more {noun}",
    "need more {noun}",
    "needs less {noun}",
    "need less {noun}",
)


def answers_of(verdict: Verdict, comparison: Comparison | None) -> dict[CaseKey, Answer]:
    """Return the answer of each failure; without a base's run it is not known whose one is."""
    transitions = comparison.transitions if comparison is not None else ()
    known = {case.key: case.answer for case in transitions if case.answer is not None}
    return {
        failure.result.key: known.get(failure.result.key, NO_PAST) for failure in verdict.failures
    }


def is_without_past(answers: Mapping[CaseKey, Answer]) -> bool:
    """Return whether there is no base's run to which any failure could be compared."""
    return all(answer.why == "no_past" for answer in answers.values())


def base_of(comparison: Comparison | None) -> str:
    base = comparison.base if comparison is not None else None
    return (base.branch if base is not None else None) or "main"


def is_of_base(comparison: Comparison | None) -> bool:
    """Return whether the judged run is one of the base branch itself."""
    run = comparison.candidate if comparison is not None else None
    is_merged = run is not None and run.event not in UNMERGED_EVENTS
    return run is not None and is_merged and run.branch == base_of(comparison)


def whose_text(answers: Mapping[CaseKey, Answer], comparison: Comparison | None) -> str:
    """Return "1 looks caused by this change · 2 are flaky", by unit; "" without a past."""
    if is_without_past(answers):
        return ""
    order = list(COUNTED)
    by_unit: dict[UnitKey, Whose] = {}
    for key, answer in answers.items():
        known = by_unit.get(key.unit_key, answer.whose)
        by_unit[key.unit_key] = min(known, answer.whose, key=order.index)
    counts, base = Counter(by_unit.values()), base_of(comparison)
    shown = {**COUNTED}
    if is_of_base(comparison):
        shown["main"] = ("failed before", "failed before")
    return " · ".join(
        f"{counts[whose]:,} {words[counts[whose] > 1].format(base=base)}"
        for whose, words in shown.items()
        if counts[whose]
    )


def failed_tests(verdict: Verdict, answers: Mapping[CaseKey, Answer]) -> list[FailedTest]:
    order = list(COUNTED)
    return sorted(
        group_by_test(
            verdict.failures,
            lambda failure: f"{failure_kind(failure.result)} {answers[failure.result.key].whose}",
        ),
        key=lambda test: order.index(answers[test.first.result.key].whose),
    )


def failures_sections(
    verdict: Verdict, comparison: Comparison | None, links: Links, failed: Sequence[FailedTest]
) -> tuple[Section, ...]:
    """Return the table of failures: the first few for a comment, all with shards for a page."""
    answers, base = answers_of(verdict, comparison), base_of(comparison)
    without_past = is_without_past(answers)
    now = comparison.candidate.at if comparison is not None else None

    def cells(test: FailedTest) -> tuple[Content, ...]:
        if without_past:
            return ()
        answer = answers[test.first.result.key]
        evidence = evidence_text(answer, base, now)
        whose = answer.whose if answer.whose != "main" else base
        red = answer.red_since
        page = links.run_page(red.run_id) if red is not None and answer.why == "red" else ""
        spans = (Strong(whose), f": {evidence}", *((" ", Link("see it", page)) if page else ()))
        return spans, advice_text(answer, base, is_of_base=is_of_base(comparison))

    def row(test: FailedTest) -> Row:
        return (failed_test(test, verdict, links), _happened(test.first), *cells(test))

    def full_row(test: FailedTest) -> Row:
        shards = link_shards([failure.shard for failure in test.failures], links)
        happened = failure_kind(test.first.result), Folded(test.first.result.message or "")
        return (failed_test(test, verdict, links), *happened, *cells(test), shards)

    whose = () if without_past else (Column("caused by"), Column("next step"))
    columns: tuple[Column, ...] = (Column("test"), Column("what happened"), *whose)
    all_columns = (Column("test"), Column("result"), Column("message"), *whose, Column("shard"))
    rest = failed[MAX_ROWS:]
    of_rest = {one.result.key: answers[one.result.key] for test in rest for one in test.failures}
    text = whose_text(of_rest, comparison)
    more = f"{count_of(len(rest), 'more failure')}{text and f': {text}'}"
    number = (len(verdict.failures), "failure")
    return (
        Section(
            "failures",
            (Table(columns, tuple(map(row, failed[:MAX_ROWS])), "failure"),),
            size=number,
            drop=1,
            formats=("text", "markdown"),
        ),
        Section(
            "more_failures",
            (Table(all_columns, tuple(map(full_row, rest)), "failure"),),
            more,
            (len(of_rest), "failure"),
            drop=9,
            formats=("text", "markdown"),
            folded=True,
        ),
        Section(
            "all_failures",
            (Table(all_columns, tuple(map(full_row, failed)), "failure"),),
            count_of(*number),
            number,
            formats=("html",),
        ),
    )


def _happened(failure: Failure) -> Content:
    """Return the first line of a failure's message, after how the test ended."""
    result = failure.result
    message = Code(first_line(result.message or "").removeprefix("stopped: "))
    kind = failure_kind(result)
    if not message.text:
        return kind
    line = f" (line {result.line})" if result.line else ""
    return (message, line) if result.ending == "completed" else (f"{kind}: ", message)


def change_lines(comparison: Comparison | None, named: int = MAX_NAMED) -> Section:
    """Return a line for each kind of change of memory and time, the surest first.

    Args:
        named: largest number of tests of a line.
    """
    items: list[Item] = []
    if comparison is not None:
        items += [Item(leak_text(leak)) for leak in comparison.leaks[:MAX_NAMED]]
        if not comparison.incomplete_reasons:
            items += map(Item, growth_texts(comparison.totals))
        for verdict in (comparison.memory, comparison.gpu_memory, comparison.durations):
            items += map(Item, _measure_lines(verdict, named))
        if comparison.suite_speed.verdict in ("slower", "maybe slower", "faster"):
            items.append(Item(suite_speed_text(comparison.suite_speed)))
        items += map(Item, doubled_texts(comparison))
    return Section("changes", (Bullets(tuple(items), "change"),), size=(len(items), "change"))


def _measure_lines(verdict: MeasureVerdict, named: int) -> Iterator[Content]:
    """Yield "1 test needs more memory (suspect, 1 run): a.py::t +60 MiB (100 -> 160 MiB)"."""
    words = LONGER.get(verdict.measure, NEEDS_MORE)
    noun = MEASURE_NOUN[verdict.measure].removeprefix("peak ")
    groups: dict[tuple[bool, str], list[CaseChange]] = {}
    for change in verdict.listed:
        if change_verdict(change) == "not confirmed":
            continue  # an experiment refuted it
        is_gain = change.after < change.before
        groups.setdefault((is_gain, change_verdict(change)), []).append(change)
    for (is_gain, tier), changes in groups.items():
        verb = words[2 * is_gain + (len(changes) > 1)].format(noun=noun)
        runs = RUNS.get(tier, "1 run")
        tests = count_of(len(changes), "test")
        names = [_named(change) for change in changes]
        yield (Strong(f"{tests} {verb}"), f" ({tier}, {runs}): ", *join(names, most=named))


def _named(change: CaseChange) -> Content:
    before, after = value_texts(change)
    unit = "s" if change.measure == "wall_s" else "bytes"
    last = change.after if change.measured is None else change.measured
    amount = exact_change(last - change.before, None, unit)
    return (identifier(case_name(change.key)), f" {amount} ({before} -> {after})")


def status_line(
    verdict: Verdict,
    comparison: Comparison | None,
    links: Links,
    records: Sequence[Record] = (),
    why: str = "",
) -> Paragraph:
    """Return what ran, in how many shards, how long and for how much, beside the base.

    Args:
        why: the reason why there is no comparison; "" before the first run of the base.
    """
    base = base_of(comparison)
    parts: list[Content] = [*_ran(verdict)]
    if lost := verdict.unlisted_shards:
        parts.append(f"the tests of {count_of(lost, 'shard')} are not known")
    if verdict.flaky:
        parts.append(f"{len(verdict.flaky):,} flaky")
    if comparison is not None:
        for kind, word in SHOWN_KINDS:
            if changed := comparison.of_kind(kind):
                costs = _costs(changed, comparison, records) if kind == "added" else ""
                parts.append(f"{len(changed):,} {word}{costs}")
    parts.append(count_of(len(verdict.legs), "shard"))
    parts += _totals(comparison, base)
    if links.run:
        parts.append(Link("run", links.run))
    past = comparison.baseline.runs if comparison is not None else ()
    runs = sum(bool(run.values) for run in past)
    if why:
        parts.append(f"not compared: {why}")
    elif runs < MIN_BASELINE_RUNS:
        begins = f"comparison begins after {MIN_BASELINE_RUNS} runs of {base}; {runs} so far"
        stopped = sum(not run.complete for run in past)
        why = f" ({stopped} incomplete: check cancel-in-progress on its pushes)" if stopped else ""
        parts.append(begins + why)
    elif comparison is not None and comparison.base and not comparison.base.in_history:
        parts.append(f"no history yet: compared with the results of {runs} runs of {base}")
    return Paragraph(join(parts, separator=" · "))


def _ran(verdict: Verdict) -> Iterator[Content]:
    """Yield the numbers of tests that ran and were skipped; of files, how many ended normally."""
    noun, counts, count = unit_noun(verdict), verdict.counts, verdict.with_result
    cases, skipped = sum(counts.values()), counts.get("skipped", 0)
    excused = (*verdict.quarantined, *verdict.failing_on_base)
    cut = {
        result.unit_key
        for result in (failure.result for failure in (*verdict.failures, *excused))
        if result.outcome == "died" or (noun != "test" and result.case in ("", result.unit))
    }
    if noun == "test" and cases == count:
        yield f"{result_count(count - skipped, verdict.promised)} ran"
    elif noun == "test" and not cut:
        yield f"{result_count(count, verdict.promised)} with {count_of(cases, 'result')}"
    else:
        names = join([identifier(unit_name(key)) for key in sorted(cut)], most=MAX_NAMED)
        rest = (", not ", *names, " (cases that it did not report are not counted)") if cut else ()
        yield (f"{result_count(count - len(cut), verdict.promised, noun)} ran to the end", *rest)
        yield f"{count_of(cases - skipped - len(cut), 'case')} ran"
    if skipped:
        yield f"{skipped:,} skipped"


def quarantine_line(verdict: Verdict) -> Paragraph:
    """Return the entries of quarantine.toml that have expired or will soon."""
    ending = [item.facts for item in verdict.findings if item.kind == "quarantine_ends"]
    names = [(Code(facts["entry"]), f" (until {facts['until']})") for facts in ending]
    lead = "Fix or renew the quarantine of "
    return Paragraph((lead, *join(names, most=MAX_NAMED)) if ending else "")


def _costs(tests: Sequence[Transition], comparison: Comparison, records: Sequence[Record]) -> str:
    """Return " (+38 s, +0.01 USD a run)" of tests: their time, and its share of the price."""
    units = {test.key.unit for test in tests}
    results = [result for record in records for result in record.results]
    walls_s = {result.key: result.wall_s or 0.0 for result in results if result.unit in units}
    own_s = sum(walls_s.get(test.key, 0.0) for test in tests)
    shown, cost = [duration(own_s)] if own_s else [], comparison.cost_after
    if own_s and cost is not None and cost.price_usd is not None:
        shown.append(price(cost.price_usd * own_s / sum(line.wall_s or 0.0 for line in results)))
    return f" (+{', +'.join(shown)} a run)" if shown else ""


def _totals(comparison: Comparison | None, base: str) -> Iterator[str]:
    """Yield the time of the slowest shard and the price, with those of the base."""
    if comparison is None or comparison.is_incomplete:
        return
    for total in comparison.totals:
        if total.name == "makespan_s" and total.after is not None:
            yield f"{duration(total.after)} ({base}: {duration(total.before)}, n={total.n})"
    cost, before = comparison.cost_after, comparison.cost_before
    if cost is not None and cost.price_usd is not None:
        past = f" ({base}: {before.price_usd:.2f})" if before and before.price_usd else ""
        yield f"{cost.price_usd:.2f} USD{past}"


MAX_ENTRIES: Final = 20
KNOWN: Final = ("known_rate", "passed_again")  # of a flaky test: it failed before


def entries_section(answers: Mapping[CaseKey, Answer], comparison: Comparison | None) -> Section:
    """Return ready entries for the flaky failures of a run, from the date of the run."""
    at = comparison.candidate.at if comparison is not None else None
    flaky = {key.unit_key: answer for key, answer in answers.items() if answer.why in KNOWN}
    texts = [
        _entry_text(unit, evidence_text(answer, base_of(comparison)), at.date())
        for unit, answer in list(flaky.items())[:MAX_ENTRIES]
        if at is not None
    ]
    text = "\n\n".join(filter(None, texts))
    blocks = (Listing(text, "toml"),) if text else ()
    return Section("entries", blocks, "Entries of quarantine.toml", drop=14)


def _entry_text(unit: UnitKey, reason: str, today: date) -> str:
    """Return an entry whose issue is to be filled in; "" for an id that no line can show."""
    lines = [f"{name} = {quoted(text)}" for name, text in unit._asdict().items() if text]
    # An id may be too long for a line of a report, or no valid Unicode.
    if any(len(line) > LISTED_WIDTH or r"\U0000d" in line for line in lines):
        return ""
    lines += [f"reason = {quoted(reason)}", 'issue = "" # fill in', f"until = {today + MAX_PERIOD}"]
    return "\n".join(["[[quarantine]]", *lines])


def quoted(text: str) -> str:
    """Quote for TOML, on one line: all characters but printable ones are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
