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

from ciguard.codec.series import latest, parts
from ciguard.run.state import UNKNOWN_DELTA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    KinOf = Callable[[int], Sequence[Hashable]]
    MembersOf = Callable[[Hashable], Iterable[int]]

DEPTH: Final = 8  # values that an estimate looks at
# Weight of a value against the next newer one: the last two count for 3/4. Real recordings hardly
# tell 0.3 from 0.7; medians and trimmed means gain nothing (benchmarks/plan_quality.py).
KEEP: Final = 0.5
NOMINAL_S: Final = 1.0  # every unit's time while nobody has measured anything
LEAST_S: Final = 0.001  # of a unit that nobody has seen: 0 s would let a shard take all of them
DIGITS: Final = 6  # seconds are rounded to microseconds: no plan hangs on the last bit of a sum

SPREAD_RATIO: Final = 0.3  # of a unit measured once, while no unit was measured twice
NEW_SPREAD_RATIO: Final = 1.0  # of a unit never seen: siblings differ by their own size
SPREAD_FROM_S: Final = 0.05  # shorter times tell of timers and caches
# Of a run's common speed on one sort of machine: real recordings have 0.04, and 0.08 with those
# where the machines are others.
SPEED_SPREAD: Final = 0.08


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What history says of the units that exist now.

    One row a unit and run, sorted by unit and, within it, from the oldest run to the newest; NaN
    where not measured. Times are scaled to the common speed.

    Attributes:
        unit: positions in the inventory.
        is_lower_bound: the unit was stopped, or its leg did not end by itself.
        speed_spread: standard deviation of the logarithm of the legs' speeds; None if unknown.
        least_bytes, most_bytes: what the peak delta lies between, where it is not one number; None
            where nobody measured any.
    """

    unit: NDArray[np.int32]
    wall_s: Floats
    peak_delta_bytes: Floats
    retained_bytes: Floats
    is_lower_bound: Flags
    speed_spread: float | None = None
    least_bytes: Floats | None = None
    most_bytes: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """A value for each unit of the inventory, in its order.

    Attributes:
        wall_s: finite, >= 0, rounded to microseconds.
        variance_s2: spread of `wall_s` from run to run on one machine.
        peak_delta_bytes, retained_bytes: NaN where neither the unit nor a sibling was measured.
        known: history has seen the unit.
        speed_spread: of the machines, as in `Past`.
    """

    wall_s: Floats
    variance_s2: Floats
    peak_delta_bytes: Floats
    retained_bytes: Floats
    known: Flags
    speed_spread: float = SPEED_SPREAD


def no_past() -> Past:
    """Nothing was ever measured."""
    nothing = np.zeros(0)
    return Past(np.zeros(0, np.int32), nothing, nothing, nothing, np.zeros(0, np.bool_))


def estimates(past: Past, count: int, kin: KinOf, members: MembersOf | None = None) -> Estimates:
    """Estimate every unit.

    Args:
        count: units in the inventory.
        kin: names of the groups that a unit belongs to, nearest first; the last one is everybody
            (of its suite and variant).
        members: units that have such a name, where that is known without asking all of them.

    Returns:
        For a unit with completed values their weighted mean, else the mean of its nearest siblings
        that have one, raised to what it is known to have taken at least. O(rows + names).
    """
    clean = _usable(past.wall_s) & ~past.is_lower_bound
    mean_s, variance_s2 = _by_unit(_moments, past.unit, past.wall_s, clean, count)
    measured = ~np.isnan(mean_s)
    variance_s2 = np.where(
        np.isnan(variance_s2), _usual_variance_s2(mean_s, variance_s2), variance_s2
    )
    peak_bytes = _peaks(past, count)
    kept = np.isfinite(past.retained_bytes) & ~past.is_lower_bound
    retained_bytes, _ = _by_unit(_moments, past.unit, past.retained_bytes, kept, count)
    unseen = np.flatnonzero(~measured)
    if unseen.size:
        borrowed = _borrowed(
            unseen.tolist(), mean_s.copy(), peak_bytes.copy(), kin, members or _listed(kin, count)
        )
        mean_s[unseen] = borrowed[0]
        variance_s2[unseen] = np.square(NEW_SPREAD_RATIO * mean_s[unseen])
        peak_bytes[unseen] = np.fmax(peak_bytes[unseen], borrowed[1])
    known = np.zeros(count, np.bool_)
    known[past.unit] = True
    raised_s = np.fmax(mean_s, _least_s(past, clean, count))
    # Nobody knows how much longer than that: what its values say was so far off already.
    variance_s2 += np.square(raised_s - mean_s)
    return Estimates(
        wall_s=np.asarray(np.round(raised_s, DIGITS), np.float64),
        variance_s2=variance_s2,
        peak_delta_bytes=np.rint(peak_bytes),
        retained_bytes=np.rint(retained_bytes),
        known=known,
        speed_spread=SPEED_SPREAD if past.speed_spread is None else past.speed_spread,
    )


def most_of(peak_delta_bytes: Floats, most_bytes: Floats) -> Floats:
    """The most that each row may have needed: its upper bound, else its one number."""
    return np.where(np.isnan(most_bytes), peak_delta_bytes, most_bytes)


def _peaks(past: Past, count: int) -> Floats:
    """The largest recent peak delta of each unit; NaN where none is known.

    Of a unit with bounds the smallest upper one, for what it has in common with the others that
    run beside it differs from run to run; and never less than it is known to have needed once.
    """
    exact = past.peak_delta_bytes
    least = exact if past.least_bytes is None else np.fmax(exact, past.least_bytes)
    (largest,) = _by_unit(_largest, past.unit, least, _usable(least), count)
    if past.least_bytes is None and past.most_bytes is None:
        return largest
    most = exact if past.most_bytes is None else most_of(exact, past.most_bytes)
    (smallest,) = _by_unit(_smallest, past.unit, most, _usable(most), count)
    # Known to be at least a little is not known: what the rules take for unknown ones is more.
    found: Floats = np.fmax(largest, smallest)
    found[np.isnan(smallest) & ~(largest > UNKNOWN_DELTA_BYTES)] = np.nan
    return found


def _listed(kin: KinOf, count: int) -> MembersOf:
    """Ask every unit for its names."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for unit in range(count):
        for name in kin(unit):
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
    for units, rows in parts(unit, count):
        there = usable[rows]
        group = unit[rows][there] - np.int32(units.start)
        found.append(reduced(latest(column[rows][there], group, units.stop - units.start, DEPTH)))
    return tuple(map(np.concatenate, zip(*found, strict=True)))


def _moments(table: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and variance of each row's numbers; NaN without one, and without two."""
    weights = np.where(np.isnan(table), 0.0, KEEP ** np.arange(table.shape[1])[::-1])
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


def _usual_variance_s2(mean_s: Floats, variance_s2: Floats) -> Floats:
    """What a unit measured once is taken to spread: as the units measured more often do."""
    told = (variance_s2 > 0) & (mean_s >= SPREAD_FROM_S)
    ratios = np.sqrt(variance_s2[told]) / mean_s[told]
    ratio = float(np.median(ratios)) if ratios.size else SPREAD_RATIO
    usual: Floats = np.square(ratio * mean_s)
    return usual


def _least_s(past: Past, clean: Flags, count: int) -> Floats:
    """What a unit took at least since it last completed; a later completion disproves it."""
    if not past.is_lower_bound.any():
        return np.zeros(count)
    rows = np.arange(len(past.unit))
    last_clean = np.full(count, -1)
    np.maximum.at(last_clean, past.unit[clean], rows[clean])
    open_ = past.is_lower_bound & _usable(past.wall_s) & (rows > last_clean[past.unit])
    least_s = np.zeros(count)
    np.maximum.at(least_s, past.unit[open_], past.wall_s[open_])
    return least_s


def _borrowed(
    unseen: Sequence[int],
    mean_s: Floats,
    peak_bytes: Floats,
    kin: KinOf,
    members: MembersOf,
) -> tuple[Floats, Floats]:
    """For each unit the mean time and the largest peak of its nearest siblings that have one.

    The peak is not asked of everybody: one heavy test would make every new one heavy.
    """
    measured = np.flatnonzero(~np.isnan(mean_s))
    if not measured.size:
        return np.full(len(unseen), NOMINAL_S), np.full(len(unseen), np.nan)
    everybody_s = float(mean_s[measured].mean())

    @cache
    def of_group(name: Hashable) -> tuple[float, float]:
        units = np.fromiter(members(name), np.int64)
        units = units[~np.isnan(mean_s[units])]
        if not units.size:
            return np.nan, np.nan
        return float(mean_s[units].mean()), float(np.fmax.reduce(peak_bytes[units]))

    groups = [kin(unit) for unit in unseen]
    walls_s = [_first((of_group(name)[0] for name in names), everybody_s) for names in groups]
    peaks = [_first((of_group(name)[1] for name in names[:-1]), np.nan) for names in groups]
    return np.maximum(walls_s, LEAST_S), np.array(peaks)


def _first(values: Iterable[float], otherwise: float) -> float:
    """The nearest number that there is."""
    return next((value for value in values if not np.isnan(value)), otherwise)
