"""How many shards each pool needs: as many as asked for, or until they fit. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ciguard.errors import UsageError
from ciguard.model import PlanNote
from ciguard.plan.allocation import PoolAllocation, allocate_n
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.risk import overrun_probability
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.plan.problem import PackingProblem
    from ciguard.plan.problem_builder import PlanOptions, ProblemBuilder

KEEP_BASE_COUNT_WITHIN: Final = 1.1  # of the least number of shards: up to there the base's stays
FLOOR_DOMINATES: Final = 0.99  # of the makespan: so much in one unit is why it takes so long
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
    The base's number is taken where it does as well and is at most a tenth larger.

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
    for count in _candidate_counts(least, max_count, len(work.base_keys)):
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


def _candidate_counts(min_count: int, max_count: int, base: int) -> Iterator[int]:
    if min_count < base <= min(max_count, math.ceil(KEEP_BASE_COUNT_WITHIN * min_count)):
        yield base
    yield from range(min_count, max_count + 1)


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


def apportion(works: Sequence[PackingProblem], count: int) -> tuple[int, ...]:
    """Divide a number of shards over works, each at least one, so that the last ends earliest.

    The next shard goes to the work whose shards would be the longest, if more can make them
    shorter: as no other division has a smaller longest bound, the plan's bound is a bound.

    Args:
        count: >= the number of works.

    Returns:
        Shards by work; their sum is `count`, or less where there are too few units.
    """

    def rank(index: int) -> tuple[float, float, int]:
        work, shards = works[index], found[index]
        bound_s = work.bound_s(shards)
        gains = bound_s > work.solo_s(work.floor)
        # The second: where none gains, as without any load, the one with the most units.
        return bound_s if gains else 0.0, len(work.positions) / shards, -index

    found = [1] * len(works)
    for _ in range(count - len(found)):
        there = [place for place, work in enumerate(works) if found[place] < work.max_shards]
        if not there:
            break
        found[max(there, key=rank)] += 1
    return tuple(found)


def allocate(works: Sequence[PackingProblem], options: PlanOptions) -> list[PoolAllocation]:
    """Distribute each; together they have at most as many shards as a matrix may have.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.shards is None:
        most = MAX_SHARDS - len(works) + 1
        found = []
        for work in works:
            one = fewest_shards(work, options.target_wall_s, most)
            most -= len(one.shards) - 1
            found.append(one)
        return found
    if options.shards < len(works):
        suites = [work.units[work.positions[0]].suite or "tests" for work in works]
        named = ", ".join(
            f"{suite} in {work.pool}" for suite, work in zip(suites, works, strict=True)
        )
        what = f"{count_of(options.shards, 'shard')} for {len(works)} pools and commands: {named}"
        raise UsageError(what, fix=f"pass --shards {len(works)}: a shard runs one command")
    counts = apportion(works, options.shards)
    return [allocate_exactly(work, count) for work, count in zip(works, counts, strict=True)]


class Allocation(NamedTuple):
    """Works with their shards; `bound_s`: no plan with as many shards for them ends earlier."""

    works: list[PackingProblem]
    distributions: list[PoolAllocation]
    bound_s: float


def allocate_together_or_apart(
    builder: ProblemBuilder, pools: Sequence[str], options: PlanOptions
) -> Allocation:
    """What shares a pool and a command together, or each suite and variant apart if that is better.

    Together each shard pays the set-up of all of them; apart the last shard of each is not full.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    together = builder.partition(pools)
    works, found = together, allocate(together, options)
    if any(sum(work.starts_s) > work.min_process_overhead_s for work in together):
        apart = builder.partition(pools, by_variant=True)
        if options.shards is None or len(apart) <= options.shards:
            other = allocate(apart, options)
            if _objective(other, options) < _objective(found, options, MIN_GAIN):
                works, found = apart, other
    # The bound is of units together: a bound of the parts would hold for this partition only.
    counts = apportion(together, sum(len(one.shards) for one in found))
    bound_s = max(work.bound_s(count) for work, count in zip(together, counts, strict=True))
    return Allocation(works, found, bound_s)


def _objective(
    distributions: Sequence[PoolAllocation], options: PlanOptions, ratio: float = 1.0
) -> tuple[float, ...]:
    """Sort key: time over the target, risky parts, shards, makespan."""
    makespan_s = ratio * max(one.makespan_s for one in distributions)
    if options.shards is not None:
        return (makespan_s,)
    deadline_s = options.limit.deadline_s
    late_s = max(0.0, makespan_s - options.target_wall_s * (1 + RELATIVE_TOLERANCE))
    risky = sum(not one.meets(deadline_s, options.risk) for one in distributions)
    return late_s, risky, sum(len(one.shards) for one in distributions), makespan_s
