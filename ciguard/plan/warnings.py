"""Warnings of a plan that misses its target, deadline, risk or memory, with their tests. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ciguard.model import Plan, PlanNote, Shard
from ciguard.plan.allocation import cost_of, walls_of
from ciguard.plan.problem import RELATIVE_TOLERANCE
from ciguard.plan.risk import WallTimeSpread, limit_for_risk, over_budget, overrun_probability

NAMING_RATIO: Final = 0.5  # of the longest test: shorter tests are not named
DIGITS: Final = 6


def plan_warnings(
    plan: Plan,
    spreads: Sequence[WallTimeSpread],
    target_wall_s: float | None,
    risk: float,
    floor_s: float = 0.0,
) -> Iterator[PlanNote]:
    """Yield the warnings of a plan.

    Args:
        spreads: of the shards, in their order.
        target_wall_s: None if the number of shards was requested.
        risk: accepted P(any shard exceeds the legs' own deadline).
        floor_s: time of a shard of the floor unit alone.
    """
    if plan.has_timings:
        yield from _missed_target(plan, target_wall_s, floor_s)
        yield from _over_deadline(plan)
        yield from _over_risk(plan, spreads, risk)
    yield from _over_memory(plan)
    if not plan.policy.lists:  # else the jobs list the tests of these files
        # On the base, the known files had no tests, either.
        known = {*plan.inventory.files_without_units, *(file for _, file, _ in plan.omitted)}
        files = [path for path, units in plan.inventory.files.items() if not units]
        if new_files := sorted(set(files) - known):
            yield PlanNote("files_without_tests", {"files": new_files})
    planned = sorted({unit.suite for shard in plan.shards for unit in shard.units})
    suites = [name or "the suite" for name in planned if plan.suites[name].results]
    if suites and plan.policy.max_tries > 1:
        yield PlanNote("retries_without_effect", {"suites": suites})
    if untried := sorted({what for suite in plan.suites.values() for what in suite.untried}):
        yield PlanNote("untried", {"untried": untried})


def _missed_target(plan: Plan, target_wall_s: float | None, floor_s: float) -> Iterator[PlanNote]:
    # More shards than a pool runs at once come in waves, each with the pool's own set-up.
    makespan_s = max(
        cost_of(walls_s, plan.pools[name]).wall_s - (plan.pools[name].setup_s or 0.0)
        for name, walls_s in walls_of(plan.shards).items()
    )
    if target_wall_s is None or makespan_s <= target_wall_s * (1 + RELATIVE_TOLERANCE):
        return
    if plan.floor is not None and floor_s > target_wall_s:
        facts = {"test": plan.floor.unit, "wall_s": round(floor_s, DIGITS)}
        yield PlanNote("target_missed_by_test", {"target_s": target_wall_s, **facts})
    else:
        numbers = {"shards": len(plan.shards), "wall_s": round(makespan_s, DIGITS)}
        yield PlanNote("target_missed", {"target_s": target_wall_s, **numbers})


def _over_deadline(plan: Plan) -> Iterator[PlanNote]:
    deadline_s = plan.policy.deadline_s
    late = [
        (shard, shard.predicted.wall_s)
        for shard in plan.shards
        if deadline_s is not None and shard.predicted.wall_s > deadline_s
    ]
    if late:
        yield PlanNote("deadline_exceeded", {"deadline_s": deadline_s, **_times(late)})


def _over_risk(plan: Plan, spreads: Sequence[WallTimeSpread], risk: float) -> Iterator[PlanNote]:
    deadline_s = plan.policy.deadline_s
    ok_shards = [
        (shard, spread)
        for shard, spread in zip(plan.shards, spreads, strict=True)
        if deadline_s is not None and shard.predicted.wall_s <= deadline_s
    ]
    if deadline_s is None or not ok_shards:
        return
    walls_s = [shard.predicted.wall_s for shard, _ in ok_shards]
    if overrun_probability(deadline_s, walls_s, [spread for _, spread in ok_shards]) <= risk:
        return
    # Each shard has an equal part of the risk; shards with more of it are named.
    limits_s = [
        (shard, limit_for_risk(risk / len(plan.shards), [shard.predicted.wall_s], [spread]))
        for shard, spread in ok_shards
    ]
    risky = [(shard, wall_s) for shard, wall_s in limits_s if wall_s > deadline_s]
    if risky:
        facts = {"deadline_s": deadline_s, "risk_ratio": risk, **_times(risky)}
        yield PlanNote("risk_exceeded", facts)


def _times(shards: Sequence[tuple[Shard, float]]) -> dict[str, dict[str, float]]:
    """Return the times of the shards and of their long tests, which are the reason."""
    units = [unit for shard, _ in shards for unit in shard.units]
    longest_s = max(unit.wall_s for unit in units)
    long = [unit for unit in units if unit.wall_s >= NAMING_RATIO * longest_s]
    return {
        "shards_s": {shard.key: round(wall_s, DIGITS) for shard, wall_s in shards},
        "tests_s": {unit.unit: unit.wall_s for unit in long},
    }


def _over_memory(plan: Plan) -> Iterator[PlanNote]:
    for name in sorted(plan.pools):
        shards = [shard for shard in plan.shards if shard.pool == name]
        needs = dict(need for shard in shards for need in over_budget(shard, plan.suites))
        if needs:
            facts = {"pool": name, "budget_bytes": shards[0].budget_bytes, "tests_bytes": needs}
            yield PlanNote("memory_exceeded", facts)
