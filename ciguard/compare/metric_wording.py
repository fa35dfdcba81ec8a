"""Metrics of a comparison, and its conditions, as words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.metric_changes import NOTABLE_RATIO, MetricCount
from ciguard.compare.statistics import MIN_RUNS
from ciguard.text import (
    change_text,
    count_of,
    duration,
    one_line,
    percent,
    percents,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.compare.metric_changes import ConditionChange, MetricChange, Metrics, MetricVerdict

DIFFERENT: Final[tuple[MetricVerdict, ...]] = ("worse", "mixed", "better", "changed")
_AMOUNTS: Final[Mapping[str, Callable[[float], str]]] = {"s": duration, "bytes": size}
MAX_CONDITION: Final = 60  # characters of a value


def metric_title(one: MetricChange | MetricCount) -> str:
    """ "xla.heap (ordinal=1)"."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(one.key.items()))
    return f"{one.name} ({text})" if text else one.name


def metric_text(one: MetricChange | MetricCount) -> str:
    """ "512 MiB -> 640 MiB", "3 -> 4 images (medians of 5 and 5 values)", "3 -> 2 values"."""
    if isinstance(one, MetricCount):
        return f"{one.n_before} -> {count_of(one.n_after, 'value')}"
    show = _AMOUNTS.get(one.unit)
    if show is None or min(one.before, one.after) < 0:
        unit = f" {one_line(one.unit, 20)}" if one.unit else ""
        values = f"{one.before:,.6g} -> {one.after:,.6g}{unit}"
    else:
        values = f"{show(one.before)} -> {show(one.after)}"
    if max(one.n_before, one.n_after) > 1:
        values += f" (medians of {one.n_before} and {count_of(one.n_after, 'value')})"
    return values


def metric_change_text(one: MetricChange) -> str:
    """ "-1.41 % (-390 MiB)" of an exact metric, as of two logs; "+50 %" of any other."""
    if one.is_exact and one.verdict == "same":
        return "-"
    if not one.is_exact:
        return "-" if one.ratio is None else percent(one.ratio)
    show = _AMOUNTS.get(one.unit, lambda value: f"{value:,.6g}")
    return change_text(one.after - one.before, one.ratio, show)


def metric_verdict(one: MetricChange | MetricCount) -> str:
    """ "worse (n=20, 95 % CI +21..+28 %)", "worse (exact)", "not judged: 4 of 10 past runs"."""
    if isinstance(one, MetricCount):
        return "not judged: another number of values"
    word = one.verdict
    if word == "not judged":
        few = one.runs < MIN_RUNS and not one.is_exact
        return f"{word}: {one.runs} of {count_of(MIN_RUNS, 'past run')}" if few else word
    if one.is_exact:
        return "equal (exact)" if word == "same" else f"{word} (exact)"
    interval = ""
    if one.low is not None and one.high is not None:
        # Past values beyond the new one, or many metrics, may speak against what it excludes.
        excludes_0 = word == "same" and not one.low <= 0 <= one.high
        interval = f", {'uncorrected ' * excludes_0}95 % CI {percents(one.low, one.high)} %"
    return f"{'no significant difference' if word == 'same' else word} (n={one.runs}{interval})"


def verdicts_text(found: Metrics) -> str:
    """ "1 worse, 2 changed (14 judged), 1 exact one is missing"; "" where none differs."""
    verdicts = found.verdicts
    parts = [f"{verdicts[word]:,} {word}" for word in DIFFERENT if verdicts[word]]
    judged = f"{', '.join(parts)} ({sum(verdicts.values()):,} judged)" if parts else ""
    missing = f"values of {count_of(found.missing_exact, 'exact metric')} missing"
    return ", ".join(filter(None, (judged, missing if found.missing_exact else "")))


def metrics_text(found: Metrics) -> str:
    """ "3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; ..."; "" without any."""
    if not (found.changes or found.only_before or found.counts):
        return ""
    moved, judged = found.moved, sum(found.verdicts.values())
    larger = sum(one.after > one.before for one in moved)
    both = f"{count_of(len(found.changes), 'metric')} in both runs"
    none = "no metric has as many values in both runs"
    sizes = f"{larger} larger and {len(moved) - larger} smaller by {100 * NOTABLE_RATIO:.0f} %"
    parts = [f"{both}, {sizes} or more" if found.changes else none]
    if judged:
        parts = [both, verdicts_text(found) or f"{judged} judged, no significant difference"]
        if found.unjudged:
            parts.append(f"{len(found.unjudged)} not judged, {sizes} or more")
    if found.counts:
        parts.append(f"{len(found.counts)} with another number of values")
    if found.only_before or found.only_after:
        parts.append(f"{found.only_before} only before, {found.only_after} only now")
    if found.other_conditions:
        runs = count_of(found.other_conditions, "past run")
        parts.append(f"{runs} under other conditions left out")
    if found.changes and not judged:
        parts.append("no verdict, as their variation is unknown")
    return "; ".join(parts)


def condition_text(one: ConditionChange) -> str:
    """ "XLA_COMMIT: a1b2 -> c3d4", "XLA_COMMIT: not set -> c3d4"."""
    before, after = (
        ", ".join(one_line(value, MAX_CONDITION) or '""' for value in values) or "not set"
        for values in (one.before, one.after)
    )
    return f"{one_line(one.name, MAX_CONDITION)}: {before} -> {after}"


def conditions_text(found: tuple[ConditionChange, ...]) -> str:
    """ "conditions differ: XLA_COMMIT: a1b2 -> c3d4"; "" where none does."""
    return f"conditions differ: {', '.join(map(condition_text, found))}" if found else ""
