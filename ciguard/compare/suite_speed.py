"""How fast each runner was, told by the tests, and whether the whole suite became slower. Pure.

Everything is in logarithms: a runner that is 30 % slower adds 0.26 to each of its tests. Taking
each leg's speed out of its tests takes out what slowed down all of them, too. What is left of a
leg's speed once the probe of its runner, a fixed piece of CPU work, is divided out is the suite's
own. A probe takes a moment, in which a runner may not be what it is: three quarters of the legs
must agree. And a suite that waits more than it computes takes no longer on a slower runner: divided
by the probe it seems faster there, and slower on a faster one. So the legs as measured must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.statistics import (
    MIN_BASELINE_RUNS,
    MIN_RUNS_TO_CONFIRM,
    count_values,
    mad_sigma,
    medians,
    t_975,
)
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


RATIO: Final = 0.05
CONFIRMED_Z: Final = 3.0
# Of the logarithm: probes of one runner differ by as much from minute to minute.
RESOLUTION: Final = 0.01
OUTLIER_RATIO: Final = 2.0  # 3 to 11 times the usual in 3 of 39 legs of a busy machine
QUARTILES: Final = (0.25, 0.5, 0.75)
AS_MEASURED: Final = len(QUARTILES)  # the column after them
MIN_DIFFERENCE: Final = (
    0.025  # half of RATIO: what a suite must have changed with its runners in it
)

SuiteSpeedState = Literal[
    "slower",
    "maybe slower",
    "faster",
    "maybe faster",
    "no significant difference",
    "unclear",
    "not enough data",
    "not measured",
]


@dataclass(frozen=True, slots=True)
class SuiteSpeed:
    """Change of all durations of a suite, corrected for the speed of the runners by their probes.

    Attributes:
        ratio: relative change of the durations; 0.1 is 10 % slower.
        low, high: 95 % interval of `ratio`.
        n: number of baseline runs with a probe.
        measured_ratio: uncorrected change, if it contradicts `ratio`; otherwise None.
    """

    verdict: SuiteSpeedState
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    measured_ratio: float | None = None


NO_SUITE_SPEED: Final = SuiteSpeed("not measured")


def without_outliers(probe_s: Floats, baseline_median_s: float | None) -> Floats:
    """The probes without those that are too far off: no runner is half as fast as the others.

    Args:
        baseline_median_s: of the baseline's probes; None leaves all as they are.
    """
    return (
        probe_s
        if baseline_median_s is None
        else np.where(probe_s > OUTLIER_RATIO * baseline_median_s, np.nan, probe_s)
    )


def probe_adjusted_speed(speed: Floats, probe_s: Floats, run: Integers, runs: int) -> Floats:
    """The logarithm of each run's own speed: quartiles over its legs; NaN where none has both.

    Behind them stands the median of the same legs as measured, runners included.

    Args:
        speed: of each leg, as a logarithm; NaN could not be told.
        probe_s: of each leg's runner; NaN was not measured.
        run: of each leg.

    Returns:
        (runs, 4); of two legs, the quartiles are the two.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        own = speed - np.log(probe_s)
    found = np.full((runs, AS_MEASURED + 1), np.nan)
    for number in range(runs):
        there = (run == number) & np.isfinite(own)
        legs = own[there]
        if len(legs):
            found[number] = (
                np.quantile(legs, QUARTILES[0], method="lower"),
                np.median(legs),
                np.quantile(legs, QUARTILES[2], method="higher"),
                np.median(speed[there]),
            )
    return found


def judge_suite_speed(
    candidate: Floats, baseline: Floats, previous: Floats | None = None
) -> SuiteSpeed:
    """Compare a run's own speed with those of the baseline's runs.

    All are as `probe_adjusted_speed` gives them.

    Args:
        candidate: its three quartiles, and as measured.
        baseline: of each run; (runs, 4).
        previous: of an earlier run of the same change.
    """
    middles = baseline[:, 1]
    known = middles[np.isfinite(middles)]
    n = len(known)
    if not np.isfinite(candidate[1]) or n < MIN_BASELINE_RUNS:
        word: SuiteSpeedState = (
            "not enough data" if np.isfinite(candidate[1]) and n else "not measured"
        )
        return SuiteSpeed(word, n=n)
    usual = float(np.median(known))
    difference = float(candidate[1]) - usual
    error = max(float(np.std(known, ddof=1)), RESOLUTION) * float(np.sqrt(1 + 1 / n))
    width = float(t_975(np.array([n - 1]))[0]) * error
    low, ratio, high = (
        float(np.expm1(x)) for x in (difference - width, difference, difference + width)
    )
    word = "no significant difference"
    outcomes: tuple[tuple[int, SuiteSpeedState, SuiteSpeedState], ...] = (
        (1, "slower", "maybe slower"),
        (-1, "faster", "maybe faster"),
    )
    for sign, sure, maybe in outcomes:
        # What three quarters of the legs say at least, in either direction.
        least = 0 if sign > 0 else len(QUARTILES) - 1
        if _is_significant(sign * (candidate - usual), least, width):
            runs = (candidate,) if previous is None else (candidate, previous)
            twice = len(runs) > 1 and all(
                _is_significant(sign * (run - usual), least, CONFIRMED_Z * error) for run in runs
            )
            word = sure if twice and n >= MIN_RUNS_TO_CONFIRM else maybe
            measured = float(candidate[AS_MEASURED] - np.nanmedian(baseline[:, AS_MEASURED]))
            if np.expm1(sign * measured) < MIN_DIFFERENCE:
                return SuiteSpeed("unclear", ratio, low, high, n, float(np.expm1(measured)))
    return SuiteSpeed(word, ratio, low, high, n)


def _is_significant(difference: Floats, quartile: int, distance: float) -> bool:
    """Say that the median leg differs by the floor, and the `least` quartile beyond noise."""
    return bool(np.expm1(difference[1]) >= RATIO and difference[quartile] > distance)
