"""Absolute limits of tests, which fail a run although its tests passed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ciguard.guard.verdict import Finding, Limit
from ciguard.model.plan import excluding_pattern
from ciguard.text import case_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.model import Result, UnitKey
    from ciguard.model.attempts import UnitResult


def check_limits(
    units: Mapping[UnitKey, UnitResult], limits: Mapping[str, Sequence[Limit]]
) -> Iterator[Finding]:
    """Find the passed tests that took more than the first limit of their suite that matches."""
    for key, unit in sorted(units.items()) if limits else ():
        entries = enumerate(limits.get(key.suite, ()), 1)
        matching = ((n, one) for n, one in entries if excluding_pattern(key.unit, (one.units,)))
        entry, limit = next(matching, (0, Limit("")))
        for case in unit.cases:
            if case.outcome == "passed" and (taken := _taken_above(case, limit)):
                place = {"suite": key.suite or '""', "entry": entry, "test": case_name(case.key)}
                yield Finding("above_limit", facts={**place, **taken})


def _taken_above(result: Result, limit: Limit) -> dict[str, Any]:
    """Return what a test took beyond a limit; of the bounds of its peak, the lower one counts.

    That bound has the memory of child processes, which a measured peak delta has not. Tests side
    by side share the peak of their process, so theirs are not known.
    """
    lower, before = result.peak_lower_bytes, result.rss_before_bytes
    with_children = 0 if lower is None or before is None else lower - before
    peak_bytes = max(result.peak_delta_bytes or 0, with_children)
    is_alone = (result.concurrent or 1) == 1
    taken: dict[str, Any] = {}
    if limit.memory_bytes is not None and peak_bytes > limit.memory_bytes and is_alone:
        taken |= {"peak_bytes": peak_bytes, "limit_bytes": limit.memory_bytes}
    if limit.time_s is not None and (result.wall_s or 0) > limit.time_s:
        taken |= {"wall_s": result.wall_s, "limit_s": limit.time_s}
    return taken
