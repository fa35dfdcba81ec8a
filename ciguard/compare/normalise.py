"""How fast each runner was, told by the tests themselves, and how noisy a run is. Pure.

Everything is in logarithms: a runner that is 30 % slower adds 0.26 to each of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.series import STEADY_S, STEADY_TESTS
from ciguard.compare.statistics import counts, medians, sigma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ciguard.compare.statistics import Flags, Floats

    Integers = NDArray[np.int64]

PASSES: Final = 2
HELD_OUT: Final = 5  # baseline runs that are held against the others, to learn their noise
FEW: Final = 5  # tests of 50 ms in a run: with fewer, one of them may be the middle one
MANY: Final = 3  # baseline values before a case has a spread worth the name


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The baseline at one speed.

    Attributes:
        logs: (cases, 20) logarithms of wall times with each leg's speed taken out.
        reference: median of each row; NaN without a value.
        steady: cases long enough (>= 50 ms) to tell a speed by, and to be judged.
        spread: residual noise of a run held against the others; NaN where there are too few.
        speed: of each group, as a logarithm; NaN where it could not be told.
    """

    logs: Floats
    reference: Floats
    steady: Flags
    spread: float
    speed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Speeds:
    """A run at the baseline's speed.

    Attributes:
        of_leg: as a factor: 1.3 is 30 % slower; NaN where it could not be told.
        known: of each case, whether the speed of its leg could be told.
        few: of each case, whether few tests told what they have in common: less than a speed.
    """

    logs: Floats
    of_leg: Floats
    known: Flags
    few: Flags
    spread: float

    def noise_over(self, baseline: Baseline) -> float | None:
        """Residual noise in terms of the baseline's; None where one of them cannot be told."""
        if np.isnan(self.spread) or not baseline.spread > 0:
            return None
        return self.spread / baseline.spread


def factors(residuals: Floats, group: Integers, run_of_group: Integers) -> Floats:
    """Median residual of each group; of its run where the group is small; NaN where both are.

    Args:
        residuals: one a measured, steady case.
        group: the group of each.
        run_of_group: groups of one run may stand in for each other.
    """
    by_group = _medians_of(residuals, group, len(run_of_group))
    if not len(run_of_group):
        return by_group
    by_run = _medians_of(residuals, run_of_group[group], int(run_of_group.max()) + 1)
    return np.where(np.isnan(by_group), by_run[run_of_group], by_group)


def _medians_of(residuals: Floats, group: Integers, groups: int) -> Floats:
    found = np.full(groups, np.nan)
    # Sixteen bits are sorted by radix: 2,000,000 values in 20 ms, where 64 take 200.
    narrow = group.astype(np.uint16) if groups <= np.iinfo(np.uint16).max else group
    ordered = residuals[np.argsort(narrow, kind="stable")]
    sizes = np.bincount(group, minlength=groups)
    ends = np.cumsum(sizes)
    for place in np.flatnonzero(sizes >= STEADY_TESTS).tolist():
        found[place] = np.median(ordered[ends[place] - sizes[place] : ends[place]])
    return found


def normalised_baseline(wall_s: Floats, group: Integers, run_of_group: Integers) -> Baseline:
    """Take each leg's speed out of its values, in two passes.

    Args:
        wall_s: (cases, 20), NaN where there is none, else > 0.
        group: of each value, -1 where there is none.
        run_of_group: as in `factors`.
    """
    raw = np.log(wall_s)
    logs, reference = raw, medians(raw)
    steady = reference >= np.log(STEADY_S)
    cells = (group >= 0) & steady[:, None]
    rows = np.nonzero(cells)[0]
    values, members = raw[cells], group[cells]
    known = np.full(len(run_of_group), np.nan)
    for _ in range(PASSES):
        if not len(values):
            break
        known = factors(values - reference[rows], members, run_of_group)
        speed = np.nan_to_num(known)
        logs = raw - np.where(group >= 0, speed[np.maximum(group, 0)], 0.0)
        reference = medians(logs)
    spread = _spread(logs[steady], group[steady], run_of_group)
    return Baseline(logs, reference, steady, spread, known)


def _spread(logs: Floats, group: Integers, run_of_group: Integers) -> float:
    """Residual noise of a baseline run that is held against the others, as a candidate is."""
    enough = counts(logs) >= MANY
    logs, group = logs[enough], group[enough]
    if not len(logs):
        return float("nan")
    run = np.where(group >= 0, run_of_group[np.maximum(group, 0)], -1)
    found = []
    for held_out in np.unique(run[run >= 0])[-HELD_OUT:]:
        mine = run == held_out
        # A run is in a row once, so its value is the only one that is not hidden here.
        own = np.nansum(np.where(mine, logs, 0.0), axis=1)[mine.any(axis=1)]
        others = medians(np.where(mine, np.nan, logs))[mine.any(axis=1)]
        if len(own) >= STEADY_TESTS:
            residuals = own - others
            found.append(sigma(residuals - np.median(residuals)))
    return float(np.median(found)) if found else float("nan")


def normalised_run(wall_s: Floats, leg: NDArray[np.int32], legs: int, baseline: Baseline) -> Speeds:
    """Take each leg's speed out of a run's values.

    Args:
        wall_s: of each case, NaN where it is not comparable.
        leg: of each case.
        legs: how many there are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = np.log(np.where(wall_s > 0, wall_s, np.nan))
    told = np.flatnonzero(baseline.steady & ~np.isnan(raw))
    residuals = raw[told] - baseline.reference[told]
    members = leg[told].astype(np.int64)
    speed = factors(residuals, members, np.zeros(legs, np.int64))
    of_case = speed[leg] if legs else np.full(len(raw), np.nan)
    spread = float("nan")
    if len(told) >= STEADY_TESTS:
        spread = sigma(residuals - np.nan_to_num(of_case[told]))
    known = ~np.isnan(of_case)
    logs, few = raw - np.nan_to_num(of_case), np.zeros(len(raw), np.bool_)
    if FEW <= len(told) < STEADY_TESTS:
        few = ~known & ~np.isnan(raw)
        lesser = baseline.reference + _nearer(raw - baseline.reference, residuals)
        logs = np.where(few, lesser, logs)
    return Speeds(logs, of_leg=np.exp(speed), known=known, few=few, spread=spread)


def _nearer(change: Floats, residuals: Floats) -> Floats:
    """Each change as it is, or beside that of the run's middle test: whichever is less.

    The middle of few tests is no speed to divide by: it may be itself what changed. But what is
    left of a change on either view is neither the runner's doing nor that of a few other tests.
    """
    beside = change - np.median(residuals)
    nearer = np.where(np.abs(beside) < np.abs(change), beside, change)
    return np.where(beside * change > 0, nearer, 0.0)
