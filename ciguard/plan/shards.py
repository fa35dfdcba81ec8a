"""How many shards one pool needs, and what is in each: packed, simulated, until it fits. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ciguard.model import Prediction, Shard
from ciguard.plan.limits import Z95, Spread, z_of_each
from ciguard.plan.packing import grouped, longest_first, lower_bound_s, scattered
from ciguard.plan.simulate import course

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import PlannedUnit, Suite
    from ciguard.plan.packing import Border

MOST_SHARDS: Final = 256  # jobs that GitHub lets a matrix have
DIGITS: Final = 6
ROUNDING: Final = 1e-9  # of sums of the same numbers in another order
_UNPREDICTED: Final = Prediction(0.0, 0.0)
WORTH_RATIO: Final = 0.99  # more shards that do not save 1 % of the wall time save nothing


@dataclass(frozen=True)  # no slots: what many shard counts ask for is summed once
class Work:
    """What is to be done in one pool.

    Attributes:
        units: of the whole inventory, by key; `positions` says which are meant.
        turn, variances_s2: by position, as in `Inventory` and `Estimates`.
        borders: what keeps units together, widest first.
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

    @cached_property
    def walls_s(self) -> tuple[float, ...]:
        """Estimates by position, of the whole inventory."""
        return tuple(unit.wall_s for unit in self.units)

    @cached_property
    def total_s(self) -> float:
        """Sum over its units."""
        return math.fsum(self.walls_s[position] for position in self.positions)

    @cached_property
    def floor(self) -> int:
        """The unit that no number of shards can go below; ties go to the first key."""
        return max(self.positions, key=lambda position: (self.alone_s(position), -position))

    @cached_property
    def least_setup_s(self) -> float:
        """What any process needs before its first unit."""
        names = {self.units[position].suite for position in self.positions}
        return min(self.suites[name].setup_s for name in names)

    def alone_s(self, position: int) -> float:
        """What a unit takes by itself, with what its process needs first."""
        return self.walls_s[position] + self.suites[self.units[position].suite].setup_s

    def bound_s(self, shard_count: int) -> float:
        """The least wall time that this many shards can have."""
        slots = shard_count * self.processes
        return lower_bound_s(
            self.total_s, self.alone_s(self.floor), slots, setup_s=self.least_setup_s
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """One pool's shards, still without keys; `split` are first units of groups over several."""

    shards: tuple[Shard, ...]
    spreads: tuple[Spread, ...]
    bound_s: float
    split: tuple[int, ...]

    @property
    def makespan_s(self) -> float:
        """Wall time of the longest shard, as predicted."""
        return max(shard.predicted.wall_s for shard in self.shards)

    def is_within(self, deadline_s: float, z: float) -> bool:
        """Say whether each shard keeps the deadline at `z` standard deviations."""
        return all(
            spread.at(shard.predicted.wall_s, z) <= deadline_s
            for shard, spread in zip(self.shards, self.spreads, strict=True)
        )


def distributed(work: Work, shard_count: int, target_s: float) -> Distribution:
    """Pack into exactly this many shards, or one a unit where there are fewer units.

    Args:
        target_s: load wanted for a shard; groups over half of it are split.
    """
    count = min(shard_count, len(work.positions))
    groups = grouped(work.walls_s, work.borders, target_s, count, work.positions)
    packed = longest_first(groups, count)
    made = [_shard(work, members) for members in packed]
    return Distribution(
        tuple(shard for shard, _ in made),
        tuple(spread for _, spread in made),
        work.bound_s(count),
        scattered(groups, packed),
    )


def _shard(work: Work, members: Sequence[int]) -> tuple[Shard, Spread]:
    units = tuple(work.units[member] for member in sorted(members, key=work.turn.__getitem__))
    processes = min(work.processes, len(units))
    shard = Shard(
        key="",
        pool=work.pool,
        units=units,
        predicted=_UNPREDICTED,
        processes=processes,
        budget_bytes=work.budget_bytes,
    )
    expected = course(shard, work.suites)
    variance_s2 = math.fsum(work.variances_s2[member] for member in members)
    spread = Spread(variance_s2, processes, work.speed_spread)
    wall_s = round(expected.wall_s, DIGITS)
    measured = any(unit.peak_delta_bytes is not None for unit in units)
    prediction = Prediction(
        wall_s=wall_s,
        wall_p95_s=round(spread.at(wall_s, Z95), DIGITS),
        peak_bytes=expected.peak_bytes if measured else None,
    )
    return replace(shard, predicted=prediction), spread


def even(work: Work, shard_count: int) -> Distribution:
    """Exactly `shard_count` shards as equal as can be."""
    return distributed(work, shard_count, work.total_s / shard_count or 1.0)


def fitting(
    work: Work, target_wall_s: float, deadline_s: float, risk: float, most: int
) -> Distribution:
    """The smallest number of shards that keeps the target and the limit.

    A target or limit that the floor unit alone breaks cannot be kept by any number: then the
    number is the smallest that gets down to the floor.

    Args:
        risk: P(any shard passes `deadline_s`) that is accepted.
        most: shards allowed.
    """
    floor = work.floor
    alone = Spread(work.variances_s2[floor], 1, work.speed_spread)
    aim_s = max(target_wall_s, work.alone_s(floor)) * (1 + ROUNDING)
    most = min(most, len(work.positions))
    least = next((count for count in range(1, most) if work.bound_s(count) <= aim_s), most)
    best: Distribution | None = None
    for count in range(least, most + 1):
        z = z_of_each(risk, count)
        can_keep = alone.at(work.alone_s(floor), z) <= deadline_s
        # On the slowest machine that the risk leaves, a shard may have no more than this.
        load_s = min(aim_s, deadline_s / alone.slowness(z)) if can_keep else aim_s
        # Where the target is out of reach, files are not split for it either.
        target_s = max(load_s * work.processes, work.total_s / count)
        found = distributed(work, count, target_s)
        if found.makespan_s <= aim_s and (not can_keep or found.is_within(deadline_s, z)):
            return found
        if best is None or found.makespan_s < WORTH_RATIO * best.makespan_s:
            best = found
    assert best is not None  # least <= most
    return best


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
