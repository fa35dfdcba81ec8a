"""Findings about the combinations of a job's matrix: what their shards must agree on. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ciguard.guard.legs import LegResult
    from ciguard.guard.verdict import Kind
    from ciguard.model import Plan
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
            yield Finding("incomplete", "different_scripts", facts=facts)


def listing_findings(listed: ListedPlan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Where it is not sure which units exist."""
    for one in listed.disagreements:
        facts = {
            "combination": one.variant or None,
            "shards": " / ".join(", ".join(keys) for keys in one.shards),
            "count": len(one.units) or None,
            "first": one.units[0].unit if one.units else None,
        }
        yield Finding("incomplete", "different_listings", units=one.units, facts=facts)
    kinds: tuple[tuple[Kind, tuple[tuple[str, str], ...]], ...]
    kinds = (("nothing_listed", listed.empty), ("listing_short", listed.short))
    for kind, suite_keys in kinds:
        for suite, variant in suite_keys:
            facts = {"suite": suite or None, "variant": variant or None}
            yield Finding("incomplete", kind, facts=facts)
    for leg in legs:
        if leg.shard.key in listed.unlisted and leg.end.problem is None:
            yield Finding("incomplete", "no_listing", leg.shard.key)
