"""Findings about combinations, each a suite and variant: what their shards must agree on, and what
they had on the base. Pure.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding
from ciguard.model import count_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from ciguard.guard.legs import LegResult
    from ciguard.guard.verdict import Policy
    from ciguard.model import Plan, UnitKey
    from ciguard.model.listings import ListedPlan


def different_scripts(plan: Plan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Combinations of a job's matrix whose shards were not run by the same commands."""
    scripts: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for leg in legs:
        header = leg.record.header if leg.record is not None else None
        if header is not None and plan.combination(leg.shard) is not None:
            scripts[leg.shard.suite_key][header.script or ""].append(leg.shard.key)
    for (_, variant), found in scripts.items():
        if len(found) > 1:
            shards = " / ".join(", ".join(keys) for keys in found.values())
            facts = {"combination": variant, "shards": shards}
            yield Finding("different_scripts", facts=facts)


def listing_findings(listed: ListedPlan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Where it is not sure which units exist."""
    for one in listed.disagreements:
        facts = {
            "combination": one.variant or None,
            "shards": " / ".join(", ".join(keys) for keys in one.shards),
            "count": len(one.units) or None,
            "first": one.units[0].unit if one.units else None,
        }
        yield Finding("different_listings", units=one.units, facts=facts)
    kinds = (("nothing_listed", listed.empty), ("listing_short", listed.short))
    for kind, suite_keys in kinds:
        for suite, variant in suite_keys:
            facts = {"suite": suite or None, "variant": variant or None}
            yield Finding(kind, facts=facts)
    for leg in legs:
        if leg.shard.key in listed.unlisted and leg.end.problem is None:
            yield Finding("no_listing", leg.shard.key)


def base_findings(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """Combinations with too few of the base's units, and those that the plan no longer has.

    Who drops an entry of a matrix does so in a diff that is reviewed: that is told, and is no loss.
    A combination that is still there, and empty, always is one. Of many the one that lost the
    largest share stands in front.
    """
    base, source = plan.inventory.base_units, plan.inventory.base_source
    if policy.base_plan is not None:
        # The proposal's own file says what it likes; orphans are known tests, too.
        known = _known(policy.base_plan)
        base, source = count_units(known), f"plan of {policy.commit[:10]}"
        planned = planned | _orphans(plan)
        yield from _tests_gone(known - planned, policy)
    elif not base and policy.base_units is not None:
        base, source = policy.base_units
    now = Counter(key[:2] for key in planned) if base else {}
    gone: list[str] = []
    fewer: list[tuple[float, str, int, int]] = []
    for one in base:
        count, name = now[one.suite, one.variant], " ".join(filter(None, (one.suite, one.variant)))
        if one.suite not in plan.suites or one.variant not in plan.suites[one.suite].variants:
            gone.append(name or '""')
        elif lost_too_many(one.units, count, policy.max_drop):
            fewer.append((count / one.units, name, count, one.units))
    if fewer:
        (left_ratio, name, count, before), *others = sorted(fewer)
        accepted = policy.min_units is not None and len(planned) >= policy.min_units
        facts = {
            "combination": name or None,
            "now": count,
            "before": before,
            "drop_ratio": 1 - left_ratio,
            "source": source,
            "others": tuple(one[1] for one in others),
            "planned": len(planned),
            "min_units": policy.min_units,
        }
        if accepted:
            yield Finding("fewer_units_accepted", facts=facts)
        else:
            yield Finding("fewer_units", facts=facts)
    if gone:
        facts = {"count": len(gone), "combinations": tuple(gone), "source": source}
        yield Finding("combination_gone", facts=facts)


def _known(plan: Plan) -> AbstractSet[UnitKey]:
    return {unit.key for shard in plan.shards for unit in shard.units} | _orphans(plan)


def _orphans(plan: Plan) -> AbstractSet[UnitKey]:
    return {one.key for one in plan.inventory.orphans}


def _tests_gone(gone: AbstractSet[UnitKey], policy: Policy) -> Iterator[Finding]:
    if gone:
        units = tuple(sorted(gone))
        facts = {"source": policy.commit[:10], "tests": tuple(key.unit for key in units)}
        yield Finding("base_tests_gone", units=units, facts=facts)


def lost_too_many(before: int, now: int, max_drop: float) -> bool:
    """Say so of a combination; it may lose one unit where any: 1 % of 50 is none."""
    # What 0.07 * 100 is more than 7 by must not count as an eighth.
    allowed = math.ceil(round(max_drop * before, 6))
    return now < before and (not now or before - now > allowed)
