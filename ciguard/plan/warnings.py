"""What a plan cannot keep: limit, risk, target, memory. Warnings that name the units; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.plan.cost import cost_of, walls_of
from ciguard.plan.inventory import name_some
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.risk import limit_for_risk, over_budget, overrun_probability
from ciguard.text import duration, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.model import Plan, PlannedUnit, Shard, Suite
    from ciguard.plan.inventory import Inventory
    from ciguard.plan.risk import WallTimeSpread

NAMING_RATIO: Final = 0.5  # of the longest unit
MIN_SHOWN_S: Final = 0.1  # beside a test: less need not be said
MIB: Final = 1 << 20


def plan_warnings(
    plan: Plan,
    spreads: Sequence[WallTimeSpread],
    *,
    target_wall_s: float | None,
    floor_s: float,
    risk: float,
) -> tuple[str, ...]:
    """Say it in one line each.

    Args:
        spreads: of the shards, in their order.
        target_wall_s: None where the number of shards was given.
        floor_s: what a shard of the floor unit alone takes.
        risk: accepted P(any shard passes the legs' own deadline).
    """
    return (
        *_missed_target(plan, target_wall_s, floor_s),
        *_over_deadline(plan),
        *_over_risk(plan, spreads, risk),
        *_over_memory(plan),
    )


def tries_without_effect(suites: Mapping[str, Suite], inventory: Inventory) -> Iterator[str]:
    """The planned suites of which the leg does not know what failed."""
    there = {unit.suite for unit in inventory.units}
    for name in sorted(name for name in there if suites[name].results):
        yield f"policy.tries does nothing for suite {name}: its results are in files"


def _missed_target(plan: Plan, target_wall_s: float | None, floor_s: float) -> Iterator[str]:
    # Shards beyond what a pool runs at once come in waves, each with the pool's own set-up.
    makespan_s = max(
        cost_of(walls_s, plan.pools[name]).wall_s - (plan.pools[name].setup_s or 0.0)
        for name, walls_s in walls_of(plan.shards).items()
    )
    if target_wall_s is None or makespan_s <= target_wall_s * (1 + RELATIVE_TOLERANCE):
        return
    text = f"the target of {duration(target_wall_s)} cannot be kept: "
    floor = plan.floor
    if floor is not None and floor_s > target_wall_s:
        guessed = "" if floor.known else ", as its siblings do: nobody has measured it"
        overhead_s = floor_s - floor.wall_s
        more = f" and {duration(overhead_s)} to start and end" if overhead_s >= MIN_SHOWN_S else ""
        yield f"{text}{one_line(floor.unit)} alone takes {duration(floor.wall_s)}{more}{guessed}"
    else:
        why = f"{len(plan.shards)} shards take {duration(makespan_s)}"
        most = f", and a matrix has at most {MAX_SHARDS}" * (len(plan.shards) >= MAX_SHARDS)
        yield f"{text}{why}{most}"


def _over_deadline(plan: Plan) -> Iterator[str]:
    deadline_s = plan.policy.deadline_s
    late = [
        (shard, shard.predicted.wall_s)
        for shard in plan.shards
        if deadline_s is not None and shard.predicted.wall_s > deadline_s
    ]
    if late:
        text = f"predicted to take too long: shard {_shards(late)}"
        yield f"{text}, over the {_limit(plan)}: {_longest(late)}"


def _over_risk(plan: Plan, spreads: Sequence[WallTimeSpread], risk: float) -> Iterator[str]:
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
    # Each has an equal part of the risk: named are those that take more of it.
    limits_s = [
        (shard, limit_for_risk(risk / len(plan.shards), [shard.predicted.wall_s], [spread]))
        for shard, spread in ok_shards
    ]
    risky = [(shard, wall_s) for shard, wall_s in limits_s if wall_s > deadline_s]
    if risky:
        text = f"too long at the accepted risk of {risk:g}: shard {_shards(risky)}"
        yield f"{text}, over the {_limit(plan)}: {_longest(risky)}"


def _shards(walls_s: Sequence[tuple[Shard, float]]) -> str:
    slowest = sorted(walls_s, key=lambda one: (-one[1], one[0].key))
    return name_some([f"{shard.key} ({duration(wall_s)})" for shard, wall_s in slowest])


def _limit(plan: Plan) -> str:
    return f"{duration(plan.policy.deadline_s)} after which a leg stops itself"


def _longest(shards: Sequence[tuple[Shard, float]]) -> str:
    units = [unit for shard, _ in shards for unit in shard.units]
    longest_s = max(unit.wall_s for unit in units)
    # Among many that take nothing, none is to blame.
    longest = [unit for unit in units if unit.wall_s >= NAMING_RATIO * longest_s]
    longest.sort(key=lambda unit: (-unit.wall_s, unit.key))
    return name_some([f"{one_line(unit.unit)} ({_unit_time(unit)})" for unit in longest])


def _unit_time(unit: PlannedUnit) -> str:
    return duration(unit.wall_s) + (", guessed" if not unit.known else "")


def _over_memory(plan: Plan) -> Iterator[str]:
    for name in sorted(plan.pools):
        shards = [shard for shard in plan.shards if shard.pool == name]
        found = sorted(
            ((need, unit) for shard in shards for unit, need in over_budget(shard, plan.suites)),
            key=lambda one: (-one[0], one[1]),
        )
        if found:
            budget = (shards[0].budget_bytes or 0) // MIB
            yield (
                f"more memory than pool {name} gives to tests ({budget} MiB; the most is "
                f"{found[0][0] // MIB} MiB) is needed by {name_some([unit for _, unit in found])}"
            )
