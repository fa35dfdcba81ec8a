"""What each unit will take: time with its spread, and memory, from past values or from siblings.

Several past values beat the last one (planned on real recordings, the mean of 8 or an exponential
mean ends 3-4 % nearer to the bound). A censored value, which is known only to be at least so much,
can raise an estimate and never lower it: a cut run must not make its slowest tests look free. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import chunks, newest_values
from ciguard.run.policy.state import UNKNOWN_DELTA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    AncestorsOf = Callable[[int], Sequence[Hashable]]
    MembersOf = Callable[[Hashable], Iterable[int]]

WINDOW: Final = 8  # values that an estimate looks at
# Weight of a value against the next newer one: the last two count for 3/4. Real recordings hardly
# tell 0.3 from 0.7; medians and trimmed means gain nothing (benchmarks/plan_quality.py).
DECAY: Final = 0.5
DEFAULT_S: Final = 1.0  # every unit's time while nothing is measured
MIN_S: Final = 0.001  # of a unit without history: 0 s would let a shard take all of them
DIGITS: Final = 6  # seconds are rounded to microseconds: no plan hangs on the last bit of a sum

SPREAD_RATIO: Final = 0.3  # of a unit measured once, while no unit was measured twice
NEW_SPREAD_RATIO: Final = 1.0  # of a unit never seen: siblings differ by their own size
SPREAD_FROM_S: Final = 0.05  # shorter times vary with timers and caches
# Of a run's common speed on one sort of machine: real recordings have 0.04, and 0.08 with those
# where the machines are others.
SPEED_SPREAD: Final = 0.08


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Past measurements of the units that exist now.

    One row a unit and run, sorted by unit and, within it, from the oldest run to the newest; NaN
    where not measured. Times are scaled to the common speed.

    Attributes:
        unit: positions in the inventory.
        is_lower_bound: the unit was stopped, or its leg did not end by itself.
        speed_spread: standard deviation of the logarithm of the legs' speeds; None if unknown.
        lower_bound_bytes, upper_bound_bytes: the interval of the peak delta, where it is not one
            number; None where no unit has any.
    """

    unit: NDArray[np.int32]
    wall_s: Floats
    peak_delta_bytes: Floats
    retained_bytes: Floats
    is_lower_bound: Flags
    speed_spread: float | None = None
    lower_bound_bytes: Floats | None = None
    upper_bound_bytes: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MemorySpread:
    """How far the peak and retained memory of units may be off, by position.

    Attributes:
        peak_bytes: mean peak delta; of a unit without one, what is planned for it.
        peak_variance, retained_variance: from run to run.
    """

    peak_bytes: Floats
    peak_variance: Floats
    retained_variance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """A value for each unit of the inventory, in its order.

    Attributes:
        wall_s: finite, >= 0, rounded to microseconds.
        variance_s2: spread of `wall_s` from run to run on one machine.
        peak_delta_bytes, retained_bytes: NaN where neither the unit nor a sibling was measured.
        has_history: the history has seen the unit.
        speed_spread: of the machines, as in `Observations`.
        memory_spread: None where nobody asked for it.
    """

    wall_s: Floats
    variance_s2: Floats
    peak_delta_bytes: Floats
    retained_bytes: Floats
    has_history: Flags
    speed_spread: float = SPEED_SPREAD
    memory_spread: MemorySpread | None = None


def no_observations() -> Observations:
    """Nothing was ever measured."""
    nothing = np.zeros(0)
    return Observations(np.zeros(0, np.int32), nothing, nothing, nothing, np.zeros(0, np.bool_))


def estimate_units(
    observations: Observations, count: int, ancestors: AncestorsOf, members: MembersOf | None = None
) -> Estimates:
    """Estimate every unit.

    Args:
        count: units in the inventory.
        ancestors: names of the groups of a unit, nearest first; the last one is all units (of its
            suite and variant).
        members: units that have such a name, where that is known without asking all of them.

    Returns:
        For a unit with completed values their weighted mean, else the mean of its nearest siblings
        that have one, raised to what it is known to have taken at least. O(rows + names).
    """
    clean = _usable(observations.wall_s) & ~observations.is_lower_bound
    mean_s, variance_s2 = _by_unit(_moments, observations.unit, observations.wall_s, clean, count)
    measured = ~np.isnan(mean_s)
    variance_s2 = np.where(
        np.isnan(variance_s2), _pooled_variance_s2(mean_s, variance_s2), variance_s2
    )
    _, peak_bytes = peak_bounds(observations, count)
    usable = np.isfinite(observations.retained_bytes) & ~observations.is_lower_bound
    retained_bytes, retained_variance = _by_unit(
        _moments, observations.unit, observations.retained_bytes, usable, count
    )
    unseen = np.flatnonzero(~measured)
    if unseen.size:
        borrowed = _from_siblings(
            unseen.tolist(),
            mean_s.copy(),
            peak_bytes.copy(),
            ancestors,
            members or _index_by_ancestor(ancestors, count),
        )
        mean_s[unseen] = borrowed[0]
        variance_s2[unseen] = np.square(NEW_SPREAD_RATIO * mean_s[unseen])
        peak_bytes[unseen] = np.fmax(peak_bytes[unseen], borrowed[1])
    known = np.zeros(count, np.bool_)
    known[observations.unit] = True
    raised_s = np.fmax(mean_s, _censored_minimum_s(observations, clean, count))
    # How much longer it takes is unknown; its values were off by this much already.
    variance_s2 += np.square(raised_s - mean_s)
    return Estimates(
        wall_s=np.asarray(np.round(raised_s, DIGITS), np.float64),
        variance_s2=variance_s2,
        peak_delta_bytes=np.rint(peak_bytes),
        retained_bytes=np.rint(retained_bytes),
        has_history=known,
        speed_spread=SPEED_SPREAD
        if observations.speed_spread is None
        else observations.speed_spread,
        memory_spread=_memory_spread(observations, peak_bytes, retained_variance),
    )


def _memory_spread(
    observations: Observations, peak_bytes: Floats, retained_variance: Floats
) -> MemorySpread:
    """From the units' own peaks, else from what is planned for them."""
    most = largest_peaks(observations)
    mean, variance = _by_unit(_moments, observations.unit, most, _usable(most), len(peak_bytes))
    unmeasured = np.isnan(mean)
    variance = np.where(np.isnan(variance), _pooled_variance_s2(mean, variance), variance)
    planned = np.where(np.isnan(peak_bytes), UNKNOWN_DELTA_BYTES, peak_bytes)
    mean = np.where(unmeasured, planned, mean)
    variance = np.where(unmeasured, np.square(NEW_SPREAD_RATIO * planned), variance)
    return MemorySpread(mean, variance, np.nan_to_num(retained_variance))


def largest_peaks(observations: Observations) -> Floats:
    """The most that each row may have needed."""
    if observations.upper_bound_bytes is None:
        return observations.peak_delta_bytes
    return upper_or_measured(observations.peak_delta_bytes, observations.upper_bound_bytes)


def upper_or_measured(peak_delta_bytes: Floats, upper_bound_bytes: Floats) -> Floats:
    """The most that each row may have needed: its upper bound, else its one number."""
    return np.where(np.isnan(upper_bound_bytes), peak_delta_bytes, upper_bound_bytes)


def peak_bounds(observations: Observations, count: int) -> tuple[Floats, Floats]:
    """What each unit's peak delta was at least, and the largest recent one; NaN where unknown.

    Of a unit with bounds the smallest upper one, because the memory that it shares with concurrent
    units differs from run to run; and never less than the largest lower bound.
    """
    exact = observations.peak_delta_bytes
    least = (
        exact
        if observations.lower_bound_bytes is None
        else np.fmax(exact, observations.lower_bound_bytes)
    )
    (largest,) = _by_unit(_largest, observations.unit, least, _usable(least), count)
    if observations.lower_bound_bytes is None and observations.upper_bound_bytes is None:
        return largest, largest
    most = largest_peaks(observations)
    (smallest,) = _by_unit(_smallest, observations.unit, most, _usable(most), count)
    # Known to be at least a little is not known: what the rules take for unknown ones is more.
    found: Floats = np.fmax(largest, smallest)
    found[np.isnan(smallest) & ~(largest > UNKNOWN_DELTA_BYTES)] = np.nan
    return largest, found


def _index_by_ancestor(ancestors: AncestorsOf, count: int) -> MembersOf:
    """Ask every unit for its names."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for unit in range(count):
        for name in ancestors(unit):
            found[name].append(unit)
    return lambda name: found[name]


def _usable(column: Floats) -> Flags:
    return np.isfinite(column) & (column >= 0)


def _by_unit(
    reduced: Callable[[Floats], tuple[Floats, ...]],
    unit: NDArray[np.int32],
    column: Floats,
    usable: Flags,
    count: int,
) -> tuple[Floats, ...]:
    """What a unit's last usable values come to, some units at a time."""
    found = []
    for units, rows in chunks(unit, count):
        there = usable[rows]
        group = unit[rows][there] - np.int32(units.start)
        found.append(
            reduced(newest_values(column[rows][there], group, units.stop - units.start, WINDOW))
        )
    return tuple(map(np.concatenate, zip(*found, strict=True)))


def _moments(table: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and variance of each row's numbers; NaN without one, and without two."""
    weights = np.where(np.isnan(table), 0.0, DECAY ** np.arange(table.shape[1])[::-1])
    sums = weights.sum(axis=1, keepdims=True)
    weights /= np.where(sums > 0, sums, np.nan)
    values = np.nan_to_num(table)
    mean = (weights * values).sum(axis=1)
    squares = (weights * np.square(values - mean[:, None])).sum(axis=1)
    # Bessel's correction for weights that sum to 1: n / (n - 1) where all are the same.
    freedom = 1 - np.square(weights).sum(axis=1)
    return mean, squares / np.where((weights > 0).sum(axis=1) > 1, freedom, np.nan)


def _largest(table: Floats) -> tuple[Floats]:
    """Largest of each row's numbers, NaN without one (np.nanmax warns there)."""
    return (np.fmax.reduce(table, axis=1),)


def _smallest(table: Floats) -> tuple[Floats]:
    return (np.fmin.reduce(table, axis=1),)


def _pooled_variance_s2(mean_s: Floats, variance_s2: Floats) -> Floats:
    """What a unit measured once is taken to spread: as the units measured more often do."""
    informative = (variance_s2 > 0) & (mean_s >= SPREAD_FROM_S)
    ratios = np.sqrt(variance_s2[informative]) / mean_s[informative]
    ratio = float(np.median(ratios)) if ratios.size else SPREAD_RATIO
    usual: Floats = np.square(ratio * mean_s)
    return usual


def _censored_minimum_s(observations: Observations, clean: Flags, count: int) -> Floats:
    """What a unit took at least since it last completed; a later completion disproves it."""
    if not observations.is_lower_bound.any():
        return np.zeros(count)
    rows = np.arange(len(observations.unit))
    last_clean = np.full(count, -1)
    np.maximum.at(last_clean, observations.unit[clean], rows[clean])
    open_ = (
        observations.is_lower_bound
        & _usable(observations.wall_s)
        & (rows > last_clean[observations.unit])
    )
    least_s = np.zeros(count)
    np.maximum.at(least_s, observations.unit[open_], observations.wall_s[open_])
    return least_s


def _from_siblings(
    unseen: Sequence[int],
    mean_s: Floats,
    peak_bytes: Floats,
    ancestors: AncestorsOf,
    members: MembersOf,
) -> tuple[Floats, Floats]:
    """For each unit the mean time and the largest peak of its nearest siblings that have one.

    The peak is not taken from all units: one heavy test would make every new one heavy.
    """
    measured = np.flatnonzero(~np.isnan(mean_s))
    if not measured.size:
        return np.full(len(unseen), DEFAULT_S), np.full(len(unseen), np.nan)
    everybody_s = float(mean_s[measured].mean())

    @cache
    def of_group(name: Hashable) -> tuple[float, float]:
        units = np.fromiter(members(name), np.int64)
        units = units[~np.isnan(mean_s[units])]
        if not units.size:
            return np.nan, np.nan
        return float(mean_s[units].mean()), float(np.fmax.reduce(peak_bytes[units]))

    groups = [ancestors(unit) for unit in unseen]
    walls_s = [_first((of_group(name)[0] for name in names), everybody_s) for names in groups]
    peaks = [_first((of_group(name)[1] for name in names[:-1]), np.nan) for names in groups]
    return np.maximum(walls_s, MIN_S), np.array(peaks)


def _first(values: Iterable[float], otherwise: float) -> float:
    """The nearest number that there is."""
    return next((value for value in values if not np.isnan(value)), otherwise)
