"""Absolute limits of tests and of coverage, which fail a run although its tests passed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ciguard.codec.coverage_file import Coverage
from ciguard.guard.verdict import Finding, Level, Limit, Policy
from ciguard.model import Plan, Result, UnitKey
from ciguard.model.attempts import UnitResult
from ciguard.model.plan import excluding_pattern
from ciguard.text import case_name, unit_name

Taken = tuple[float, dict[str, Any]]  # the largest multiple of a limit, and the facts

MAX_NAMED: Final = 5  # tests of an entry, the furthest above it; the others are counted


def check_limits(
    units: Mapping[UnitKey, UnitResult], limits: Mapping[str, Sequence[Limit]]
) -> Iterator[Finding]:
    """Find the passed tests above the first limit that matches them, and limits without effect."""
    for suite in sorted({key.suite for key in units} & limits.keys()):
        keys = sorted(key for key in units if key.suite == suite)
        entries: dict[UnitKey, int] = {}  # the first one that matches
        for entry, limit in enumerate(limits[suite]):
            place = {"suite": suite or '""', "entry": entry, "units": limit.units}
            matching = [key for key in keys if excluding_pattern(key.unit, (limit.units,))]
            own = [key for key in matching if entries.setdefault(key, entry) == entry]
            if not own:
                yield Finding("limit_unused", facts={**place, "earlier": len(matching) or None})
            cases = [case for key in own for case in units[key].cases if case.outcome == "passed"]
            measured = {(case.peak_delta_bytes, case.rss_before_bytes) for case in cases}
            if limit.memory_bytes is not None and measured == {(None, None)}:
                yield Finding("limit_unmeasured", facts={**place, "count": len(cases)})
            above = [each for key in own for each in _above(key, units[key], limit)]
            taken = sorted(above, key=lambda each: -each[0])
            for _, facts in taken[:MAX_NAMED]:
                yield Finding("above_limit", facts={**place, **facts})
            if (more := len(taken) - MAX_NAMED) > 0:
                yield Finding("more_above_limit", facts={**place, "count": more})


def _above(key: UnitKey, unit: UnitResult, limit: Limit) -> Iterator[Taken]:
    """Yield the passed tests of a unit above its limit, otherwise the unit if its memory is above.

    A test has its own peak where it was measured, as in a worker of its own. Otherwise only bounds
    are known, which all tests of a file share and which contain child processes: the lower one
    counts.
    """
    passed = [case for case in unit.cases if case.outcome == "passed"]
    is_measured = False
    for case in passed:
        facts: dict[str, Any] = {}
        ratios = []
        peak_bytes, wall_s = case.peak_delta_bytes or 0, case.wall_s or 0.0
        if limit.memory_bytes is not None and peak_bytes > limit.memory_bytes and _is_own(case):
            facts |= {"peak_bytes": peak_bytes, "limit_bytes": limit.memory_bytes}
            ratios.append(peak_bytes / limit.memory_bytes)
        is_measured |= bool(facts)
        if limit.time_s is not None and wall_s > limit.time_s:
            facts |= {"wall_s": wall_s, "limit_s": limit.time_s}
            ratios.append(wall_s / limit.time_s)
        if ratios:
            yield max(ratios), {"test": case_name(case.key), **facts}
    bounds = [
        case.peak_lower_bytes - case.rss_before_bytes
        for case in passed
        if case.peak_lower_bytes is not None and case.rss_before_bytes is not None
        if (case.concurrent or 1) == 1
    ]
    lower_bytes = max(bounds, default=0)
    if limit.memory_bytes is not None and lower_bytes > limit.memory_bytes and not is_measured:
        facts = {"peak_bytes": lower_bytes, "limit_bytes": limit.memory_bytes}
        yield lower_bytes / limit.memory_bytes, {"test": unit_name(key), **facts}


def _is_own(case: Result) -> bool:
    """Return whether a peak is that of this test alone, as of a process that resets its mark."""
    return (case.concurrent or 1) == 1 or (case.measured_by or "").startswith("mark")


def check_coverage(
    coverage: Coverage | None, policy: Policy, plan: Plan, *, is_pull_request: bool
) -> Iterator[Finding]:
    """Find coverage below a minimum, and coverage without a number that could reach one."""
    planned = {shard.suite for shard in plan.shards}
    planned |= {unit.suite for shard in plan.shards for unit in shard.units}
    is_for_plan = planned.intersection(policy.coverage_suites or planned)
    minima = policy.coverage_minima if is_for_plan else (None, None)
    has_minimum = minima != (None, None)
    if coverage is None or coverage.total is None:
        level: Level = "incomplete" if has_minimum else "warning"
        facts = {"problems": coverage.incomplete if coverage else "not given"}
        if coverage or has_minimum:
            yield Finding("coverage_incomplete", facts=facts, stated_level=level)
        return
    if coverage.diff is None and minima[1] is not None and is_pull_request:
        facts = {"part": "the diff", "problems": coverage.incomplete}
        yield Finding("coverage_incomplete", facts=facts)
    shares = (("", coverage.total), ("diff", coverage.diff))
    for (part, share), minimum in zip(shares, minima, strict=True):
        if share is None or minimum is None or (part and not share.total):
            continue  # a diff without lines needs no test
        if (percent := share.percent or 0.0) < minimum:
            found = {"part": part, "percent": percent, "minimum": minimum}
            yield Finding("coverage_below", facts=found)
