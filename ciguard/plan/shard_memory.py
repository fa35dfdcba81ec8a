"""The peak memory of shards: simulated, then corrected by what past shards really took. Pure.

A limit acts on all processes of a shard. What no test's own peak contains (children that outlive
their test, caches, modules that only some order of tests imports) shows there, so that is where the
plan learns: measured peak / simulated peak of recent legs of the same suites on the same pool.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import all_legs
from ciguard.plan.risk import Moments, UnitMemory, any_overrun_probability, moments_of_leg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Measured over simulated peak of past shards: the median, and the spread of its logarithm."""

    ratio: float = 1.0
    spread: float = PRIOR_SPREAD

    def apply(self, moments: Moments) -> Moments:
        """Return the corrected moments of a shard."""
        held_bytes = self.ratio * moments.held_bytes
        variance = np.square(self.ratio) * moments.variance
        return replace(moments, held_bytes=held_bytes, variance=variance, spread=self.spread)


UNCORRECTED: Final = Correction()


def learn_corrections(history: History) -> dict[Kind, Correction]:
    """Return the correction of each kind of shard that has run with a simulated peak."""
    logs: dict[Kind, list[float]] = defaultdict(list)
    for leg in reversed(all_legs(history)):
        if leg.complete and leg.peak_bytes and leg.simulated_peak_bytes:
            suite_keys = frozenset((cost.suite, cost.variant) for cost in leg.overheads)
            logs[leg.runner.pool, suite_keys].append(
                math.log(leg.peak_bytes / leg.simulated_peak_bytes)
            )
    return {kind: correction_of(values[:MAX_LEGS]) for kind, values in logs.items()}


def correction_of(logs: Sequence[float]) -> Correction:
    """Return the correction by logarithms of measured over simulated peaks, at least one."""
    middle = median(logs)
    squares = math.fsum((value - middle) ** 2 for value in logs)
    variance = (PRIOR_LEGS * PRIOR_SPREAD**2 + squares) / (PRIOR_LEGS + len(logs))
    return Correction(math.exp(middle), math.sqrt(variance))


def predict_memory(
    shards: Sequence[Shard],
    suites: Mapping[str, Suite],
    keys: Sequence[UnitKey],
    estimates: Estimates,
    corrections: Mapping[Kind, Correction],
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
        moments = moments_of_leg(
            shard, suites, memory.take([position[unit.key] for unit in shard.units])
        )
        kind = (shard.pool, frozenset(unit.key[:2] for unit in shard.units))
        correction = corrections.get(kind, UNCORRECTED)
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
