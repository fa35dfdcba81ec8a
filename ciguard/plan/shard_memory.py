"""The peak memory of shards: simulated, then corrected by measured peaks of past shards. Pure.

A limit acts on all processes of a shard. What no test's own peak contains (children that outlive
their test, caches, modules that only some order of tests imports) shows there. So the plan learns
from measured peak / simulated peak of recent legs of the same suites on the same pool. These are
simulated from what their units took there, so that a unit's own variation is no correction of other
shards. A leg that ran the same units of the same files counts most: what a process imports, builds
or starts beside its tests is often in one shard only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.history.file import CODE_NAMES, History
from ciguard.history.query import all_legs, leg_positions
from ciguard.model import Shard, Suite, UnitKey
from ciguard.plan.estimates import Estimates
from ciguard.plan.risk import Moments, any_overrun_probability, moments_of_leg

# Pool, and the suites and variants of the shard.
Kind = tuple[str, frozenset[tuple[str, str]]]

BEGINS: Final = [CODE_NAMES["standing"].index(word) for word in ("first", "restarted")]
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
        held_bytes = self.ratio * moments.held_bytes
        variance = np.square(self.ratio) * moments.variance
        return replace(moments, held_bytes=held_bytes, variance=variance, spread=self.spread)


UNCORRECTED: Final = Correction()


@dataclass(frozen=True, slots=True, eq=False)
class PastShards:
    """Recent shards with a measured peak, the newest first.

    Attributes:
        unit, shard: positions of a unit and of a shard that ran it, for each such pair.
        unit_bytes: what the unit took there; NaN if not measured, or if it began the process.
        files: number of the file of each unit.
        loads: by shard and file, whether the shard ran units of the file.
    """

    kinds: Sequence[Kind] = ()
    peaks_bytes: Sequence[int] = ()
    unit: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    shard: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    unit_bytes: Floats = field(default_factory=lambda: np.zeros(0))
    files: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    loads: Flags = field(default_factory=lambda: np.zeros((0, 0), np.bool_))

    def units_of(self, place: int) -> tuple[list[int], Floats]:
        """Return the positions of the units of a shard, in order, and what each took there."""
        rows = self.shard == place
        members, index = np.unique(self.unit[rows], return_inverse=True)
        peaks = np.full(len(members), np.nan)
        np.fmax.at(peaks, index, self.unit_bytes[rows])
        return members.tolist(), peaks

    def correction(self, kind: Kind, units: Flags, simulated_bytes: Sequence[float]) -> Correction:
        """Return the correction of a shard with these units.

        Args:
            simulated_bytes: peak of each past shard; 0 if none of its units exists.
        """
        alike = [
            place
            for place, other in enumerate(self.kinds)
            if other == kind and simulated_bytes[place]
        ]
        if not alike:
            return UNCORRECTED
        shared = np.bincount(self.shard[units[self.unit]], minlength=len(self.kinds))[alike]
        files, loads = np.unique(self.files[units]), self.loads[alike]
        both = loads[:, files].sum(axis=1)
        shared = shared * both / np.maximum(loads.sum(axis=1) + len(files) - both, 1)
        # Squared, so that the shard's own past outweighs the sum of the others.
        weights = np.square(shared / shared.max()) if shared.any() else np.ones(len(alike))
        ratios = np.array(self.peaks_bytes)[alike] / np.array(simulated_bytes)[alike]
        return correction_of(np.log(ratios), weights)


NO_PAST_SHARDS: Final = PastShards()


def read_past_shards(
    history: History, unit_of_key: Integers, file_names: Sequence[str | None]
) -> PastShards:
    """Return the last complete shards of each kind. O(values) in numpy.

    Args:
        unit_of_key: position of the unit of each key of the history, or -1.
        file_names: of the units, by position.
    """
    numbers: dict[str | None, int] = {}
    files = np.array([numbers.setdefault(name, len(numbers)) for name in file_names], np.int64)
    legs = all_legs(history)
    kinds: list[Kind] = []
    peaks_bytes, shard_of_leg = [], np.full(len(legs), -1, np.int64)
    for place, leg in reversed(list(enumerate(legs))):
        kind = leg.runner.pool, frozenset((cost.suite, cost.variant) for cost in leg.overheads)
        if leg.complete and leg.peak_bytes and kinds.count(kind) < MAX_LEGS:
            shard_of_leg[place] = len(kinds)
            kinds.append(kind)
            peaks_bytes.append(leg.peak_bytes)
    unit = unit_of_key[history.values.key]
    shard = shard_of_leg[leg_positions(history, history.values)]
    known = (unit >= 0) & (shard >= 0)
    values = history.values
    unit_bytes = np.fmax(values.peak_delta_bytes, values.peak_lower_bytes)[known]
    unit_bytes = np.where(np.isnan(unit_bytes), values.peak_upper_bytes[known], unit_bytes)
    unit_bytes[np.isin(values.standing[known], BEGINS)] = np.nan  # as in estimates
    unit, shard = unit[known], shard[known]
    loads = np.zeros((len(kinds), len(numbers)), np.bool_)
    loads[shard, files[unit]] = True
    return PastShards(kinds, peaks_bytes, unit, shard, unit_bytes, files, loads)


def correction_of(logs: Floats, weights: Floats) -> Correction:
    """Return the correction by logarithms of measured over simulated peaks, at least one.

    Args:
        weights: of each logarithm, 0 to 1.
    """
    total = float(weights.sum())
    mean = float(weights @ logs) / total
    squares = float(weights @ np.square(logs - mean))
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
        memory or budget is known. O((units + past values) x (processes + shards + past shards)).
    """
    memory = estimates.memory
    position = {key: index for index, key in enumerate(keys)}
    planned = {position[unit.key]: unit for shard in shards for unit in shard.units}
    like = {shard.pool: shard for shard in shards}
    past_bytes = [0.0] * len(past.kinds)
    for place, (pool, _) in enumerate(past.kinds):
        members, peaks = past.units_of(place)
        if members:
            units, own = tuple(planned[member] for member in members), memory.take(members)
            unknown = np.isnan(peaks) | np.isnan(estimates.peak_delta_bytes[members])
            own = replace(own, peak_bytes=np.where(unknown, own.peak_bytes, peaks))
            shard = replace(like.get(pool, shards[0]), units=units)
            past_bytes[place] = float(moments_of_leg(shard, suites, own).held_bytes.max())
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
        correction = past.correction(kind, is_member, past_bytes)
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
