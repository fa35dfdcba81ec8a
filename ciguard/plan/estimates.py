"""Estimates of each unit's time, spread and memory: from past values, or from siblings. Pure.

A mean of several past values is better than the last value. On real recordings, plans with the mean
of 8 values, or with an exponential mean, end 3-4 % nearer to the bound. A censored value is only a
lower bound: it can raise an estimate and never reduces it, because otherwise a cut run would make
its slowest tests look short.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.history.query import chunks, newest_values
from ciguard.plan.risk import UnitMemory
from ciguard.run.policy.state import UNKNOWN_DELTA_BYTES

AncestorsOf = Callable[[int], Sequence[Hashable]]
MembersOf = Callable[[Any], Iterable[int]]  # takes a name that `AncestorsOf` returns

WINDOW: Final = 8  # newest values of a unit that an estimate uses
# Weight of a value relative to the next newer one: the last two have 3/4 of the weight. On real
# recordings, 0.3 and 0.7 are hardly different, and medians and trimmed means are not better
# (benchmarks/plan_quality.py).
DECAY: Final = 0.5
DEFAULT_S: Final = 1.0  # time of every unit if there is no measurement at all
MIN_S: Final = 0.001  # of a unit without history: with 0 s one shard could get all of them
DIGITS: Final = 6  # seconds are rounded to microseconds: no plan depends on the last bit of a sum

MIN_ONCE_S: Final = 0.05  # a smaller cost of a process is noise of its first test

SPREAD_RATIO: Final = 0.3  # of a unit measured once, if no unit was measured twice
NEW_SPREAD_RATIO: Final = 1.0  # of an unmeasured unit: siblings differ by as much as their size
SPREAD_FROM_S: Final = 0.05  # shorter times vary with timers and caches
# Spread of a run's speed: real recordings have 0.04 on one kind of machine, and 0.08 on several.
SPEED_SPREAD: Final = 0.08


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Past measurements of the existing units.

    There is one row for each unit and run, sorted by unit and then from the oldest run to the
    newest; NaN is not measured. Times are scaled to the common speed.

    Attributes:
        unit: positions in the inventory.
        is_lower_bound: the unit was stopped, or its leg did not end by itself.
        speed_spread: standard deviation of the logarithm of the legs' speeds.
        lower_bound_bytes, upper_bound_bytes: bounds of a peak delta without an exact value.
        begins_process: the unit's time includes costs that occur once in a process, as imports.
    """

    unit: NDArray[np.int32]
    wall_s: Floats
    peak_delta_bytes: Floats
    retained_bytes: Floats
    is_lower_bound: Flags
    speed_spread: float = SPEED_SPREAD
    # The default is one value for all rows.
    lower_bound_bytes: Floats = field(default_factory=lambda: np.array(np.nan))
    upper_bound_bytes: Floats = field(default_factory=lambda: np.array(np.nan))
    begins_process: Flags = field(default_factory=lambda: np.array(False))

    def take(self, rows: Flags) -> Observations:
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        selected = {name: column[rows] for name, column in columns if np.ndim(column)}
        return replace(self, **selected)


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """One value for each unit of the inventory, in its order.

    Attributes:
        wall_s: finite, >= 0, rounded to microseconds.
        variance_s2: variance of `wall_s` from run to run on one machine.
        peak_delta_bytes: NaN if neither the unit nor a sibling was measured.
        has_history: the history contains the unit.
        memory: mean peaks; the planned peak for a unit without measurements.
        speed_spread: spread of the machines' speeds, as in `Observations`.
    """

    wall_s: Floats
    variance_s2: Floats
    peak_delta_bytes: Floats
    has_history: Flags
    memory: UnitMemory
    speed_spread: float = SPEED_SPREAD


def no_observations() -> Observations:
    empty = np.zeros(0)
    return Observations(np.zeros(0, np.int32), empty, empty, empty, np.zeros(0, np.bool_))


def estimate_units(
    observations: Observations, count: int, ancestors: AncestorsOf, members: MembersOf
) -> Estimates:
    """Estimate every unit.

    Args:
        count: number of units in the inventory.
        ancestors: names of the groups of a unit, nearest first; the last group contains all units
            (of its suite and variant).
        members: returns the units of a group.

    Returns:
        The weighted mean of a unit's completed values, or the mean of its nearest measured
        siblings; raised to the unit's largest lower bound. O(rows + names).
    """
    is_complete = _usable(observations.wall_s) & ~observations.is_lower_bound
    mean_s, variance_s2 = _by_unit(
        _moments, observations.unit, observations.wall_s, is_complete, count
    )
    measured = ~np.isnan(mean_s)
    variance_s2 = np.where(
        np.isnan(variance_s2), _pooled_variance_s2(mean_s, variance_s2), variance_s2
    )
    _, peak_bytes = peak_bounds(observations, count)
    usable = np.isfinite(observations.retained_bytes) & ~observations.is_lower_bound
    retained_bytes, _ = _by_unit(
        _moments, observations.unit, observations.retained_bytes, usable, count
    )
    unmeasured = np.flatnonzero(~measured)
    if unmeasured.size:
        sibling_s, sibling_bytes = _from_siblings(
            unmeasured.tolist(), mean_s.copy(), peak_bytes.copy(), ancestors, members
        )
        mean_s[unmeasured] = sibling_s
        variance_s2[unmeasured] = np.square(NEW_SPREAD_RATIO * mean_s[unmeasured])
        peak_bytes[unmeasured] = np.fmax(peak_bytes[unmeasured], sibling_bytes)
    has_history = np.zeros(count, np.bool_)
    has_history[observations.unit] = True
    raised_s = np.fmax(mean_s, _censored_minimum_s(observations, is_complete, count))
    # The rest of a censored time is unknown, so the variance includes at least the raise.
    variance_s2 += np.square(raised_s - mean_s)
    return Estimates(
        wall_s=np.asarray(np.round(raised_s, DIGITS), np.float64),
        variance_s2=variance_s2,
        peak_delta_bytes=np.rint(peak_bytes),
        has_history=has_history,
        memory=UnitMemory(*_peak_moments(observations, peak_bytes), np.rint(retained_bytes)),
        speed_spread=observations.speed_spread,
    )


def split_process_starts(
    observations: Observations, suite_of: Integers
) -> tuple[Observations, Floats]:
    """Separate the costs that occur once in a process (imports, caches) from its first unit's time.

    Args:
        suite_of: the number of the suite of each unit, from 0.

    Returns:
        The observations, and the costs of each suite in seconds. Values of first units that have
        other values are removed; units that were always first get less time. The costs are the
        median excess of first values over the same unit's other values. If no unit has both, they
        are the least excess of several first units over the suite's median, as a first unit can be
        slow.
    """
    once_s = np.zeros(int(suite_of.max(initial=-1)) + 1)
    begins, unit = observations.begins_process, observations.unit
    if not begins.any():
        return observations, once_s
    known = _usable(observations.wall_s) & ~observations.is_lower_bound
    later = known & ~begins
    count = np.bincount(unit[later], minlength=len(suite_of))
    sums_s = np.bincount(unit[later], observations.wall_s[later], minlength=len(suite_of))
    later_s = sums_s / np.where(count, count, np.nan)
    first = np.flatnonzero(known & begins)
    excess_s = observations.wall_s[first] - later_s[unit[first]]
    for suite in np.unique(suite_of[unit[first]]).tolist():
        of_suite = suite_of[unit[first]] == suite
        paired = excess_s[of_suite & ~np.isnan(excess_s)]
        others = observations.wall_s[later & (suite_of[unit] == suite)]
        if paired.size:
            once_s[suite] = np.median(paired)
        elif others.size and len(np.unique(unit[first[of_suite]])) > 1:
            once_s[suite] = observations.wall_s[first[of_suite]].min() - np.median(others)
    once_s[once_s < MIN_ONCE_S] = 0.0
    # Bounds of stopped units are kept, because most re-runs of one test begin their process.
    has_others = known & begins & (count[unit] > 0)
    wall_s = observations.wall_s - np.where(begins, once_s[suite_of[unit]], 0.0)
    kept = replace(observations, wall_s=np.maximum(wall_s, np.minimum(MIN_S, observations.wall_s)))
    return kept.take(~has_others), once_s


def _peak_moments(observations: Observations, peak_bytes: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each unit's peaks, by its planned peak if it has none."""
    lower, upper = observations.lower_bound_bytes, observations.upper_bound_bytes
    # The upper bound of a short file is often the peak of the file before it.
    has_both = ~(np.isnan(upper) | np.isnan(lower))
    peaks = np.where(has_both, lower, largest_peaks(observations))
    mean, variance = _by_unit(_moments, observations.unit, peaks, _usable(peaks), len(peak_bytes))
    unmeasured = np.isnan(mean)
    variance = np.where(np.isnan(variance), _pooled_variance_s2(mean, variance), variance)
    if not np.isnan(lower).all():
        # With child processes, samples miss the peak in most runs; the largest is the nearest.
        (largest,) = _by_unit(_largest, observations.unit, lower, _usable(lower), len(peak_bytes))
        mean = np.where(unmeasured, mean, np.fmax(mean, largest))
    planned = np.where(np.isnan(peak_bytes), UNKNOWN_DELTA_BYTES, peak_bytes)
    mean = np.where(unmeasured, planned, mean)
    variance = np.where(unmeasured, np.square(NEW_SPREAD_RATIO * planned), variance)
    return mean, variance


def largest_peaks(observations: Observations) -> Floats:
    """Return the largest possible peak delta of each row."""
    upper = observations.upper_bound_bytes
    return np.where(np.isnan(upper), observations.peak_delta_bytes, upper)


def peak_bounds(observations: Observations, count: int) -> tuple[Floats, Floats]:
    """Return the lower bound of each unit's peak delta, and its planned peak; NaN if unknown.

    The planned peak is the largest recent value. For a unit with bounds it is the smallest upper
    bound, and at least the largest lower bound: memory shared with concurrent units differs from
    run to run.
    """
    lower = np.fmax(observations.peak_delta_bytes, observations.lower_bound_bytes)
    (largest,) = _by_unit(_largest, observations.unit, lower, _usable(lower), count)
    if (np.isnan(observations.lower_bound_bytes) & np.isnan(observations.upper_bound_bytes)).all():
        return largest, largest
    upper = largest_peaks(observations)
    (smallest,) = _by_unit(_smallest, observations.unit, upper, _usable(upper), count)
    # Without an upper bound, a lower bound below the rules' default counts as unknown.
    planned: Floats = np.fmax(largest, smallest)
    planned[np.isnan(smallest) & ~(largest > UNKNOWN_DELTA_BYTES)] = np.nan
    return largest, planned


def _usable(column: Floats) -> Flags:
    return np.isfinite(column) & (column >= 0)


def _by_unit(
    reduce_rows: Callable[[Floats], tuple[Floats, ...]],
    unit: NDArray[np.int32],
    column: Floats,
    usable: Flags,
    count: int,
) -> tuple[Floats, ...]:
    """Apply `reduce_rows` to the table of each unit's last usable values, in chunks of units."""
    parts = []
    for units, rows in chunks(unit, count):
        selected = usable[rows]
        group = unit[rows][selected] - np.int32(units.start)
        groups = units.stop - units.start
        parts.append(reduce_rows(newest_values(column[rows][selected], group, groups, WINDOW)))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def _moments(table: Floats) -> tuple[Floats, Floats]:
    """Return weighted mean and variance of each row; NaN below one, and below two numbers."""
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
    """Return the largest number of each row, or NaN (without the warning of np.nanmax)."""
    return (np.fmax.reduce(table, axis=1),)


def _smallest(table: Floats) -> tuple[Floats]:
    return (np.fmin.reduce(table, axis=1),)


def _pooled_variance_s2(mean_s: Floats, variance_s2: Floats) -> Floats:
    """Return the variance of units measured once, by the median ratio of spread to mean."""
    informative = (variance_s2 > 0) & (mean_s >= SPREAD_FROM_S)
    ratios = np.sqrt(variance_s2[informative]) / mean_s[informative]
    ratio = float(np.median(ratios)) if ratios.size else SPREAD_RATIO
    pooled: Floats = np.square(ratio * mean_s)
    return pooled


def _censored_minimum_s(observations: Observations, is_complete: Flags, count: int) -> Floats:
    """Return the largest lower bound of a unit's time since its last completion."""
    if not observations.is_lower_bound.any():
        return np.zeros(count)
    rows = np.arange(len(observations.unit))
    last_complete = np.full(count, -1)
    np.maximum.at(last_complete, observations.unit[is_complete], rows[is_complete])
    counts = (
        observations.is_lower_bound
        & _usable(observations.wall_s)
        & (rows > last_complete[observations.unit])
    )
    minimum_s = np.zeros(count)
    np.maximum.at(minimum_s, observations.unit[counts], observations.wall_s[counts])
    return minimum_s


def _from_siblings(
    unmeasured: Sequence[int],
    mean_s: Floats,
    peak_bytes: Floats,
    ancestors: AncestorsOf,
    members: MembersOf,
) -> tuple[Floats, Floats]:
    """Return the mean time and the largest peak of each unit's nearest measured siblings.

    The group of all units gives no peak, because one test with a large peak would give it to every
    new test.
    """
    measured = np.flatnonzero(~np.isnan(mean_s))
    if not measured.size:
        return np.full(len(unmeasured), DEFAULT_S), np.full(len(unmeasured), np.nan)
    overall_s = float(mean_s[measured].mean())

    @cache
    def of_group(name: Hashable) -> tuple[float, float]:
        units = np.fromiter(members(name), np.int64)
        units = units[~np.isnan(mean_s[units])]
        if not units.size:
            return np.nan, np.nan
        return float(mean_s[units].mean()), float(np.fmax.reduce(peak_bytes[units]))

    groups = [ancestors(unit) for unit in unmeasured]
    walls_s = [_first((of_group(name)[0] for name in names), overall_s) for names in groups]
    peaks = [_first((of_group(name)[1] for name in names[:-1]), np.nan) for names in groups]
    return np.maximum(walls_s, MIN_S), np.array(peaks)


def _first(values: Iterable[float], otherwise: float) -> float:
    """Return the first number that is not NaN."""
    return next((value for value in values if not np.isnan(value)), otherwise)
