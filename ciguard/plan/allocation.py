"""Which suites and variants share shards, and how many shards each pool and command gets. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ciguard.errors import UsageError
from ciguard.model import PlanNote
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.shard_count import (
    DEFAULT_SHARDS,
    MIN_GAIN,
    allocate_exactly,
    fewest_shards,
)
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.plan.pool_shards import PoolAllocation
    from ciguard.plan.problem import PackingProblem
    from ciguard.plan.problem_builder import PlanOptions, ProblemBuilder


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
    max_shards: int = MAX_SHARDS,
) -> list[PoolAllocation]:
    """Distribute each; together they have at most as many shards as a matrix may have.

    Args:
        has_timings: without any, a time that decides the number of shards would be a guess.
        max_shards: >= the number of works.

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
        return _allocate_for_target(works, options.target_wall_s, max_shards)
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
    works: Sequence[PackingProblem], target_wall_s: float, max_shards: int
) -> list[PoolAllocation]:
    """As many shards as each needs; where these are too many together, an even part of them."""
    most = max_shards - len(works) + 1
    found = [fewest_shards(work, target_wall_s, most) for work in works]
    wanted = [len(one.shards) for one in found]
    if sum(wanted) <= max_shards:
        return found
    counts = apportion(works, max_shards, wanted)
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
