"""The probability that a leg needs more memory than its budget. Pure.

The leg's own rules are simulated. Whenever a unit starts, what all running processes hold then is
one *moment*: bytes that are expected, and how far these may be off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ciguard.model import LegPolicy, Shard, Suite, UnitKey
from ciguard.plan.risk import student_t3
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.plan.estimates import Estimates
    from ciguard.run.policy.actions import Start

    Floats = NDArray[np.float64]

# A peak is off by this share of its standard deviation over recent runs, and by 2 % anyway, with
# the tails of Student's t with 3 degrees of freedom. Of 0.6 to 1 that is where stated and observed
# risks are nearest, of real peaks and of normal noise (`benchmarks/plan_memory_risk.py`, tests).
RESIDUAL_RATIO: Final = 0.8
MIN_RATIO: Final = 0.02
# What a leg does to survive is not what is asked.
_UNSTOPPED: Final = LegPolicy(guard_rail="off", deadline_s=None)


@dataclass(frozen=True, slots=True, eq=False)
class UnitMemory:
    """What units are expected to need above their process, and how far that may be off.

    One value a unit; `retained_bytes` is NaN where not measured.
    """

    peak_bytes: Floats
    peak_variance: Floats
    retained_bytes: Floats
    retained_variance: Floats

    def take(self, units: Sequence[int]) -> UnitMemory:
        """Some of the units, by position."""
        places = np.array(units, np.int64)
        columns = (self.peak_bytes, self.peak_variance, self.retained_bytes, self.retained_variance)
        return UnitMemory(*(column[places] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What the processes of a leg hold whenever a unit starts.

    Attributes:
        held_bytes: expected.
        variance: of the peaks and of what was retained before.
        largest: number of the unit that holds most then.
    """

    held_bytes: Floats
    variance: Floats
    largest: NDArray[np.int64]


class _Step(NamedTuple):
    """One unit in its process: when it starts and ends, and what the process holds meanwhile."""

    begin_s: float
    unit: int
    end_s: float
    held_bytes: float
    variance: float


def moments_of_leg(shard: Shard, suites: Mapping[str, Suite], memory: UnitMemory) -> Moments:
    """Run the shard on paper and look at it whenever a unit starts.

    Args:
        memory: of the shard's units, in their order.

    Returns:
        One moment for each unit. O(units x processes).
    """
    parts: list[Moments] = []
    steps: list[_Step] = []
    for start, begin_s in _starts(shard, suites):
        one = memory.take(start.units)
        base_bytes = suites[start.suite].base_bytes
        before = np.cumsum(np.fmax(one.retained_bytes, 0.0))[:-1]
        held = one.peak_bytes + (UNKNOWN_BASE_BYTES if base_bytes is None else base_bytes)
        held[1:] += before
        variance = one.peak_variance.copy()
        variance[1:] += np.cumsum(one.retained_variance)[:-1]
        parts.append(Moments(held, variance, np.array(start.units, np.int64)))
        if shard.processes > 1:
            steps += _steps(shard, begin_s + suites[start.suite].setup_s, parts[-1])
    return _side_by_side(steps) if shard.processes > 1 else _joined(parts)


def _starts(shard: Shard, suites: Mapping[str, Suite]) -> Iterator[tuple[Start, float]]:
    """Every process, and when it starts."""

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        units_s = math.fsum(shard.units[unit].wall_s for unit in start.units)
        return suite.setup_s + units_s + suite.teardown_s

    for start, end_s in simulate(State(shard, suites, _UNSTOPPED), length_s):
        yield start, end_s - length_s(start)


def _steps(shard: Shard, begin_s: float, process: Moments) -> Iterator[_Step]:
    columns = (process.largest, process.held_bytes, process.variance)
    for unit, held_bytes, variance in zip(*(one.tolist() for one in columns), strict=True):
        end_s = begin_s + shard.units[unit].wall_s
        yield _Step(begin_s, unit, end_s, held_bytes, variance)
        begin_s = end_s


def _side_by_side(steps: Iterable[_Step]) -> Moments:
    held, variance, largest = [], [], []
    running: list[_Step] = []
    for step in sorted(steps):
        running = [one for one in running if one.end_s > step.begin_s]
        running.append(step)
        held.append(sum(one.held_bytes for one in running))
        variance.append(sum(one.variance for one in running))
        largest.append(max(running, key=lambda one: (one.held_bytes, -one.unit)).unit)
    return Moments(np.array(held), np.array(variance), np.array(largest, np.int64))


def _joined(parts: Sequence[Moments]) -> Moments:
    names = ("held_bytes", "variance", "largest")
    return Moments(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def leg_overrun_probability(budget_bytes: float, leg: Moments) -> float:
    """P(the leg holds more than the budget at any moment).

    Moments with the same largest unit are one chance, the worst of them; the others are taken to be
    independent. 0..1, falling with the budget. O(moments).
    """
    if not leg.held_bytes.size:
        return 0.0
    scale = np.hypot(RESIDUAL_RATIO * np.sqrt(leg.variance), MIN_RATIO * leg.held_bytes)
    over = 1 - student_t3((budget_bytes - leg.held_bytes) / np.maximum(scale, 1.0))
    worst = np.zeros(int(leg.largest.max()) + 1)
    np.maximum.at(worst, leg.largest, over)
    return float(1 - np.prod(1 - worst))


def plan_memory_risk(
    shards: Sequence[Shard],
    suites: Mapping[str, Suite],
    keys: Sequence[UnitKey],
    estimates: Estimates,
) -> float | None:
    """P(any shard holds more than its budget); None where no memory or budget is known.

    Args:
        keys: of the inventory, which `estimates` are for.
    """
    spread = estimates.memory_spread
    limited = [one for one in shards if one.budget_bytes and one.predicted.peak_bytes is not None]
    if spread is None or not limited:
        return None
    position = {key: place for place, key in enumerate(keys)}
    memory = UnitMemory(
        *(spread.peak_bytes, spread.peak_variance),
        *(estimates.retained_bytes, spread.retained_variance),
    )
    legs = (
        moments_of_leg(shard, suites, memory.take([position[unit.key] for unit in shard.units]))
        for shard in limited
    )
    return any_overrun_probability((shard.budget_bytes or math.inf for shard in limited), legs)


def any_overrun_probability(budgets: Iterable[float], legs: Iterable[Moments]) -> float:
    """P(any leg holds more than its budget)."""
    pairs = zip(budgets, legs, strict=True)
    return 1 - math.prod(1 - leg_overrun_probability(size, leg) for size, leg in pairs)
