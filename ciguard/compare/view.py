"""A comparison for a terminal or a log: 80 columns, the verdict first. Pure.

Duration suspects of a single run are counted, not named: most of them are noise.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ciguard.compare.enums import MEASURE_NOUN
from ciguard.text import (
    case_name,
    count_of,
    distinct_lines,
    duration,
    one_line,
    size,
    table,
    unit_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.run_changes import LegChange, Metrics
    from ciguard.compare.run_info import RunInfo
    from ciguard.compare.test_changes import MeasureVerdict, Transition

COLUMNS: Final = 80
ASIDE: Final = " " * 11
LISTED: Final = 10  # cases of a kind by name; all are in the JSON
MAX_NAMED: Final = 3  # lost units by name: they say less than their number
MESSAGE_LINES: Final = 3
RUNNER_MEMORY: Final = "runner memory"
PROBE: Final = ("probe",)


def as_text(comparison: Comparison) -> str:
    """The whole text, with its last line feed."""
    blocks = [
        _wrap(comparison.headline),
        _sides(comparison),
        _lost(comparison),
        _transitions(comparison),
        _jobs(comparison),
        "\n".join(
            _wrap(leak.describe, "  ") for leak in comparison.leaks_outside_headline[:LISTED]
        ),
        *(
            _verdict_section(verdict, in_headline=comparison.headline_names_measure(verdict))
            for verdict in comparison.verdicts
        ),
        _unlisted(comparison),
        _metrics(comparison.metrics),
        _legs(comparison),
        _totals(comparison),
        "\n".join(_wrap(remark) for remark in comparison.closing_notes),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def _name(run: RunInfo) -> str:
    return one_line(run.describe, 66)


def _sides(comparison: Comparison) -> str:
    lines = []
    if comparison.base is not None:
        lines.append(f"base       {_name(comparison.base)}")
    lines.append(f"candidate  {_name(comparison.candidate)}")
    if comparison.previous is not None:
        lines.append(f"before it  {_name(comparison.previous)}")
    baseline = comparison.baseline
    runs = count_of(len(baseline.runs), "run")
    lines.append(_wrap(f"baseline   {runs}: {baseline.how}", ASIDE))
    if baseline.excluded_text:
        lines.append(_wrap(f"not used   {baseline.excluded_text}", ASIDE))
    return "\n".join(lines)


def _jobs(comparison: Comparison) -> str:
    found = comparison.jobs
    lines = [f"jobs that ended in another way: {len(found):,}"] if found else []
    lines += [f"  {one_line(one.name or 'the leg', 40)}: {one.describe}" for one in found[:LISTED]]
    if len(found) > LISTED:
        lines.append(f"  and {len(found) - LISTED:,} more")
    return "\n".join(lines)


def _lost(comparison: Comparison) -> str:
    lines = []
    for lost in comparison.lost:
        lines.append(_wrap(lost.describe, "  "))
        lines += [f"  {unit_name(key, 76)}" for key in lost.units[:MAX_NAMED]]
        if len(lost.units) > MAX_NAMED:
            lines.append(f"  and {len(lost.units) - MAX_NAMED:,} more")
    return "\n".join(lines)


def _transitions(comparison: Comparison) -> str:
    return "\n".join(line for words, found in comparison.groups for line in _kind(words, found))


def _kind(title: str, transitions: tuple[Transition, ...]) -> Iterator[str]:
    yield f"{title}: {len(transitions):,}"
    for one in transitions[:LISTED]:
        yield f"  {case_name(one.key, 76)}"
        shard = f" (shard {one_line(one.shard, 20)})" if one.shard else ""
        if one.was is not None:
            yield f"    was {case_name(one.was, 72)}"
        if one.perhaps_was is not None:
            yield f"    perhaps was {case_name(one.perhaps_was, 64)}"
        yield _wrap(f"    {one.before} -> {one.after}{shard}{one.failure_rate}", "    ")
        if one.first_line:
            yield _message(one.first_line)
    if len(transitions) > LISTED:
        yield f"  and {len(transitions) - LISTED:,} more"


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


def _verdict_section(verdict: MeasureVerdict, *, in_headline: bool) -> str:
    """The sentence, and what has a name; of a sentence that was `told`, its first words."""
    named = verdict.listed
    if in_headline and not named:
        return ""
    text = f"{MEASURE_NOUN[verdict.measure]}: {count_of(len(named), 'change')}"
    lines = [_wrap(text if in_headline else verdict.said, "  ")]
    for change in named[:LISTED]:
        lines.append(f"  {case_name(change.key, 76)}")
        lines.append(f"    {change.describe}")
    if len(named) > LISTED:
        lines.append(f"  and {len(named) - LISTED:,} more")
    return "\n".join(lines)


def _unlisted(comparison: Comparison) -> str:
    found = (comparison.memory.unlisted_count, comparison.durations.unlisted_count)
    return "\n".join(
        _wrap(f"{sentence} with --format json or html", "  ") for sentence in found if sentence
    )


def _metrics(metrics: Metrics) -> str:
    lines = [_wrap(metrics.said, "  ")] if metrics.said else []
    for one in metrics.changes[:LISTED]:
        lines += [f"  {one_line(one.title, 76)}", _wrap(f"    {one.describe}", "    ")]
    if len(metrics.changes) > LISTED:
        lines.append(f"  and {len(metrics.changes) - LISTED:,} more")
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
    total_texts = {trend.name: trend.describe for trend in comparison.trends}
    makespans = (found.makespan_before_s, found.makespan_after_s)
    peaks = (found.peak_before_bytes, found.peak_after_bytes)
    lines = [
        total_texts.get("makespan_s")
        or _both_runs("slowest leg", *makespans, duration, comparison.placeholder)
    ]
    lines.append(total_texts.get("sum_s", ""))
    if found.sum_before_s is not None:
        lines.append(
            f"sum of {count_of(found.common, 'case')} that passed in both: "
            f"{duration(found.sum_before_s)} -> {duration(found.sum_after_s)}, as measured"
        )
    lines.append(
        total_texts.get("peak_bytes")
        or _both_runs("largest peak of a leg", *peaks, size, comparison.placeholder)
    )
    lines.append(comparison.cost_text)
    lines.append(comparison.suite_speed_outside_headline)
    return "\n".join(_wrap(line, "  ") for line in lines if line)


def _both_runs(
    what: str,
    before: float | None,
    after: float | None,
    show: Callable[[float | None], str],
    placeholder: str,
) -> str:
    if before is None and after is None:
        return ""
    return f"{what}: {show(before)} -> {placeholder if after is None else show(after)}"
