"""The number of shards of each pool and command, and its cost in time and money. Pure.

A *work* is a packing problem: the units of one pool and command. This module also decides whether
suites and variants share shards. packing.py fills the shards.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ciguard.errors import UsageError
from ciguard.model import PlanNote, Pool, Shard, ShardCountOption, Suite
from ciguard.model.jobs import (
    FIRST_SHARDS,
    MAX_FIRST_SHARDS,
    first_shards_of_each,
    price_usd,
    whole_minutes,
)
from ciguard.plan.pool_shards import PoolAllocation, allocate_n
from ciguard.plan.problem import (
    MAX_SHARDS,
    RELATIVE_TOLERANCE,
    PackingProblem,
    PlanOptions,
    ProblemBuilder,
)
from ciguard.plan.risk import overrun_probability
from ciguard.run.frameworks.registry import framework
from ciguard.text import count_of

FLOOR_DOMINATES: Final = 0.99  # of the makespan: a unit of this share limits the number of shards
MIN_TESTS: Final = 50  # in a shard: for fewer tests, the set-up of a job costs too much
FURTHER_TESTS: Final = 500  # for each shard above `FIRST_SHARDS`
TESTS_PER_FILE: Final = 5  # assumed for a unit that is a whole file or class
MIN_GAIN: Final = 0.99  # shards that save less than 1 % of the wall time are not added

FACTORS: Final = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)  # of the chosen number of shards
DIGITS: Final = 6


def allocate_exactly(work: PackingProblem, shard_count: int) -> PoolAllocation:
    """Make exactly `shard_count` shards, as equal as the units above the limit allow."""
    lost = work.infeasible
    enough_s = min(work.deadline_at_risk_s, work.block_solo_s(lost[-1])) if lost else 0.0
    return allocate_n(work, shard_count, enough_s)


def fewest_shards(
    work: PackingProblem, target_wall_s: float, max_count: int, least: int = 1
) -> PoolAllocation:
    """Make the smallest number of shards that meets the target and the limit.

    If the floor unit, or a group that stays together, exceeds the target alone, the makespan of
    this number is within 1 % of this unit or group. A unit that exceeds the limit alone does not
    allow other shards to exceed the limit. Jobs beyond the pool's concurrency wait for others, so
    that more shards only help the limit.

    Args:
        least, max_count: smallest and largest number of shards.
    """
    deadline_s, risk = work.deadline_s, work.risk
    least_s = work.longest_feasible_s
    if work.infeasible:  # the run lasts until these units are stopped
        least_s = max(least_s, min(deadline_s, work.block_solo_s(work.infeasible[0])))
    # If the target cannot be met, a shard that saves less than 1 % is not added.
    aim_s = target_wall_s if least_s <= target_wall_s else least_s / MIN_GAIN
    aim_s *= 1 + RELATIVE_TOLERANCE
    enough_s = min(aim_s, work.deadline_at_risk_s)
    max_count = min(max_count, work.max_shards)
    cap = max_count if work.concurrency is None else work.concurrency
    min_count = max(min(least, max_count), _min_shard_count(work, aim_s, cap, max_count))
    best: PoolAllocation | None = None
    for count in range(min_count, max_count + 1):
        allocation = allocate_n(work, count, enough_s)
        meets_target = allocation.feasible_makespan_s <= aim_s or count >= cap
        if meets_target and (not work.enforces_deadline or allocation.meets(deadline_s, risk)):
            return replace(allocation, limited_by=_limiting_note(work, allocation, target_wall_s))
        if best is None or allocation.feasible_makespan_s < MIN_GAIN * best.feasible_makespan_s:
            best = allocation
    assert best is not None
    return replace(best, limited_by=PlanNote("no_gain"))


def _min_shard_count(work: PackingProblem, aim_s: float, cap: int, max_count: int) -> int:
    """Return the smallest number of equal shards that meets time and limit: a lower bound.

    Each infeasible block has a separate shard; the other units share the rest.
    """
    lost = {unit for block in work.infeasible for unit in block}
    positions = [unit for unit in work.positions if unit not in lost] if lost else work.positions
    total_s = work.load_s(positions) if lost else work.total_s
    spread = work.spread(positions, work.processes)
    for count in range(1, max_count - len(work.infeasible)):
        mean_s = total_s / (count * work.processes) + work.min_shard_overhead_s
        if mean_s > aim_s and count + len(work.infeasible) < cap:
            continue
        equal_spread = replace(spread, variance_s2=spread.variance_s2 / count)
        risk = overrun_probability(work.deadline_s, [mean_s] * count, [equal_spread] * count)
        if risk <= work.risk or not work.enforces_deadline:
            return count + len(work.infeasible)
    return max_count


def _limiting_note(
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

    The next shard goes to the work with the largest bound, if another shard reduces this bound. No
    other division has a smaller largest bound, which is therefore the plan's lower bound.

    Args:
        count: >= the number of works.
        wanted: the largest number for each work, >= 1; None for as many as the work can fill.

    Returns:
        Shards by work; their sum is `count`, or less if there are too few units.
    """

    def rank(index: int) -> tuple[float, float, int]:
        work, shards = works[index], counts[index]
        bound_s = work.bound_s(shards)
        gains = bound_s > work.solo_s(work.floor)
        # If no work gains, for example without any load, units per shard decide.
        return bound_s if gains else 0.0, len(work.positions) / shards, -index

    counts = [1] * len(works)
    max_counts = wanted or [work.max_shards for work in works]
    for _ in range(count - len(counts)):
        open_works = [index for index in range(len(works)) if counts[index] < max_counts[index]]
        if not open_works:
            break
        counts[max(open_works, key=rank)] += 1
    return tuple(counts)


def first_listing_shards(suites: Mapping[str, Suite]) -> int:
    """Return the number of shards of each variant without a history, if jobs list its tests."""
    return first_shards_of_each(sum(len(suite.variants) for suite in suites.values()))


def first_shards(work: PackingProblem) -> int:
    """Return the number of shards of a work without timings, by its number of tests."""
    suite = work.suites[work.units[work.positions[0]].suite]
    has_cases = framework(suite.framework).unit in ("file", "class")
    tests = len(work.positions) * (TESTS_PER_FILE if has_cases else 1)
    count = min(FIRST_SHARDS, tests // MIN_TESTS) + tests // FURTHER_TESTS
    return max(1, min(count, work.concurrency or MAX_FIRST_SHARDS))


def allocate(
    works: Sequence[PackingProblem], options: PlanOptions, *, has_timings: bool = True
) -> list[PoolAllocation]:
    """Allocate shards to each work; their sum is at most the size of a matrix.

    Args:
        has_timings: without timings, the target is ignored, as it would choose any number.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.per_combination and options.shards is not None:
        wanted = len(works) * options.shards
        if wanted > MAX_SHARDS:
            what = f"{options.shards} shards of {len(works)} combinations are {wanted} jobs"
            fix = f"GitHub runs at most {MAX_SHARDS} of a matrix: take fewer shards of each"
            raise UsageError(what, where="--shards", fix=fix)
        exact = [allocate_exactly(work, options.shards) for work in works]
        if not options.grows or not has_timings:
            return exact
        max_count = MAX_SHARDS // len(works)
        return [
            _for_deadline(work, each, max_count) for work, each in zip(works, exact, strict=True)
        ]
    if options.shards is None and not has_timings:
        counts = apportion(works, max(MAX_FIRST_SHARDS, len(works)), [*map(first_shards, works)])
        return [
            replace(allocate_exactly(work, count), limited_by=PlanNote("no_timings"))
            for work, count in zip(works, counts, strict=True)
        ]
    if options.shards is None:
        return _allocate_for_target(works, options.target_wall_s, options.min_shards)
    if options.shards < len(works):
        suites = [work.units[work.positions[0]].suite or "tests" for work in works]
        named = ", ".join(
            f"{suite} in {work.pool}" for suite, work in zip(suites, works, strict=True)
        )
        what = f"{count_of(options.shards, 'shard')} for {len(works)} pools and commands: {named}"
        raise UsageError(what, fix=f"pass --shards {len(works)}: a shard runs one command")
    counts = apportion(works, options.shards)
    return [allocate_exactly(work, count) for work, count in zip(works, counts, strict=True)]


def _for_deadline(work: PackingProblem, least: PoolAllocation, max_count: int) -> PoolAllocation:
    """Return the allocation, or an allocation with as many more shards as the deadline needs."""
    deadline_s = work.deadline_s
    if least.meets(deadline_s, work.risk):
        return least
    enough = fewest_shards(work, deadline_s, max_count, len(least.shards))
    facts = {"tests": sum(map(len, work.infeasible)), "deadline_s": deadline_s}
    return replace(enough, limited_by=PlanNote("deadline_met", facts))


def _allocate_for_target(
    works: Sequence[PackingProblem], target_wall_s: float, least: int
) -> list[PoolAllocation]:
    """Make the shards that each work needs; if these exceed the matrix, divide its size."""
    max_count = MAX_SHARDS - len(works) + 1
    allocations = [fewest_shards(work, target_wall_s, max_count, least) for work in works]
    wanted = [len(allocation.shards) for allocation in allocations]
    if sum(wanted) <= MAX_SHARDS:
        return allocations
    counts = apportion(works, MAX_SHARDS, wanted)
    return [
        allocation
        if count == len(allocation.shards)
        else replace(allocate_exactly(work, count), limited_by=PlanNote("matrix"))
        for work, allocation, count in zip(works, allocations, counts, strict=True)
    ]


def allocate_together_or_apart(
    builder: ProblemBuilder, pools: Sequence[str], options: PlanOptions
) -> tuple[list[PackingProblem], list[PoolAllocation], float]:
    """Pack all suites and variants of a pool and command together, or apart if this is better.

    Together, each shard needs the set-up of all of them. Apart, the last shard of each is not full.
    Combinations of a matrix are always apart, because each has separate jobs. Suites and variants
    that jobs list are apart, because a job lists only one of them.

    Returns:
        Works with their shards, and the lower bound of any plan with this number of shards.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.per_combination:
        works = builder.partition(pools, by_variant=True)
        allocations = allocate(works, options, has_timings=builder.has_timings)
        pairs = zip(works, allocations, strict=True)
        bound_s = max(work.bound_s(len(allocation.shards)) for work, allocation in pairs)
        return works, allocations, bound_s
    joint = builder.partition(pools, by_variant=options.policy.lists)
    works = joint
    allocations = allocate(joint, options, has_timings=builder.has_timings)
    if builder.has_timings and any(sum(work.starts_s[1:]) > 0 for work in joint):
        separate = builder.partition(pools, by_variant=True)
        if options.shards is None or len(separate) <= options.shards:
            others = allocate(separate, options)
            if _objective(others, options) < _objective(allocations, options, MIN_GAIN):
                works, allocations = separate, others
    # The bound is that of all units together; bounds of the parts hold only for this partition.
    counts = apportion(joint, sum(len(allocation.shards) for allocation in allocations))
    bound_s = max(work.bound_s(count) for work, count in zip(joint, counts, strict=True))
    return works, allocations, bound_s


def _objective(
    allocations: Sequence[PoolAllocation], options: PlanOptions, ratio: float = 1.0
) -> tuple[float, ...]:
    """Return the sort key of allocations: time over the target, risky parts, shards, makespan."""
    makespan_s = ratio * max(allocation.makespan_s for allocation in allocations)
    if options.shards is not None:
        return (makespan_s,)
    deadline_s = options.limit.deadline_s
    late_s = max(0.0, makespan_s - options.target_wall_s * (1 + RELATIVE_TOLERANCE))
    risky = sum(not allocation.meets(deadline_s, options.risk) for allocation in allocations)
    shard_count = sum(len(allocation.shards) for allocation in allocations)
    return late_s, risky, shard_count, makespan_s


def run_wall_s(walls_s: Iterable[float], concurrency: int | None) -> float:
    """Return the end of the last job, if jobs start in this order and `concurrency` run at once."""
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
    """Return the cost of jobs with these times, in whole minutes, with set-up."""
    jobs_s = [wall_s + (pool.setup_s or 0.0) for wall_s in walls_s]
    minutes = sum(map(whole_minutes, jobs_s))
    price = price_usd([(jobs_s, pool.usd_per_minute)])
    return ShardCountOption(len(jobs_s), run_wall_s(jobs_s, pool.concurrency), minutes, price)


def shard_count_option(
    walls_s: Mapping[str, Sequence[float]], pools: Mapping[str, Pool], *, chosen: bool
) -> ShardCountOption:
    """Add up the costs of all pools, which run concurrently, by the wall times of their shards."""
    costs = [cost_of(pool_walls_s, pools[name]) for name, pool_walls_s in walls_s.items()]
    prices = [cost.price_usd for cost in costs if cost.price_usd is not None]
    return ShardCountOption(
        shards=sum(cost.shards for cost in costs),
        wall_s=round(max(cost.wall_s for cost in costs), DIGITS),
        minutes=sum(cost.minutes for cost in costs),
        price_usd=round(math.fsum(prices), DIGITS) if len(prices) == len(costs) else None,
        chosen=chosen,
    )


def walls_of(shards: Sequence[Shard]) -> dict[str, list[float]]:
    """Return the predicted wall times of the shards, by pool."""
    walls_s: dict[str, list[float]] = {}
    for shard in shards:
        walls_s.setdefault(shard.pool, []).append(shard.predicted.wall_s)
    return walls_s


def counts_to_try(count: int, max_count: int) -> list[int]:
    """Return numbers of shards to compare with the chosen number, ascending, without it."""
    counts = {min(max(1, round(factor * count)), max_count) for factor in FACTORS}
    return sorted(counts - {count})
