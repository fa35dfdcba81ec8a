"""Probabilities that a shard exceeds its deadline or its memory, and units that exceed them. Pure.

For memory, the rules of a leg are simulated. Whenever a unit starts, the memory that all running
processes hold is one *moment*: expected bytes and their variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from ciguard.codec.columns import Floats, Integers
from ciguard.model import PlannedUnit, Pool, Shard, Suite
from ciguard.run.policy.simulate import simulate_processes
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES

# Fitted on plans of real recordings, compared with the next run (9 suites, 49 runs). Apart from the
# common speed, a shard deviates by 0.35 of the root of its units' summed variances, and by 2 %.
# From 0.25 to 0.7, stated and observed risks agree best with 0.35 (benchmarks/plan_risk.py).
RESIDUAL_RATIO: Final = 0.35
MIN_RATIO: Final = 0.02
MIN_S: Final = 1e-6
PRECISION: Final = 1e-3
T95: Final = 2.3534  # the t's 95 % point

_NORMAL: Final = NormalDist()
Z95: Final = _NORMAL.inv_cdf(0.95)
# The integral over the common speed by the trapezoidal rule is exact to 1 % at a risk of .001. A
# Gauss-Hermite rule of 41 points is off by 30 %, because the integrand is nearly a step.
_SPEEDS: Final = np.linspace(-6, 6, 121)
_WEIGHTS: Final = np.exp(-(_SPEEDS**2) / 2) / np.exp(-(_SPEEDS**2) / 2).sum()

# A peak deviates by this share of its standard deviation over recent runs, with the tails of
# Student's t with 3 degrees of freedom. From 0.6 to 1, stated and observed risks agree best with
# 0.8, for real peaks of a cluster and for normal noise.
MEMORY_RESIDUAL_RATIO: Final = 0.8


@dataclass(frozen=True, slots=True)
class WallTimeSpread:
    """Uncertainty of a shard's wall time.

    Units vary independently, so that their variances add up. The machine slows all units by one
    log-normal factor.

    Attributes:
        variance_s2: sum over the units of the shard.
        slots: concurrent processes; each has its part of the variance.
        speed_spread: standard deviation of the logarithm of the runs' common speed.
        overhead_spread_s: scale of the leg's time besides its tests.
    """

    variance_s2: float
    slots: int
    speed_spread: float
    overhead_spread_s: float = 0.0

    def residual_s(self, wall_s: float) -> float:
        """Return the scale of the shard's own deviation, apart from the common speed."""
        return math.hypot(
            RESIDUAL_RATIO * math.sqrt(self.variance_s2 / self.slots),
            MIN_RATIO * wall_s,
            self.overhead_spread_s,
        )

    def p95_s(self, wall_s: float) -> float:
        """Return the time that 19 of 20 runs do not exceed, to 2 %, by normal distributions."""
        slow_s = wall_s * (math.exp(Z95 * self.speed_spread) - 1)
        return wall_s + math.hypot(T95 * self.residual_s(wall_s), slow_s)


def overrun_probability(
    limit_s: float, walls_s: Sequence[float], spreads: Sequence[WallTimeSpread]
) -> float:
    """Return P(at least one shard takes longer than the limit).

    All shards of a run share one speed, drawn from a log-normal distribution. Apart from the speed,
    each shard deviates independently, with the heavy tails of Student's t with 3 degrees of
    freedom: rarely a test takes a minute longer than ever before. Fitted in
    `benchmarks/plan_risk.py`.

    Args:
        walls_s: expected times, by shard; not empty.

    Returns:
        0..1, falling with the limit. O(shards).
    """
    own_s = [spread.residual_s(wall_s) for spread, wall_s in zip(spreads, walls_s, strict=True)]
    speeds = np.exp(np.multiply.outer(_SPEEDS, max(spread.speed_spread for spread in spreads)))
    deviations = (limit_s / speeds[:, None] - np.array(walls_s)) / np.maximum(own_s, MIN_S)
    within_limit = np.prod(student_t3(deviations), axis=1)
    return float(_WEIGHTS @ (1 - within_limit))


def student_t3(off: Floats) -> Floats:
    """Return the distribution function of Student's t with 3 degrees of freedom (closed form)."""
    scaled = off / math.sqrt(3)
    p: Floats = 0.5 + (scaled / (1 + scaled**2) + np.arctan(scaled)) / math.pi
    return p


def limit_for_risk(
    risk: float, walls_s: Sequence[float], spreads: Sequence[WallTimeSpread]
) -> float:
    """Return the smallest limit that all shards meet with this risk, to a thousandth."""
    low_s, high_s = 0.0, max(walls_s) or MIN_S
    while overrun_probability(high_s, walls_s, spreads) > risk:
        low_s, high_s = high_s, 2 * high_s
    while high_s - low_s > PRECISION * high_s:
        middle_s = (low_s + high_s) / 2
        if overrun_probability(middle_s, walls_s, spreads) > risk:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s


def budget_bytes(pool: Pool) -> int | None:
    """Return the memory of a pool's machine for tests; None if unknown."""
    if pool.memory_bytes is None:
        return None
    return max(1, pool.memory_bytes - pool.reserve_bytes)  # the reserve may exceed the machine


def needed_bytes(unit: PlannedUnit, suites: Mapping[str, Suite]) -> int | None:
    """Return the memory of a unit alone in a new process; None if the unit was never measured."""
    if unit.peak_delta_bytes is None:
        return None
    base = suites[unit.suite].base_bytes
    return (UNKNOWN_BASE_BYTES if base is None else base) + unit.peak_delta_bytes


def over_budget(shard: Shard, suites: Mapping[str, Suite]) -> Iterator[tuple[str, int]]:
    """Yield units that exceed the budget alone in a new process, with their memory."""
    if shard.budget_bytes is None:
        return
    for unit in shard.units:
        need_bytes = needed_bytes(unit, suites) or 0
        if need_bytes > shard.budget_bytes:
            yield unit.unit, need_bytes


@dataclass(frozen=True, slots=True, eq=False)
class UnitMemory:
    """Expected memory of units above that of their process, and the variance of their peaks.

    There is one value for each unit; `retained_bytes` is NaN if not measured.
    """

    peak_bytes: Floats
    peak_variance: Floats
    retained_bytes: Floats

    def take(self, units: Sequence[int]) -> UnitMemory:
        positions = np.array(units, np.int64)
        columns = (self.peak_bytes, self.peak_variance, self.retained_bytes)
        return UnitMemory(*(column[positions] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Memory of the processes of a leg, at each start of a unit.

    Attributes:
        held_bytes: expected memory.
        variance: variance of the peaks.
        largest: number of the unit with the most memory.
        spread: ratio by which the memory of the whole leg varies.
    """

    held_bytes: Floats
    variance: Floats
    largest: Integers
    spread: float = 0.0


class _Step(NamedTuple):
    """One unit in its process: start, end and the memory of the process meanwhile."""

    begin_s: float
    unit: int
    end_s: float
    held_bytes: float
    variance: float


def moments_of_leg(shard: Shard, suites: Mapping[str, Suite], memory: UnitMemory) -> Moments:
    """Simulate the shard and return its memory at each start of a unit.

    Args:
        memory: memory of the shard's units, in their order.

    Returns:
        One moment for each unit. O(units x processes).
    """
    processes: list[Moments] = []
    steps: list[_Step] = []
    for start, begin_s, _ in simulate_processes(shard, suites):
        units = memory.take(start.units)
        base_bytes = suites[start.suite].base_bytes
        retained_before = np.cumsum(np.fmax(units.retained_bytes, 0.0))[:-1]
        held = units.peak_bytes + (UNKNOWN_BASE_BYTES if base_bytes is None else base_bytes)
        held[1:] += retained_before
        processes.append(Moments(held, units.peak_variance, np.array(start.units, np.int64)))
        if shard.processes > 1:
            steps += _steps(shard, begin_s + suites[start.suite].setup_s, processes[-1])
    return _concurrent_moments(steps) if shard.processes > 1 else _concatenate(processes)


def _steps(shard: Shard, begin_s: float, process: Moments) -> Iterator[_Step]:
    columns = (process.largest, process.held_bytes, process.variance)
    for unit, held_bytes, variance in zip(*(column.tolist() for column in columns), strict=True):
        end_s = begin_s + shard.units[unit].wall_s
        yield _Step(begin_s, unit, end_s, held_bytes, variance)
        begin_s = end_s


def _concurrent_moments(steps: Iterable[_Step]) -> Moments:
    held, variance, largest = [], [], []
    running: list[_Step] = []
    for step in sorted(steps):
        running = [other for other in running if other.end_s > step.begin_s]
        running.append(step)
        held.append(sum(other.held_bytes for other in running))
        variance.append(sum(other.variance for other in running))
        largest.append(max(running, key=lambda other: (other.held_bytes, -other.unit)).unit)
    return Moments(np.array(held), np.array(variance), np.array(largest, np.int64))


def _concatenate(parts: Sequence[Moments]) -> Moments:
    held, variance, largest = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("held_bytes", "variance", "largest")
    )
    return Moments(held, variance, largest)


def leg_overrun_probability(budget_bytes: float, leg: Moments) -> float:
    """Return P(the leg holds more than the budget at any moment).

    The leg's `spread` is common to its moments (log-normal). Apart from it, moments deviate by
    their own variances. Only the worst of the moments with the same largest unit counts; moments
    with different largest units count as independent. 0..1, falling with the budget. O(moments).
    """
    if not leg.held_bytes.size:
        return 0.0
    scale = MEMORY_RESIDUAL_RATIO * np.sqrt(leg.variance)
    room = (budget_bytes - leg.held_bytes) / np.maximum(scale, 1.0)
    order = np.lexsort((room, leg.largest))
    worst = order[np.flatnonzero(np.diff(leg.largest[order], prepend=-1))]
    sizes = np.multiply.outer(np.exp(leg.spread * _SPEEDS), leg.held_bytes[worst])
    within = student_t3((budget_bytes - sizes) / np.maximum(scale[worst], 1.0))
    return float(_WEIGHTS @ (1 - np.prod(within, axis=1)))


def any_overrun_probability(budgets: Iterable[float], legs: Iterable[Moments]) -> float:
    """Return P(any leg holds more than its budget)."""
    pairs = zip(budgets, legs, strict=True)
    return 1 - math.prod(1 - leg_overrun_probability(size, leg) for size, leg in pairs)
