"""A comparison for a terminal or a log: 80 columns, the verdict first. Pure.

Duration suspects of a single run are counted, not named: most of them are noise.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ciguard.compare.words import change_words, run_words
from ciguard.text import case_name, counted, duration, one_line, size, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.compare.comparison import (
        Comparison,
        Judgement,
        LegChange,
        RunName,
        Transition,
    )

COLUMNS: Final = 80
LISTED: Final = 10  # cases of a kind by name; all are in the JSON


def render(comparison: Comparison) -> str:
    """The whole text, with its last line feed."""
    blocks = [
        _wrapped(comparison.headline),
        _sides(comparison),
        _transitions(comparison),
        _judgement(comparison.memory),
        _judgement(comparison.durations),
        _legs(comparison),
        _totals(comparison),
        "\n".join(_wrapped(note) for note in comparison.notes),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _wrapped(text: str, rest: str = "") -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent=rest, break_on_hyphens=False)


def _name(run: RunName) -> str:
    return one_line(run_words(run), 66)


def _sides(comparison: Comparison) -> str:
    lines = []
    if comparison.base is not None:
        lines.append(f"base       {_name(comparison.base)}")
    lines.append(f"candidate  {_name(comparison.candidate)}")
    if comparison.previous is not None:
        lines.append(f"before it  {_name(comparison.previous)}")
    runs = counted(len(comparison.baseline.runs), "run")
    lines.append(f"baseline   {runs}: {comparison.baseline.how}")
    return "\n".join(lines)


def _transitions(comparison: Comparison) -> str:
    return "\n".join(line for words, found in comparison.groups for line in _kind(words, found))


def _kind(words: str, found: tuple[Transition, ...]) -> Iterator[str]:
    yield f"{words}: {len(found):,}"
    for one in found[:LISTED]:
        yield f"  {case_name(one.key, 76)}"
        yield f"    {one_line(_what(one), 74)}"
    if len(found) > LISTED:
        yield f"  and {len(found) - LISTED:,} more"


def _what(one: Transition) -> str:
    shard = f" (shard {one.shard})" if one.shard else ""
    said = f"{one.before} -> {one.after}{shard}"
    return f"{said}: {one.first_line}" if one.first_line else said


def _judgement(judgement: Judgement) -> str:
    named = judgement.named
    lines = [_wrapped(judgement.said, "  ")]
    for change in named[:LISTED]:
        lines.append(f"  {case_name(change.key, 76)}")
        lines.append(f"    {change_words(change)}")
    if len(named) > LISTED:
        lines.append(f"  and {len(named) - LISTED:,} more")
    return "\n".join(lines)


_HEAD: Final = ("leg", "ending", "wall", "peak", "limit", "speed")


def _legs(comparison: Comparison) -> str:
    if not comparison.legs:
        return ""
    return table([_HEAD, *(_leg(leg) for leg in comparison.legs)], right=frozenset({4, 5}))


def _leg(leg: LegChange) -> tuple[str, ...]:
    return (
        one_line(leg.shard or "-", 16),
        leg.endings,
        f"{duration(leg.wall_before_s)} -> {duration(leg.wall_after_s)}",
        f"{size(leg.peak_before_bytes)} -> {size(leg.peak_after_bytes)}",
        size(leg.limit_bytes),
        "-" if leg.speed is None else f"{leg.speed:.2f}",
    )


def _totals(comparison: Comparison) -> str:
    found = comparison.totals
    before, after = duration(found.makespan_before_s), duration(found.makespan_after_s)
    lines = []
    if found.makespan_before_s is not None or found.makespan_after_s is not None:
        lines.append(f"slowest leg: {before} -> {after}")
    if found.sum_before_s is not None:
        lines.append(
            f"sum of {counted(found.common, 'case')} that passed in both: "
            f"{duration(found.sum_before_s)} -> {duration(found.sum_after_s)}, as measured"
        )
    if found.peak_before_bytes is not None or found.peak_after_bytes is not None:
        peaks = f"{size(found.peak_before_bytes)} -> {size(found.peak_after_bytes)}"
        lines.append(f"largest peak of a leg: {peaks}")
    return "\n".join(lines)
