"""How many shards each pool needs: as many as asked for, or until they fit. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.model import PlanNote
from ciguard.plan.pool_shards import PoolAllocation, allocate_n
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.risk import overrun_probability

if TYPE_CHECKING:
    from ciguard.plan.problem import PackingProblem

FLOOR_DOMINATES: Final = 0.99  # of the makespan: so much in one unit is why it takes so long
# Of each command and combination while no test has a timing: as the job was before it was planned.
DEFAULT_SHARDS: Final = 1
MIN_GAIN: Final = 0.99  # more shards that do not save 1 % of the wall time save nothing


def allocate_exactly(work: PackingProblem, shard_count: int) -> PoolAllocation:
    """Exactly `shard_count` shards as equal as can be, but for what alone breaks the limit."""
    lost = work.infeasible
    enough_s = min(work.deadline_at_risk_s, work.block_solo_s(lost[-1])) if lost else 0.0
    return allocate_n(work, shard_count, enough_s)


def fewest_shards(work: PackingProblem, target_wall_s: float, max_count: int) -> PoolAllocation:
    """The smallest number of shards that keeps the target and the limit.

    No number meets a target that the floor unit, or a group that stays together, exceeds alone:
    then the number is the smallest that gets down to it, but for 1 %. A unit that exceeds the limit
    alone is no reason for others to exceed it.

    Jobs beyond the pool's concurrency cap wait for others, so that they can only serve the limit.

    Args:
        max_count: shards allowed.
    """
    deadline_s, risk = work.deadline_s, work.risk
    least_s = work.longest_feasible_s
    if work.infeasible:  # the run takes until they are stopped
        least_s = max(least_s, min(deadline_s, work.block_solo_s(work.infeasible[0])))
    # Where the target cannot be kept, the last 1 % is not worth a shard.
    aim_s = target_wall_s if least_s <= target_wall_s else least_s / MIN_GAIN
    aim_s *= 1 + RELATIVE_TOLERANCE
    enough_s = min(aim_s, work.deadline_at_risk_s)
    max_count = min(max_count, work.max_shards)
    cap = max_count if work.concurrency is None else work.concurrency
    least = _min_shard_count(work, aim_s, cap, max_count)
    best: PoolAllocation | None = None
    for count in range(least, max_count + 1):
        found = allocate_n(work, count, enough_s)
        is_short = found.feasible_makespan_s <= aim_s
        if (is_short or count >= cap) and (
            not work.enforces_deadline or found.meets(deadline_s, risk)
        ):
            return replace(found, limited_by=_why_not_more(work, found, target_wall_s))
        if best is None or found.feasible_makespan_s < MIN_GAIN * best.feasible_makespan_s:
            best = found
    assert best is not None  # least <= most
    return replace(best, limited_by=PlanNote("no_gain"))


def _min_shard_count(work: PackingProblem, aim_s: float, cap: int, max_count: int) -> int:
    """The number from which on equal shards would keep the time and the limit: no others do sooner.

    Each infeasible block has its own shard; the others share the rest.
    """
    lost = {unit for block in work.infeasible for unit in block}
    positions = [unit for unit in work.positions if unit not in lost] if lost else work.positions
    total_s = work.load_s(positions) if lost else work.total_s
    spread = work.spread(positions, work.processes)
    for count in range(1, max_count - len(work.infeasible)):
        mean_s = total_s / (count * work.processes) + work.min_shard_overhead_s
        if mean_s > aim_s and count + len(work.infeasible) < cap:
            continue
        one = replace(spread, variance_s2=spread.variance_s2 / count)
        over = overrun_probability(work.deadline_s, [mean_s] * count, [one] * count)
        if over <= work.risk or not work.enforces_deadline:
            return count + len(work.infeasible)
    return max_count


def _why_not_more(
    work: PackingProblem, allocation: PoolAllocation, target_wall_s: float
) -> PlanNote:
    if allocation.makespan_s <= target_wall_s * (1 + RELATIVE_TOLERANCE):
        return PlanNote("target_met", {"target_s": target_wall_s})
    if allocation.infeasible:
        late = sum(map(len, work.infeasible))
        return PlanNote("deadline_met", {"tests": late, "deadline_s": work.deadline_s})
    if work.solo_s(work.floor) >= allocation.makespan_s * FLOOR_DOMINATES:
        return PlanNote("longest_test")
    if work.longest_feasible_s >= allocation.makespan_s * FLOOR_DOMINATES:
        return PlanNote("group")
    if work.concurrency is None:
        is_most = len(allocation.shards) >= MAX_SHARDS
        return PlanNote("matrix" if is_most else "indivisible")
    return PlanNote("concurrency", {"pool": work.pool, "jobs": work.concurrency})
