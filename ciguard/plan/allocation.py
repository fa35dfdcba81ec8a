"""Which suites and variants share shards, and how many shards each pool and command gets. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ciguard.errors import UsageError
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.shard_count import MIN_GAIN, allocate_exactly, fewest_shards
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.plan.pool_shards import PoolAllocation
    from ciguard.plan.problem import PackingProblem
    from ciguard.plan.problem_builder import PlanOptions, ProblemBuilder


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
    if options.per_combination and options.shards is not None:
        wanted = len(works) * options.shards
        if wanted > MAX_SHARDS:
            what = f"{options.shards} shards of {len(works)} combinations are {wanted} jobs"
            fix = f"GitHub runs at most {MAX_SHARDS} of a matrix: take fewer shards of each"
            raise UsageError(what, where="--shards", fix=fix)
        return [allocate_exactly(work, options.shards) for work in works]
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
    Combinations of a matrix are apart in any case: each has jobs of its own. So are suites and
    variants that are listed by the legs: a leg lists one.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    if options.per_combination:
        works = builder.partition(pools, by_variant=True)
        found = allocate(works, options)
        bounds_s = [work.bound_s(len(one.shards)) for work, one in zip(works, found, strict=True)]
        return Allocation(works, found, max(bounds_s))
    together = builder.partition(pools, by_variant=options.policy.lists)
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
