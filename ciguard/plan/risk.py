"""The probability that a shard exceeds its deadline, and the tests that exceed its memory. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.run.policy.state import UNKNOWN_BASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.model import PlannedUnit, Pool, Shard, Suite

# Real recordings planned and compared with the next run (9 suites, 49 runs): apart from the common
# speed, a shard is off by 0.35 of what its units' variances add up to, and by 2 % anyway. Of 0.25
# to 0.7 that is where stated and observed risks are nearest (`benchmarks/plan_risk.py`).
RESIDUAL_RATIO: Final = 0.35
MIN_RATIO: Final = 0.02
MIN_S: Final = 1e-6
PRECISION: Final = 1e-3
T95: Final = 2.3534  # the t's 95 % point

_NORMAL: Final = NormalDist()
Z95: Final = _NORMAL.inv_cdf(0.95)
# The integral over the common speed, by the trapezoidal rule: to 1 % of a risk of .001, where a
# Gauss-Hermite rule of 41 points is off by 30 %, as the chance is nearly a step.
_SPEEDS: Final = np.linspace(-6, 6, 121)
_WEIGHTS: Final = np.exp(-(_SPEEDS**2) / 2) / np.exp(-(_SPEEDS**2) / 2).sum()


@dataclass(frozen=True, slots=True)
class WallTimeSpread:
    """How far a shard's wall time may be off.

    Units vary by themselves, so that their variances add up; the machine slows all of them by one
    log-normal factor.

    Attributes:
        variance_s2: sum over the units of the shard.
        slots: processes side by side; each has its part of the variance.
        speed_spread: standard deviation of the logarithm of the runs' common speed.
        overhead_spread_s: scale of what the leg takes besides its tests.
    """

    variance_s2: float
    slots: int
    speed_spread: float
    overhead_spread_s: float = 0.0

    def residual_s(self, wall_s: float) -> float:
        """Scale of what is the shard's own, apart from the common speed."""
        return math.hypot(
            RESIDUAL_RATIO * math.sqrt(self.variance_s2 / self.slots),
            MIN_RATIO * wall_s,
            self.overhead_spread_s,
        )

    def p95_s(self, wall_s: float) -> float:
        """What 19 runs of 20 keep; both reasons as if they were normal, to 2 % of the time."""
        slow_s = wall_s * (math.exp(Z95 * self.speed_spread) - 1)
        return wall_s + math.hypot(T95 * self.residual_s(wall_s), slow_s)


def overrun_probability(
    limit_s: float, walls_s: Sequence[float], spreads: Sequence[WallTimeSpread]
) -> float:
    """P(at least one shard takes longer than the limit).

    One speed for all shards of a run, drawn from a log-normal; apart from it, each shard is off by
    itself, with the heavy tails of Student's t with 3 degrees of freedom: rarely one test takes a
    minute that it never took. Fitted in `benchmarks/plan_risk.py`.

    Args:
        walls_s: expected, by shard; not empty.

    Returns:
        0..1, falling with the limit. O(shards).
    """
    own_s = [one.residual_s(wall_s) for one, wall_s in zip(spreads, walls_s, strict=True)]
    speeds = np.exp(np.multiply.outer(_SPEEDS, max(one.speed_spread for one in spreads)))
    off = (limit_s / speeds[:, None] - np.array(walls_s)) / np.maximum(own_s, MIN_S)
    within_limit = np.prod(student_t3(off), axis=1)
    return float(_WEIGHTS @ (1 - within_limit))


def student_t3(off: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution function of Student's t with 3 degrees of freedom, which has a closed form."""
    scaled = off / math.sqrt(3)
    found: NDArray[np.float64] = 0.5 + (scaled / (1 + scaled**2) + np.arctan(scaled)) / math.pi
    return found


def limit_for_risk(
    risk: float, walls_s: Sequence[float], spreads: Sequence[WallTimeSpread]
) -> float:
    """The least limit that all shards keep but for this risk, to a thousandth."""
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
    """What a pool's machine leaves to the tests; None where its memory is unknown."""
    if pool.memory_bytes is None:
        return None
    return max(1, pool.memory_bytes - pool.reserve_bytes)


def needed_bytes(unit: PlannedUnit, suites: Mapping[str, Suite]) -> int | None:
    """What a unit needs alone in a fresh process; None where its memory was never measured."""
    if unit.peak_delta_bytes is None:
        return None
    base = suites[unit.suite].base_bytes
    return (UNKNOWN_BASE_BYTES if base is None else base) + unit.peak_delta_bytes


def over_budget(shard: Shard, suites: Mapping[str, Suite]) -> Iterator[tuple[str, int]]:
    """Units that pass the budget alone in a fresh process, with what they need."""
    for unit in shard.units if shard.budget_bytes is not None else ():
        need = needed_bytes(unit, suites)
        if need is not None and shard.budget_bytes is not None and need > shard.budget_bytes:
            yield unit.unit, need
