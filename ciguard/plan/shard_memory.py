"""The peak memory of shards: simulated, then corrected by what past shards really took. Pure.

A limit acts on all processes of a shard. What no test's own peak contains (children that outlive
their test, caches, modules that only some order of tests imports) shows there. So the plan learns
from measured peak / simulated peak of recent legs of the same suites on the same pool. A leg that
ran the same units counts most: a build or a server beside the tests may be in one shard only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import all_legs, leg_positions
from ciguard.plan.risk import Moments, UnitMemory, any_overrun_probability, moments_of_leg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.history.file import History
    from ciguard.model import Shard, Suite, UnitKey
    from ciguard.plan.estimates import Estimates

    # Pool, and the suites and variants of the shard.
    Kind = tuple[str, frozenset[tuple[str, str]]]

MAX_LEGS: Final = 20  # newest legs of a kind that count
# Weight in legs, and value, of the spread that a kind has before it is measured.
PRIOR_LEGS: Final = 4
PRIOR_SPREAD: Final = 0.05


@dataclass(frozen=True, slots=True)
class Correction:
    """Measured over simulated peak of past shards: mean and spread, of the logarithm."""

    ratio: float = 1.0
    spread: float = PRIOR_SPREAD

    def apply(self, moments: Moments) -> Moments:
        """Return the corrected moments of a shard."""
        held_bytes = self.ratio * moments.held_bytes
        variance = np.square(self.ratio) * moments.variance
        return replace(moments, held_bytes=held_bytes, variance=variance, spread=self.spread)


UNCORRECTED: Final = Correction()


@dataclass(frozen=True, slots=True, eq=False)
class PastShards:
    """Recent shards that ran with a simulated peak, the newest first.

    Attributes:
        logs: by shard, logarithm of measured over simulated peak.
        unit, shard: positions of a unit and of a shard that ran it, for each such pair.
    """

    kinds: Sequence[Kind] = ()
    logs: Sequence[float] = ()
    unit: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    shard: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def correction(self, kind: Kind, units: NDArray[np.bool_]) -> Correction:
        """Return the correction of a shard with these units."""
        alike = [place for place, other in enumerate(self.kinds) if other == kind]
        if not alike:
            return UNCORRECTED
        shared = np.bincount(self.shard[units[self.unit]], minlength=len(self.kinds))[alike]
        # Squared, so that the shard's own past outweighs the sum of the others.
        weights = np.square(shared / shared.max()) if shared.any() else np.ones(len(alike))
        return correction_of([self.logs[place] for place in alike], weights)


NO_PAST_SHARDS: Final = PastShards()


def read_past_shards(history: History, unit_of_key: NDArray[np.int64]) -> PastShards:
    """Return the last complete shards of each kind. O(values) in numpy.

    Args:
        unit_of_key: position of the unit of each key of the history, or -1.
    """
    legs = all_legs(history)
    kinds: list[Kind] = []
    logs, shard_of_leg = [], np.full(len(legs), -1, np.int64)
    for place, leg in reversed(list(enumerate(legs))):
        kind = leg.runner.pool, frozenset((cost.suite, cost.variant) for cost in leg.overheads)
        is_used = leg.complete and kinds.count(kind) < MAX_LEGS
        if is_used and leg.peak_bytes and leg.simulated_peak_bytes:
            shard_of_leg[place] = len(kinds)
            kinds.append(kind)
            logs.append(math.log(leg.peak_bytes / leg.simulated_peak_bytes))
    unit = unit_of_key[history.values.key]
    shard = shard_of_leg[leg_positions(history, history.values)]
    known = (unit >= 0) & (shard >= 0)
    return PastShards(kinds, logs, unit[known], shard[known])


def correction_of(logs: Sequence[float], weights: NDArray[np.float64]) -> Correction:
    """Return the correction by logarithms of measured over simulated peaks, at least one.

    Args:
        weights: of each logarithm, 0 to 1.
    """
    values, total = np.array(logs), float(weights.sum())
    mean = float(weights @ values) / total
    squares = float(weights @ np.square(values - mean))
    variance = (PRIOR_LEGS * PRIOR_SPREAD**2 + squares) / (PRIOR_LEGS + total)
    return Correction(math.exp(mean), math.sqrt(variance))


def predict_memory(
    shards: Sequence[Shard],
    suites: Mapping[str, Suite],
    keys: Sequence[UnitKey],
    estimates: Estimates,
    past: PastShards,
) -> tuple[tuple[Shard, ...], float | None]:
    """Predict the peak of each shard, and P(any shard holds more than its budget).

    Args:
        keys: of the units of the inventory, in the order of `estimates`.

    Returns:
        The shards; one without a measured unit has no predicted peak. The probability is None if no
        memory or budget is known. O(units x processes).
    """
    spread = estimates.memory_spread
    if spread is None:
        return tuple(shards), None
    position = {key: index for index, key in enumerate(keys)}
    memory = UnitMemory(spread.peak_bytes, spread.peak_variance, estimates.retained_bytes)
    predicted, budgets, legs = [], [], []
    for shard in shards:
        if all(unit.peak_delta_bytes is None for unit in shard.units):
            predicted.append(shard)
            continue
        members = [position[unit.key] for unit in shard.units]
        is_member = np.zeros(len(keys), np.bool_)
        is_member[members] = True
        moments = moments_of_leg(shard, suites, memory.take(members))
        kind = (shard.pool, frozenset(unit.key[:2] for unit in shard.units))
        correction = past.correction(kind, is_member)
        simulated_bytes = float(moments.held_bytes.max())
        prediction = replace(
            shard.predicted,
            peak_bytes=round(correction.ratio * simulated_bytes),
            simulated_peak_bytes=round(simulated_bytes),
        )
        predicted.append(replace(shard, predicted=prediction))
        if shard.budget_bytes:
            budgets.append(shard.budget_bytes)
            legs.append(correction.apply(moments))
    return tuple(predicted), any_overrun_probability(budgets, legs) if legs else None
