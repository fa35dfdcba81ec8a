"""How fast each runner was, told by the tests themselves, and how noisy a run is. Pure.

Everything is in logarithms: a runner that is 30 % slower adds 0.26 to each of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.statistics import MIN_BASELINE_RUNS, count_values, mad_sigma, medians
from ciguard.history.query import STEADY_S, STEADY_TESTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ciguard.compare.statistics import Flags, Floats

    Integers = NDArray[np.int64]

PASSES: Final = 2
HELD_OUT_RUNS: Final = 5  # baseline runs that are held against the others, to learn their noise
MIN_TESTS: Final = 5  # tests of 50 ms in a run: with fewer, one of them may be the middle one


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedBaseline:
    """The baseline at one speed.

    Attributes:
        log_wall: (cases, 20) logarithms of wall times with each leg's speed taken out.
        reference: median of each row; NaN without a value.
        steady: cases long enough (>= 50 ms) to tell a speed by, and to be judged.
        residual_noise: of a run held against the others; NaN where there are too few.
        speed: of each group, as a logarithm; NaN where it could not be told.
    """

    log_wall: Floats
    reference: Floats
    steady: Flags
    residual_noise: float
    speed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedRun:
    """A run at the baseline's speed.

    Attributes:
        speed_factor: of each leg: 1.3 is 30 % slower; NaN where it is unknown.
        has_speed: of each case, whether the speed of its leg is known.
        low_confidence: of each case, whether only the middle of 5 to 19 tests is known.
    """

    log_wall: Floats
    speed_factor: Floats
    has_speed: Flags
    low_confidence: Flags
    residual_noise: float

    def noise_ratio(self, baseline: NormalizedBaseline) -> float | None:
        """Residual noise in terms of the baseline's; None where one of them cannot be told."""
        if np.isnan(self.residual_noise) or not baseline.residual_noise > 0:
            return None
        return self.residual_noise / baseline.residual_noise


def speed_factors(residuals: Floats, group: Integers, run_of_group: Integers) -> Floats:
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


def normalize_baseline(
    wall_s: Floats, group: Integers, run_of_group: Integers
) -> NormalizedBaseline:
    """Take each leg's speed out of its values, in two passes.

    Args:
        wall_s: (cases, 20), NaN where there is none, else > 0.
        group: of each value, -1 where there is none.
        run_of_group: as in `speed_factors`.
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
        known = speed_factors(values - reference[rows], members, run_of_group)
        speed = np.nan_to_num(known)
        logs = raw - np.where(group >= 0, speed[np.maximum(group, 0)], 0.0)
        reference = medians(logs)
    spread = _residual_noise(logs[steady], group[steady], run_of_group)
    return NormalizedBaseline(logs, reference, steady, spread, known)


def _residual_noise(logs: Floats, group: Integers, run_of_group: Integers) -> float:
    """Residual noise of a baseline run that is held against the others, as a candidate is."""
    enough = count_values(logs) >= MIN_BASELINE_RUNS
    logs, group = logs[enough], group[enough]
    if not len(logs):
        return float("nan")
    run = np.where(group >= 0, run_of_group[np.maximum(group, 0)], -1)
    found = []
    for held_out in np.unique(run[run >= 0])[-HELD_OUT_RUNS:]:
        mine = run == held_out
        # A run is in a row once, so its value is the only one that is not hidden here.
        own = np.nansum(np.where(mine, logs, 0.0), axis=1)[mine.any(axis=1)]
        other_medians = medians(np.where(mine, np.nan, logs))[mine.any(axis=1)]
        if len(own) >= STEADY_TESTS:
            residuals = own - other_medians
            found.append(mad_sigma(residuals - np.median(residuals)))
    return float(np.median(found)) if found else float("nan")


def normalize_run(
    wall_s: Floats, leg: NDArray[np.int32], legs: int, baseline: NormalizedBaseline
) -> NormalizedRun:
    """Take each leg's speed out of a run's values.

    Args:
        wall_s: of each case, NaN where it is not comparable.
        leg: of each case.
        legs: how many there are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = np.log(np.where(wall_s > 0, wall_s, np.nan))
    steady_rows = np.flatnonzero(baseline.steady & ~np.isnan(raw))
    residuals = raw[steady_rows] - baseline.reference[steady_rows]
    members = leg[steady_rows].astype(np.int64)
    speed = speed_factors(residuals, members, np.zeros(legs, np.int64))
    of_case = speed[leg] if legs else np.full(len(raw), np.nan)
    spread = float("nan")
    if len(steady_rows) >= STEADY_TESTS:
        spread = mad_sigma(residuals - np.nan_to_num(of_case[steady_rows]))
    known = ~np.isnan(of_case)
    logs, few = raw - np.nan_to_num(of_case), np.zeros(len(raw), np.bool_)
    if MIN_TESTS <= len(steady_rows) < STEADY_TESTS:
        few = ~known & ~np.isnan(raw)
        lesser = baseline.reference + _smaller_of_both_views(raw - baseline.reference, residuals)
        logs = np.where(few, lesser, logs)
    return NormalizedRun(
        logs, speed_factor=np.exp(speed), has_speed=known, low_confidence=few, residual_noise=spread
    )


def _smaller_of_both_views(change: Floats, residuals: Floats) -> Floats:
    """Each change as it is, or beside that of the run's middle test: whichever is less.

    The middle of few tests is no speed to divide by: it may be itself what changed. But what is
    left of a change on either view is neither the runner's doing nor that of a few other tests.
    """
    relative_to_run = change - np.median(residuals)
    nearer = np.where(np.abs(relative_to_run) < np.abs(change), relative_to_run, change)
    return np.where(relative_to_run * change > 0, nearer, 0.0)
