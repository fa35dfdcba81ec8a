"""Which suites and variants share shards, how many shards each pool and command gets, and what a
number of shards costs: wall time of the run, billed minutes, price. Pure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ciguard.errors import UsageError
from ciguard.model import PlanNote, Pool, Shard, ShardCountOption
from ciguard.model.jobs import price_usd, whole_minutes
from ciguard.plan.pool_shards import PoolAllocation, allocate_n
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.risk import overrun_probability
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.plan.problem import PackingProblem, PlanOptions, ProblemBuilder

FLOOR_DOMINATES: Final = 0.99  # of the makespan: so much in one unit is why it takes so long
# Of each command and combination while no test has a timing: as the job was before it was planned.
DEFAULT_SHARDS: Final = 1
MIN_GAIN: Final = 0.99  # more shards that do not save 1 % of the wall time save nothing

FACTORS: Final = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)  # of the chosen number of shards
DIGITS: Final = 6


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


def apportion(
    works: Sequence[PackingProblem], count: int, wanted: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Divide a number of shards over works, each at least one, so that the last ends earliest.

    The next shard goes to the work whose shards would be the longest, if more can make them
    shorter: as no other division has a smaller longest bound, the plan's bound is a bound.

    Args:
        count: >= the number of works.
        wanted: the most that each may get, >= 1; as many as it can fill where None.

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
    most = wanted or [work.max_shards for work in works]
    for _ in range(count - len(found)):
        there = [place for place in range(len(works)) if found[place] < most[place]]
        if not there:
            break
        found[max(there, key=rank)] += 1
    return tuple(found)


def allocate(
    works: Sequence[PackingProblem],
    options: PlanOptions,
    *,
    has_timings: bool = True,
) -> list[PoolAllocation]:
    """Distribute each; together they have at most as many shards as a matrix may have.

    Args:
        has_timings: without any, a time that decides the number of shards would be a guess.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.per_combination and options.shards is not None:
        wanted = len(works) * options.shards
        if wanted > MAX_SHARDS:
            what = f"{options.shards} shards of {len(works)} combinations are {wanted} jobs"
            fix = f"GitHub runs at most {MAX_SHARDS} of a matrix: take fewer shards of each"
            raise UsageError(what, where="--shards", fix=fix)
        return [allocate_exactly(work, options.shards) for work in works]
    if options.shards is None and not has_timings:
        found = [allocate_exactly(work, DEFAULT_SHARDS) for work in works]
        return [replace(one, limited_by=PlanNote("no_timings")) for one in found]
    if options.shards is None:
        return _allocate_for_target(works, options.target_wall_s)
    if options.shards < len(works):
        suites = [work.units[work.positions[0]].suite or "tests" for work in works]
        named = ", ".join(
            f"{suite} in {work.pool}" for suite, work in zip(suites, works, strict=True)
        )
        what = f"{count_of(options.shards, 'shard')} for {len(works)} pools and commands: {named}"
        raise UsageError(what, fix=f"pass --shards {len(works)}: a shard runs one command")
    counts = apportion(works, options.shards)
    return [allocate_exactly(work, count) for work, count in zip(works, counts, strict=True)]


def _allocate_for_target(
    works: Sequence[PackingProblem], target_wall_s: float
) -> list[PoolAllocation]:
    """Make as many shards as each needs; where these are too many together, an even part."""
    most = MAX_SHARDS - len(works) + 1
    found = [fewest_shards(work, target_wall_s, most) for work in works]
    wanted = [len(one.shards) for one in found]
    if sum(wanted) <= MAX_SHARDS:
        return found
    counts = apportion(works, MAX_SHARDS, wanted)
    return [
        one
        if count == len(one.shards)
        else replace(allocate_exactly(work, count), limited_by=PlanNote("matrix"))
        for work, one, count in zip(works, found, counts, strict=True)
    ]


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
    Combinations of a matrix are apart in any case: each has jobs of its own. So are suites and
    variants that are listed by the legs: a leg lists one.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.per_combination:
        works = builder.partition(pools, by_variant=True)
        found = allocate(works, options, has_timings=builder.has_timings)
        bounds_s = [work.bound_s(len(one.shards)) for work, one in zip(works, found, strict=True)]
        return Allocation(works, found, max(bounds_s))
    together = builder.partition(pools, by_variant=options.policy.lists)
    works = together
    found = allocate(together, options, has_timings=builder.has_timings)
    if builder.has_timings and any(
        sum(work.starts_s) > work.min_process_overhead_s for work in together
    ):
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


def run_wall_s(walls_s: Iterable[float], concurrency: int | None) -> float:
    """When the last job ends, of jobs that start in this order, at most so many at once."""
    running: list[float] = []
    end_s = 0.0
    for wall_s in walls_s:
        waited_s = 0.0
        if concurrency is not None and len(running) >= concurrency:
            waited_s = heapq.heappop(running)
        heapq.heappush(running, waited_s + wall_s)
        end_s = max(end_s, waited_s + wall_s)
    return end_s


def cost_of(walls_s: Sequence[float], pool: Pool) -> ShardCountOption:
    """Charge one job of the pool for each time: in whole minutes, set-up included."""
    jobs_s = [wall_s + (pool.setup_s or 0.0) for wall_s in walls_s]
    minutes = sum(map(whole_minutes, jobs_s))
    price = price_usd([(jobs_s, pool.usd_per_minute)])
    return ShardCountOption(len(jobs_s), run_wall_s(jobs_s, pool.concurrency), minutes, price)


def option(
    walls_s: Mapping[str, Sequence[float]], pools: Mapping[str, Pool], *, chosen: bool
) -> ShardCountOption:
    """Sum up the pools of one plan, which run side by side.

    Args:
        walls_s: of the shards, by pool.
    """
    bills = [cost_of(of_pool, pools[name]) for name, of_pool in walls_s.items()]
    prices = [one.price_usd for one in bills if one.price_usd is not None]
    return ShardCountOption(
        shards=sum(one.shards for one in bills),
        wall_s=round(max(one.wall_s for one in bills), DIGITS),
        minutes=sum(one.minutes for one in bills),
        price_usd=round(math.fsum(prices), DIGITS) if len(prices) == len(bills) else None,
        chosen=chosen,
    )


def walls_of(shards: Sequence[Shard]) -> dict[str, list[float]]:
    """The predicted wall times of the shards, by pool."""
    walls_s: dict[str, list[float]] = {}
    for shard in shards:
        walls_s.setdefault(shard.pool, []).append(shard.predicted.wall_s)
    return walls_s


def counts_to_try(count: int, max_count: int) -> list[int]:
    """Numbers of shards to compare with the chosen one, ascending, without it."""
    found = {min(max(1, round(factor * count)), max_count) for factor in FACTORS}
    return sorted(found - {count})
