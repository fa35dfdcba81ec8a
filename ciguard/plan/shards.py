"""How many shards one pool needs, and what is in each: packed, simulated, until it fits. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ciguard.model import Prediction, Shard
from ciguard.plan.evening import dealt, evenly
from ciguard.plan.limits import Spread, chance_over, limit_of
from ciguard.plan.overheads import Overheads
from ciguard.plan.packing import Begun, Costs, grouped, lower_bound_s, scattered
from ciguard.plan.simulate import course
from ciguard.plan.sticky import kept
from ciguard.plan.suspects import placed
from ciguard.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.model import PlannedUnit, Suite
    from ciguard.plan.overheads import LegCost
    from ciguard.plan.packing import Border, Group
    from ciguard.plan.suspects import Suspicion

MOST_SHARDS: Final = 256  # jobs that GitHub lets a matrix have
DIGITS: Final = 6
ROUNDING: Final = 1e-9  # of sums of the same numbers in another order
_UNPREDICTED: Final = Prediction(0.0, 0.0)
NO_OVERHEADS: Final = Overheads()
NEAR_RATIO: Final = 1.1  # of the least number of shards: up to there the base's is kept
FLOOR_RATIO: Final = 0.99  # of the makespan: so much in one unit is why it takes so long
WORTH_RATIO: Final = 0.99  # more shards that do not save 1 % of the wall time save nothing


@dataclass(frozen=True)  # no slots: what many shard counts ask for is summed once
class Work:
    """What is to be done in one pool.

    Attributes:
        units: of the whole inventory, by key; `positions` says which are meant.
        turn, variances_s2: by position, as in `Inventory` and `Estimates`.
        borders: what keeps units together, widest first.
        overheads: of this pool's shards.
        marked: units that the suite itself keeps together.
        homes: by position, the number of the shard in which the base's plan has it.
        base_keys: of the shards that the base's plan has for this work.
        suspicions: units that may have killed shards.
    """

    pool: str
    budget_bytes: int | None
    processes: int
    units: Sequence[PlannedUnit]
    positions: Sequence[int]
    turn: Sequence[int]
    variances_s2: Sequence[float]
    speed_spread: float
    borders: Sequence[Border]
    suites: Mapping[str, Suite]
    overheads: Overheads = NO_OVERHEADS
    marked: Sequence[tuple[int, ...]] = ()
    homes: Mapping[int, int] = field(default_factory=dict)
    base_keys: tuple[str, ...] = ()
    suspicions: Sequence[Suspicion] = ()
    concurrency: int | None = None

    @cached_property
    def walls_s(self) -> tuple[float, ...]:
        """What each unit costs a shard, by position, of the whole inventory."""
        if not self.overheads.between_s:
            return tuple(unit.wall_s for unit in self.units)
        by_suite = {name: self.overheads.gap_s(name, self.pool) for name in self.suites}
        return tuple(unit.wall_s + by_suite[unit.suite] for unit in self.units)

    @cached_property
    def setups_s(self) -> tuple[float, ...] | None:
        """By position, what the fixtures that its file shares take once; None where none do."""
        by_file = self.overheads.setup_s
        if not any(by_file):
            return None
        return tuple(by_file[file] if file >= 0 else 0.0 for file in self.overheads.file)

    @cached_property
    def total_s(self) -> float:
        """Sum over its units, and over what their files set up once."""
        return self.takes_s(self.positions)

    @cached_property
    def floor(self) -> int:
        """The unit that no number of shards can go below; ties go to the first key."""
        process_s = {name: beside_s(suite) for name, suite in self.suites.items()}

        def beyond_leg_s(position: int) -> float:  # which is the same for all
            setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
            return process_s[self.units[position].suite] + self.walls_s[position] + setup_s

        return max(sorted(self.positions), key=beyond_leg_s)

    @cached_property
    def leg(self) -> LegCost:
        """What each of its shards takes beside its processes."""
        return self.overheads.leg(self.pool)

    @cached_property
    def least_process_s(self) -> float:
        """What any process takes beside its units."""
        names = {self.units[position].suite for position in self.positions}
        return min(beside_s(self.suites[name]) for name in names)

    def takes_s(self, positions: Iterable[int]) -> float:
        """What units take in one process together, once it has started."""
        members = list(positions)
        walls_s = [self.walls_s[position] for position in members]
        if self.setups_s is not None:
            first = {self.overheads.file[position]: position for position in members}
            walls_s += [self.setups_s[position] for position in first.values()]
        return math.fsum(walls_s)

    @cached_property
    def solid_s(self) -> float:
        """What the longest group that the suite keeps together takes by itself."""
        return max(
            (self.takes_s(one) / self.processes + self.least_shard_s for one in self.marked),
            default=0.0,
        )

    @property
    def least_shard_s(self) -> float:
        """What any shard takes beside its units."""
        return self.leg.both_s + self.least_process_s

    @cached_property
    def pieces(self) -> int:
        """Shards that can be filled without dividing what the suite keeps together."""
        return len(self.positions) - sum(len(one) - 1 for one in self.marked)

    def processes_s(self, positions: Iterable[int]) -> list[float]:
        """What a process of each of these units' suites and variants takes beside its units."""
        units = map(self.units.__getitem__, positions)
        ways = {(unit.suite, unit.variant) for unit in units}  # its key would be made for each
        return sorted(beside_s(self.suites[suite]) for suite, _ in ways)

    def alone_s(self, position: int) -> float:
        """What a shard of this unit alone takes: with its fixtures, its process, and the leg."""
        setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
        process_s = beside_s(self.suites[self.units[position].suite])
        return math.fsum((self.leg.both_s, process_s, self.walls_s[position], setup_s))

    def bound_s(self, shard_count: int) -> float:
        """The least wall time that this many shards can have."""
        slots = shard_count * self.processes
        floor_s = self.alone_s(self.floor)
        return lower_bound_s(self.total_s, floor_s, slots, setup_s=self.least_shard_s)


def beside_s(suite: Suite) -> float:
    """What a process of the suite takes beside its units."""
    return suite.setup_s + suite.teardown_s


@dataclass(frozen=True, slots=True)
class Distribution:
    """One pool's shards, still without keys; `split` are first units of groups over several."""

    shards: tuple[Shard, ...]
    spreads: tuple[Spread, ...]
    bound_s: float
    split: tuple[int, ...]
    stopped_by: str = ""

    @property
    def makespan_s(self) -> float:
        """Wall time of the longest shard, as predicted."""
        return max(shard.predicted.wall_s for shard in self.shards)

    def is_within(self, deadline_s: float, risk: float) -> bool:
        """Say whether all shards keep the deadline but for this risk."""
        walls_s = [shard.predicted.wall_s for shard in self.shards]
        return chance_over(deadline_s, walls_s, self.spreads) <= risk


def distributed(work: Work, shard_count: int, enough_s: float = 0.0) -> Distribution:
    """Pack into exactly this many shards, or one a unit where there are fewer units.

    Args:
        enough_s: wall time of a shard for which no group need be divided.
    """
    count = min(shard_count, len(work.positions))
    groups, packed = packing(work, count, work.homes, enough_s)
    made = [_shard(work, members) for members in packed]
    return Distribution(
        tuple(shard for shard, _ in made),
        tuple(spread for _, spread in made),
        work.bound_s(count),
        scattered(groups, packed),
    )


def packing(
    work: Work, count: int, homes: Mapping[int, int], enough_s: float = 0.0
) -> tuple[tuple[Group, ...], tuple[tuple[int, ...], ...]]:
    """Groups, and the units of each shard: suspects in their places, then what the base has.

    Args:
        count: of shards, at most as many as there are units.
    """
    marked = work.marked if count <= work.pieces else ()  # else they are divided anyway
    own, spread = placed(
        work.suspicions, work.positions, count, marked=marked, walls_s=work.walls_s
    )
    apart = {unit for members in (*own, *spread) for unit in members}
    rest = [position for position in work.positions if position not in apart]
    at_least = sum(not members for members in spread)
    border, inner = (*work.borders, None, None)[:2]
    costs = Costs(work.walls_s, work.setups_s if border else None)
    groups = grouped(costs, border, at_least, rest, marked=work.marked)
    begun = [Begun(work.takes_s(members), members) for members in spread]
    if border is None:
        packed = dealt(groups, begun, costs)
    else:
        beside_tests_s = work.leg.both_s + math.fsum(work.processes_s(work.positions))
        enough_load_s = (enough_s - beside_tests_s) * work.processes
        packed = evenly(groups, begun, costs, inner, enough_load_s)
    if homes:
        packed = kept(groups, homes, packed, costs, work.borders)
    shards = [
        tuple(sorted((*one.members, *more)))
        for one, more in zip(packed.begun, packed.shards, strict=True)
    ]
    return packed.groups, (*shards, *own)


def _shard(work: Work, members: Sequence[int]) -> tuple[Shard, Spread]:
    ordered = sorted(members, key=work.turn.__getitem__)
    units = tuple(work.units[member] for member in ordered)
    processes = min(work.processes, len(units))
    shard = Shard(
        key="",
        pool=work.pool,
        units=units,
        predicted=_UNPREDICTED,
        processes=processes,
        budget_bytes=work.budget_bytes,
    )
    expected = course(
        shard, work.suites, lambda taken: work.takes_s(ordered[unit] for unit in taken)
    )
    variance_s2 = math.fsum(work.variances_s2[member] for member in members)
    spread = Spread(variance_s2, processes, work.speed_spread, work.leg.spread_s)
    wall_s = round(work.leg.both_s + expected.wall_s, DIGITS)
    measured = any(unit.peak_delta_bytes is not None for unit in units)
    prediction = Prediction(
        wall_s=wall_s,
        wall_p95_s=round(spread.p95_s(wall_s), DIGITS),
        peak_bytes=expected.peak_bytes if measured else None,
    )
    return replace(shard, predicted=prediction), spread


def even(work: Work, shard_count: int) -> Distribution:
    """Exactly `shard_count` shards as equal as can be."""
    found = distributed(work, shard_count)
    return replace(found, stopped_by="so many were asked for")


def outlined_s(work: Work, shard_count: int) -> list[float]:
    """Wall times of so many shards, by sums: memory and the order of processes are left out."""
    count = min(shard_count, len(work.positions))
    _, packed = packing(work, count, {})
    found = []
    for members in packed:
        slots = min(work.processes, len(members))
        longest_s = max(work.alone_s(member) for member in members) if slots > 1 else 0.0
        starts_s = work.processes_s(members)
        starts_s += [starts_s[0]] * (slots - len(starts_s))  # each place has at least one process
        wall_s = work.leg.both_s + (work.takes_s(members) + math.fsum(starts_s)) / slots
        found.append(max(wall_s, longest_s))
    return found


def fitting(
    work: Work, target_wall_s: float, deadline_s: float, risk: float, most: int
) -> Distribution:
    """The smallest number of shards that keeps the target and the limit.

    A target or limit that the floor unit alone breaks, or a group that the suite keeps together,
    cannot be kept by any number: then the number is the smallest that gets down to it, but for 1 %.

    Jobs beyond the pool's concurrency cap wait for others, so that they can only serve the limit.
    The base's number is taken where it does as well and is at most a tenth larger.

    Args:
        risk: P(any shard passes `deadline_s`) that is accepted.
        most: shards allowed.
    """
    floor = work.floor
    alone = Spread(work.variances_s2[floor], 1, work.speed_spread, work.leg.spread_s)
    floor_s = work.alone_s(floor)
    least_s = max(floor_s, work.solid_s)
    # Where the target cannot be kept, the last 1 % is not worth a shard.
    aim_s = target_wall_s if least_s <= target_wall_s else least_s / WORTH_RATIO
    aim_s *= 1 + ROUNDING
    most = min(most, work.pieces)
    cap = most if work.concurrency is None else work.concurrency
    least = next((count for count in range(1, most) if work.bound_s(count) <= aim_s), most)
    least = min(least, max(cap, 1))
    can_keep = chance_over(deadline_s, [floor_s], [alone]) <= risk
    room = limit_of(risk, [aim_s], [Spread(0.0, 1, work.speed_spread)]) / aim_s
    best: Distribution | None = None
    for count in _counts(least, most, len(work.base_keys)):
        # On the slowest machine that the risk leaves, a shard may have no more than this.
        enough_s = min(aim_s, deadline_s / room) if can_keep else aim_s
        found = distributed(work, count, enough_s)
        is_short = found.makespan_s <= aim_s
        if (is_short or count >= cap) and (not can_keep or found.is_within(deadline_s, risk)):
            return replace(found, stopped_by=_reason(work, found, target_wall_s))
        if best is None or found.makespan_s < WORTH_RATIO * best.makespan_s:
            best = found
    assert best is not None  # least <= most
    return replace(best, stopped_by="more would save nothing")


def _counts(least: int, most: int, base: int) -> Iterator[int]:
    if least < base <= min(most, math.ceil(NEAR_RATIO * least)):
        yield base
    yield from range(least, most + 1)


def _reason(work: Work, found: Distribution, target_wall_s: float) -> str:
    if found.makespan_s <= target_wall_s * (1 + ROUNDING):
        return f"they keep {duration(target_wall_s)}"
    if work.alone_s(work.floor) >= found.makespan_s * FLOOR_RATIO:
        return "the floor unit alone takes as long"
    if work.solid_s >= found.makespan_s * FLOOR_RATIO:
        return "a group that the suite keeps together takes as long"
    if work.concurrency is None:
        is_most = len(found.shards) >= MOST_SHARDS
        return "a matrix has no more jobs" if is_most else "there is nothing more to divide"
    return f"pool {work.pool} runs {work.concurrency} jobs at once"


def apportioned(loads_s: Sequence[float], most: Sequence[int], count: int) -> tuple[int, ...]:
    """Divide a number of shards over pools, each at least one, the next to the most loaded.

    Args:
        loads_s: what each pool has to do.
        most: units of each pool, >= 1: more shards than that would be empty.
        count: >= the number of pools.

    Returns:
        Shards by pool; their sum is `count`, or less where there are too few units.
    """
    found = [1] * len(loads_s)
    for _ in range(count - len(found)):
        open_ = [pool for pool in range(len(found)) if found[pool] < most[pool]]
        if not open_:
            break
        # The second number: without any load, the pool with the most units.
        busiest = max(
            open_, key=lambda pool: (loads_s[pool] / found[pool], most[pool] / found[pool], -pool)
        )
        found[busiest] += 1
    return tuple(found)
