"""Output of `ciguard culprit`: its answer as blocks, and a line for each try. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Final

from ciguard.culprit.answer import Answer, Stopped, TestAnswer, Tried
from ciguard.culprit.progress import Line
from ciguard.culprit.search import Measure
from ciguard.document import (
    Block,
    Bullets,
    Code,
    Column,
    Headline,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
)
from ciguard.text import count_of, duration, name_some, one_line, size, whole_name

MAX_CANDIDATES: Final = 5  # in a sentence
MAX_TABLES: Final = 20
STOPPED: Final[dict[Stopped, str]] = {
    "": "",
    "budget": "; stopped: the budget was spent (run the same command to continue)",
    "interrupted": "; incomplete: interrupted (run the same command to continue)",
}


def document(answer: Answer) -> tuple[Block, ...]:
    """Return the answers of all tests, then what was tried."""
    groups = answer.groups()
    shown = [group[0] for group in groups]
    lead: tuple[Block, ...] = (Headline(sentence(shown[0])),)
    if len(answer.tests) > 1:
        named = sum(test.verdict == "culprit" for test in answer.tests)
        items = (
            Item((Code(name_some(group, lambda test: whole_name(test.key), 3)), f": {said}"))
            for group, said in zip(groups, map(sentence, shown), strict=True)
        )
        text = f"the culprit of {named} of {count_of(len(answer.tests), 'test')} is known"
        lead = (Headline(text), Bullets(tuple(items), "answer"))
    searched = (
        f"searched {count_of(answer.commits, 'commit')} after {answer.good:.10} up to "
        f"{answer.bad:.10} in {count_of(answer.executions, 'execution')}, "
        f"{duration(answer.wall_s)}{STOPPED[answer.stopped]}"
    )
    return (
        *lead,
        Paragraph(searched),
        *(_tried(test) for test in shown[:MAX_TABLES] if test.tried),
    )


def sentence(test: TestAnswer) -> str:
    """Return the answer for a test, with its evidence."""
    if test.verdict == "not tried":
        return f"not tried: {next((one.reason for one in test.tried), 'no time was left')}"
    if test.verdict == "unchanged":
        return _unchanged(test)
    names = [
        f"{one.sha:.10} ({', '.join(filter(None, (_percent(one.probability), one.subject)))})"
        for one in test.candidates
    ]
    if test.verdict == "culprit":
        before = [*takewhile(lambda one: one.sha != test.candidates[0].sha, test.tried)]
        since = test.tried[len(before) :]
        return f"since {names[0]}: {_tries(test, since)} since, {_tries(test, before)} before"
    chance = _percent(test.unchanged)
    none = f", or none ({chance})" if chance != "0 %" else ""
    if len(names) == 1:
        return f"not decided: perhaps since {names[0]}{none}"
    listed = name_some(names, str, MAX_CANDIDATES)
    return f"since one of {count_of(len(names), 'commit')}{none}: {listed}"


def _percent(probability: float) -> str:
    return f"{int(100 * probability)} %"  # rounded down: what is not certain is not 100 %


def _unchanged(test: TestAnswer) -> str:
    known = [one for one in test.tried if one.tries]
    if test.measure != "failure":
        ends = _tries(test, known[:1]), _tries(test, known[-1:])
        return f"not reproduced: {ends[0]} at the good end, {ends[1]} at the bad one"
    failed, tries = sum(one.failed or 0 for one in known), sum(one.tries for one in known)
    if 2 * failed > tries:
        return f"bad before the range: {_tries(test, known)}, including the good end"
    return f"not reproduced: {_tries(test, known)}{': flaky' if failed else ''}"


def _tries(test: TestAnswer, tried: Sequence[Tried]) -> str:
    """Return "failed in 3 of 4 tries", or "40 MiB (n=4)", the middle of the commits' medians."""
    tries = sum(one.tries for one in tried)
    if test.measure == "failure":
        return f"failed in {sum(one.failed or 0 for one in tried)} of {tries} tries"
    sizes = sorted(one.median for one in tried if one.median is not None)
    return f"{value_text(test.measure, sizes[len(sizes) // 2]) if sizes else '-'} (n={tries})"


def value_text(measure: Measure, value: float) -> str:
    if measure == "failure":
        return "failed" if value else "passed"
    return size(value) if measure == "memory" else duration(value)


def _tried(test: TestAnswer) -> Section:
    rows = (
        Row((Code(one.sha[:10]), f"not tried: {one.reason}" if one.reason else _tries(test, [one])))
        for one in test.tried
    )
    table = Table((Column("commit"), Column("tries")), tuple(rows), "commit")
    return Section(whole_name(test.key), (table,), f"{test.measure} of {test.key.unit}")


def line_text(line: Line, measures: Collection[Measure]) -> str:
    """Return a line on the progress: what happened at a commit."""
    text = line.reason or line.state
    if line.state == "tried":
        shown = [(one, row[4]) for row in line.values for one in measures if row[3] == one]
        text = count_of(len(shown), "value")
        for measure, value in shown if len(shown) == 1 else ():
            text = "no result" if value is None else value_text(measure, value)
    return f"{line.commit:.10}: {one_line(text, 100)} in {duration(line.seconds)}"
