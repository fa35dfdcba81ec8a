"""A comparison for a terminal or a log: 80 columns, the verdict first. Pure.

Duration suspects of a single run are counted, not named: most of them are noise.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ciguard.compare.vocabulary import NOUN
from ciguard.text import (
    case_name,
    counted,
    distinct_lines,
    duration,
    one_line,
    size,
    table,
    unit_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.compare.changes import Judgement, Transition
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.facts import RunName
    from ciguard.compare.wholes import LegChange, Metrics

COLUMNS: Final = 80
ASIDE: Final = " " * 11
LISTED: Final = 10  # cases of a kind by name; all are in the JSON
NAMED: Final = 3  # lost units by name: they say less than their number
MESSAGE_LINES: Final = 3
RUNNER_MEMORY: Final = "runner memory"
PROBE: Final = ("probe",)


def render(comparison: Comparison) -> str:
    """The whole text, with its last line feed."""
    blocks = [
        _wrapped(comparison.headline),
        _sides(comparison),
        _lost(comparison),
        _transitions(comparison),
        _jobs(comparison),
        "\n".join(_wrapped(leak.words, "  ") for leak in comparison.told_leaks[:LISTED]),
        *(
            _judgement(judgement, told=comparison.tells_of(judgement))
            for judgement in comparison.judgements
        ),
        _unnamed(comparison),
        _metrics(comparison.metrics),
        _legs(comparison),
        _totals(comparison),
        "\n".join(_wrapped(remark) for remark in comparison.remarks),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _wrapped(text: str, rest: str = "") -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent=rest, break_on_hyphens=False)


def _name(run: RunName) -> str:
    return one_line(run.words, 66)


def _sides(comparison: Comparison) -> str:
    lines = []
    if comparison.base is not None:
        lines.append(f"base       {_name(comparison.base)}")
    lines.append(f"candidate  {_name(comparison.candidate)}")
    if comparison.previous is not None:
        lines.append(f"before it  {_name(comparison.previous)}")
    baseline = comparison.baseline
    runs = counted(len(baseline.runs), "run")
    lines.append(_wrapped(f"baseline   {runs}: {baseline.how}", ASIDE))
    if baseline.not_used:
        lines.append(_wrapped(f"not used   {baseline.not_used}", ASIDE))
    return "\n".join(lines)


def _jobs(comparison: Comparison) -> str:
    found = comparison.jobs
    lines = [f"jobs that ended in another way: {len(found):,}"] if found else []
    lines += [f"  {one_line(one.name or 'the leg', 40)}: {one.words}" for one in found[:LISTED]]
    if len(found) > LISTED:
        lines.append(f"  and {len(found) - LISTED:,} more")
    return "\n".join(lines)


def _lost(comparison: Comparison) -> str:
    lines = []
    for lost in comparison.lost:
        lines.append(_wrapped(lost.words, "  "))
        lines += [f"  {unit_name(key, 76)}" for key in lost.units[:NAMED]]
        if len(lost.units) > NAMED:
            lines.append(f"  and {len(lost.units) - NAMED:,} more")
    return "\n".join(lines)


def _transitions(comparison: Comparison) -> str:
    return "\n".join(line for words, found in comparison.groups for line in _kind(words, found))


def _kind(words: str, found: tuple[Transition, ...]) -> Iterator[str]:
    yield f"{words}: {len(found):,}"
    for one in found[:LISTED]:
        yield f"  {case_name(one.key, 76)}"
        shard = f" (shard {one_line(one.shard, 20)})" if one.shard else ""
        if one.was is not None:
            yield f"    was {case_name(one.was, 72)}"
        if one.perhaps_was is not None:
            yield f"    perhaps was {case_name(one.perhaps_was, 64)}"
        yield _wrapped(f"    {one.before} -> {one.after}{shard}{one.past}", "    ")
        if one.first_line:
            yield _message(one.first_line)
    if len(found) > LISTED:
        yield f"  and {len(found) - LISTED:,} more"


def _message(text: str) -> str:
    indent = " " * 6
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=MESSAGE_LINES,
        placeholder=" ...",
    )


def _judgement(judgement: Judgement, *, told: bool) -> str:
    """The sentence, and what has a name; of a sentence that was `told`, its first words."""
    named = judgement.named
    if told and not named:
        return ""
    said = f"{NOUN[judgement.measure]}: {counted(len(named), 'change')}"
    lines = [_wrapped(said if told else judgement.said, "  ")]
    for change in named[:LISTED]:
        lines.append(f"  {case_name(change.key, 76)}")
        lines.append(f"    {change.words}")
    if len(named) > LISTED:
        lines.append(f"  and {len(named) - LISTED:,} more")
    return "\n".join(lines)


def _unnamed(comparison: Comparison) -> str:
    found = (comparison.memory.unnamed, comparison.durations.unnamed)
    return "\n".join(_wrapped(f"{said} with --format json or html", "  ") for said in found if said)


def _metrics(found: Metrics) -> str:
    lines = [_wrapped(found.said, "  ")] if found.said else []
    for one in found.changes[:LISTED]:
        lines += [f"  {one_line(one.title, 76)}", _wrapped(f"    {one.words}", "    ")]
    if len(found.changes) > LISTED:
        lines.append(f"  and {len(found.changes) - LISTED:,} more")
    return "\n".join(lines)


def _legs(comparison: Comparison) -> str:
    """A row a leg; where that is too wide, how it ended stands below, and then its name above."""
    if not comparison.legs:
        return ""
    limits = ("budget",) * comparison.has_budgets + (RUNNER_MEMORY,)
    rows = [("leg", "ending", "wall", "peak", *limits, "speed", *PROBE * comparison.has_probes)]
    keys = distinct_lines([leg.shard or "-" for leg in comparison.legs], 12)
    legs = zip(keys, comparison.legs, strict=True)
    rows += [(key, *_leg(leg, comparison)) for key, leg in legs]
    text = table(rows, right=frozenset({4, 5, 6, 7}))
    if max(map(len, text.splitlines())) <= COLUMNS:
        return text
    narrow = table([(row[0], *row[2:]) for row in rows], right=frozenset({3, 4, 5, 6})).splitlines()
    if max(map(len, narrow)) <= COLUMNS:
        lines = narrow[:1]
        for leg, line in zip(comparison.legs, narrow[1:], strict=True):
            lines += [line] if leg.endings == "completed" else [line, f"    {leg.endings}"]
        return "\n".join(lines)
    numbers = table([("", *row[2:]) for row in rows], right=frozenset({3, 4, 5, 6})).splitlines()
    lines = numbers[:1]
    keys = distinct_lines([leg.shard or "-" for leg in comparison.legs], 40)
    for key, leg, line in zip(keys, comparison.legs, numbers[1:], strict=True):
        lines += [f"{key}: {leg.endings}", line]
    return "\n".join(lines)


def _leg(leg: LegChange, comparison: Comparison) -> tuple[str, ...]:
    return (
        leg.endings,
        f"{duration(leg.wall_before_s)} -> {duration(leg.wall_after_s)}",
        f"{size(leg.peak_before_bytes)} -> {size(leg.peak_after_bytes)}",
        *((size(leg.budget_bytes),) if comparison.has_budgets else ()),
        size(leg.memory_bytes),
        _factor(leg.speed),
        *((_factor(leg.probe_ratio),) if comparison.has_probes else ()),
    )


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _totals(comparison: Comparison) -> str:
    found = comparison.totals
    told = {trend.name: trend.words for trend in comparison.trends}
    makespans = (found.makespan_before_s, found.makespan_after_s)
    peaks = (found.peak_before_bytes, found.peak_after_bytes)
    lines = [
        told.get("makespan_s") or _both("slowest leg", *makespans, duration, comparison.untold)
    ]
    lines.append(told.get("sum_s", ""))
    if found.sum_before_s is not None:
        lines.append(
            f"sum of {counted(found.common, 'case')} that passed in both: "
            f"{duration(found.sum_before_s)} -> {duration(found.sum_after_s)}, as measured"
        )
    lines.append(
        told.get("peak_bytes") or _both("largest peak of a leg", *peaks, size, comparison.untold)
    )
    lines.append(comparison.billed)
    lines.append(comparison.told_pace)
    return "\n".join(_wrapped(line, "  ") for line in lines if line)


def _both(
    what: str,
    before: float | None,
    after: float | None,
    show: Callable[[float | None], str],
    untold: str,
) -> str:
    if before is None and after is None:
        return ""
    return f"{what}: {show(before)} -> {untold if after is None else show(after)}"
