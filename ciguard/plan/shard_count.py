"""How many shards each pool needs, and what is in each: packed, simulated, until it fits. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ciguard.errors import UsageError
from ciguard.model import PlanNote, Prediction, Shard
from ciguard.plan.loss_isolation import place_candidates
from ciguard.plan.packing import Costs, Preassigned, form_groups, pack_balanced
from ciguard.plan.problem import MAX_SHARDS, RELATIVE_TOLERANCE
from ciguard.plan.risk import WallTimeSpread, overrun_probability
from ciguard.plan.simulation import simulate_shard
from ciguard.plan.sticky import pack_sticky

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.plan.problem import PackingProblem
    from ciguard.plan.problem_builder import PlanOptions, ProblemBuilder

DIGITS: Final = 6
_REQUESTED: Final = PlanNote("requested")
_NO_PREDICTION: Final = Prediction(0.0, 0.0)
KEEP_BASE_COUNT_WITHIN: Final = 1.1  # of the least number of shards: up to there the base's stays
FLOOR_DOMINATES: Final = 0.99  # of the makespan: so much in one unit is why it takes so long
MIN_GAIN: Final = 0.99  # more shards that do not save 1 % of the wall time save nothing


@dataclass(frozen=True, slots=True)
class PoolAllocation:
    """One pool's shards, still without keys.

    Attributes:
        split: first units of groups that are in several shards.
        infeasible: shards, by place, with a unit that alone passes the deadline.
    """

    shards: tuple[Shard, ...]
    spreads: tuple[WallTimeSpread, ...]
    split: tuple[int, ...]
    infeasible: frozenset[int] = frozenset()
    limited_by: PlanNote = _REQUESTED

    @property
    def makespan_s(self) -> float:
        """Wall time of the longest shard, as predicted."""
        return max(shard.predicted.wall_s for shard in self.shards)

    @property
    def feasible_makespan_s(self) -> float:
        """Wall time of the longest shard that is feasible."""
        return max((shard.predicted.wall_s for shard, _ in self._feasible()), default=0.0)

    def meets(self, deadline_s: float, risk: float) -> bool:
        """Whether the feasible shards meet the deadline at this risk."""
        feasible = list(self._feasible())
        walls_s = [shard.predicted.wall_s for shard, _ in feasible]
        return (
            not feasible
            or overrun_probability(deadline_s, walls_s, [two for _, two in feasible]) <= risk
        )

    def _feasible(self) -> Iterator[tuple[Shard, WallTimeSpread]]:
        for place, pair in enumerate(zip(self.shards, self.spreads, strict=True)):
            if place not in self.infeasible:
                yield pair


def allocate_n(work: PackingProblem, shard_count: int, target_s: float = 0.0) -> PoolAllocation:
    """Pack into exactly this many shards, or as many as can be filled.

    Args:
        target_s: wall time of a shard for which no group need be divided.
    """
    split, packed = pack_shards(
        work, min(shard_count, work.max_shards), work.previous_shard, target_s
    )
    made = [_shard(work, members) for members in packed]
    lost = {unit for block in work.infeasible for unit in block}
    return PoolAllocation(
        tuple(shard for shard, _ in made),
        tuple(spread for _, spread in made),
        split,
        frozenset(place for place, units in enumerate(packed) if not lost.isdisjoint(units)),
    )


def pack_shards(
    work: PackingProblem, count: int, homes: Mapping[int, int], target_s: float = 0.0
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """First units of split groups; the units of each shard.

    Args:
        count: of shards, at most `work.max_shards`.
    """
    lost = _isolated_blocks(work, count, homes)
    isolated = {unit for block in lost.values() for unit in block}
    positions = [position for position in work.positions if position not in isolated]
    own, spread = place_candidates(
        work.candidate_sets, positions, count - len(lost), colocated=work.colocated
    )
    apart = isolated.union(*own, *spread)
    rest = [position for position in work.positions if position not in apart]
    costs = Costs(work.walls_s, work.setups_s if work.group_key else None)
    groups = form_groups(costs, work.group_key, rest, colocated=work.colocated)
    before = [Preassigned(work.load_s(members), members) for members in spread]
    enough_load_s = (target_s - work.leg.total_s - math.fsum(work.starts_s)) * work.processes
    packed = pack_balanced(groups, before, costs, enough_load_s)
    if homes:
        places_left = [place for place in range(count) if place not in lost]
        left = {place: number for number, place in enumerate(places_left)}
        homes = {unit: left[place] for unit, place in homes.items() if place in left}
        packed = pack_sticky(groups, homes, packed, costs)
    theirs = iter((*packed.shards, *own))
    return packed.split_groups, tuple(lost.get(place) or next(theirs) for place in range(count))


def _isolated_blocks(
    work: PackingProblem, count: int, homes: Mapping[int, int]
) -> dict[int, tuple[int, ...]]:
    """By place, infeasible blocks that take longer than is left for each of the other shards.

    In a shard of its own such a block takes no other along, and nothing gets longer by it. It stays
    where the base has it, or is among the first, which start first.
    """
    found: dict[int, tuple[int, ...]] = {}
    left_s = work.total_s if work.infeasible else 0.0
    for block in work.infeasible[: count - 1]:
        if work.block_solo_s(block) < left_s / ((count - len(found)) * work.processes):
            break
        left_s -= work.load_s(block)
        preferred = homes.get(block[0], count)
        free = [place for place in range(count) if place not in found]
        found[preferred if preferred in free else free[0]] = block
    return found


def _shard(work: PackingProblem, members: Sequence[int]) -> tuple[Shard, WallTimeSpread]:
    ordered = sorted(members, key=work.run_order.__getitem__)
    units = tuple(work.units[member] for member in ordered)
    processes = min(work.processes, len(units))
    shard = Shard(
        key="",
        pool=work.pool,
        units=units,
        predicted=_NO_PREDICTION,
        processes=processes,
        budget_bytes=work.budget_bytes,
    )
    expected = simulate_shard(
        shard, work.suites, lambda taken: work.load_s(ordered[unit] for unit in taken)
    )
    spread = work.spread(members, processes)
    wall_s = round(work.leg.total_s + expected.wall_s, DIGITS)
    measured = any(unit.peak_delta_bytes is not None for unit in units)
    prediction = Prediction(
        wall_s=wall_s,
        wall_p95_s=round(spread.p95_s(wall_s), DIGITS),
        peak_bytes=expected.peak_bytes if measured else None,
    )
    return replace(shard, predicted=prediction), spread


def allocate_exactly(work: PackingProblem, shard_count: int) -> PoolAllocation:
    """Exactly `shard_count` shards as equal as can be, but for what alone breaks the limit."""
    lost = work.infeasible
    enough_s = min(work.deadline_at_risk_s, work.block_solo_s(lost[-1])) if lost else 0.0
    return allocate_n(work, shard_count, enough_s)


def quick_makespans_s(work: PackingProblem, shard_count: int) -> list[float]:
    """Wall times of so many shards, by sums: memory and the order of processes are left out."""
    _, packed = pack_shards(work, min(shard_count, work.max_shards), {})
    found = []
    for members in packed:
        slots = min(work.processes, len(members))
        longest_s = max(work.solo_s(member) for member in members) if slots > 1 else 0.0
        starts_s = work.processes_s(members)
        starts_s += [starts_s[0]] * (slots - len(starts_s))  # each place has at least one process
        wall_s = work.leg.total_s + (work.load_s(members) + math.fsum(starts_s)) / slots
        found.append(max(wall_s, longest_s))
    return found


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
        UsageError: fewer shards are requested than pools are needed.
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
        pools = ", ".join(work.pool for work in works)
        what = f"{options.shards} shards for the units of {len(works)} pools: {pools}"
        fix = f"pass --shards {len(works)}, or name one pool for all with --pool"
        raise UsageError(what, fix=fix)
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
        UsageError: fewer shards are requested than pools are needed.
    """
    together = builder.partition(pools)
    works, found = together, allocate(together, options)
    if any(sum(work.starts_s) > work.min_process_overhead_s for work in together):
        apart = builder.partition(pools, by_variant=True)
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
