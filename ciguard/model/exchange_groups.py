"""Which shards of a plan may run each other's blocks. Standard library only, Python 3.8+."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping

if TYPE_CHECKING:
    from ciguard.model.plan import Plan, PlannedUnit


def exchange_groups(plan: Plan) -> Mapping[str, str]:
    """By shard, the name of its group: of one pool, of the same suites and memory; O(units)."""
    first: dict[object, str] = {}
    found = {}
    for shard in plan.shards:
        suite_keys = frozenset((unit.suite, unit.variant) for unit in shard.units)
        machine = (shard.pool, shard.budget_bytes, shard.processes)
        found[shard.key] = first.setdefault((machine, suite_keys), shard.key)
    return found


def claimable_blocks(plan: Plan, key: str) -> Mapping[str, tuple[PlannedUnit, ...]]:
    """Blocks of other shards, by name, that the leg of this shard may run; O(units)."""
    groups = exchange_groups(plan) if plan.claims else {}
    return {
        name: units
        for shard in plan.shards
        if shard.key != key and plan.claims and groups[shard.key] == groups[key]
        for name, units in shard.units_by_block().items()
    }
