"""A shard's limits: minutes of its step and job, its own deadline, its memory; and who breaks them.

The leg stops itself before the platform does, so its deadline is what predictions are held against.
Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from ciguard.run.state import UNKNOWN_BASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.model import Pool, Shard, Suite

MINUTE_S: Final = 60
CLOSING_S: Final = 90.0  # what a leg needs to stop its processes and flush before its step ends
SHORT_S: Final = 180.0  # of so short a step 90 s would be half: there it is a fifth
SHORT_RATIO: Final = 0.8
NAMED_UNITS: Final = 3

_NORMAL: Final = NormalDist()
Z95: Final = _NORMAL.inv_cdf(0.95)


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of every shard's step and job, in GitHub's whole minutes, and the leg's own."""

    step_minutes: int
    job_minutes: int
    deadline_s: float


def limit(limit_s: float, setup_s: float) -> Limit:
    """What the platform is told, and when the leg stops itself.

    Args:
        limit_s: of the step, > 0. The leg keeps it to the second; the platform, which only takes
            whole minutes, is told the next one.
        setup_s: the rest of the job, >= 0; rounded up.
    """
    step = max(1, math.ceil(limit_s / MINUTE_S))
    deadline_s = max(SHORT_RATIO * min(limit_s, SHORT_S), limit_s - CLOSING_S)
    return Limit(step, step + max(1, math.ceil(setup_s / MINUTE_S)), deadline_s)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a shard's wall time may be off; a first form.

    Units vary by themselves, so that their variances add up, and the machine slows all of them by
    one log-normal factor.

    Attributes:
        variance_s2: sum over the units of the shard.
        slots: processes side by side; each has its part of the variance.
        speed_spread: standard deviation of the logarithm of the machine's speed.
    """

    variance_s2: float
    slots: int
    speed_spread: float

    def slowness(self, z: float) -> float:
        """What a machine at `z` standard deviations multiplies all times by."""
        return math.exp(z * self.speed_spread)

    def at(self, wall_s: float, z: float) -> float:
        """Wall time at `z` standard deviations, of the units and of the machine at once."""
        return (wall_s + z * math.sqrt(self.variance_s2 / self.slots)) * self.slowness(z)


def z_of_each(risk: float, shard_count: int) -> float:
    """Standard deviations that keep P(any of the shards is over) <= `risk`.

    Each shard gets its equal part of the risk (Bonferroni): no assumption about how machines of one
    run go together.
    """
    return _NORMAL.inv_cdf(1 - risk / shard_count)


def budget_bytes(pool: Pool) -> int | None:
    """What a pool's machine leaves to the tests; None where nobody knows its memory."""
    if pool.memory_bytes is None:
        return None
    return max(1, pool.memory_bytes - pool.reserve_bytes)


def too_large(shard: Shard, suites: Mapping[str, Suite]) -> Iterator[tuple[str, int]]:
    """Units that pass the budget alone in a fresh process, with what they need."""
    if shard.budget_bytes is None:
        return
    for unit in shard.units:
        if unit.peak_delta_bytes is None:
            continue
        base = suites[unit.suite].base_bytes
        need = (UNKNOWN_BASE_BYTES if base is None else base) + unit.peak_delta_bytes
        if need > shard.budget_bytes:
            yield unit.unit, need
