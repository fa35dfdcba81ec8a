"""Speed of each runner by its tests, and change of the speed of the whole suite. Pure.

All numbers are logarithms: a runner that is 30 % slower adds 0.26 to each of its tests. If tests
are divided by the speed of their leg, a change that slowed all of them is hidden. Therefore the
speed of a leg is divided by the probe of its runner, a fixed piece of CPU work: the rest is the
suite's speed.

A probe is short, and may meet an unusual moment of its runner, so that three quarters of the legs
must agree. A suite that mainly waits is not slower on a slower runner: divided by the probe, it
seems faster there. Therefore the uncorrected legs must agree as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.compare.statistics import (
    MIN_BASELINE_RUNS,
    MIN_RUNS_TO_CONFIRM,
    count_values,
    mad_sigma,
    medians,
    student_975,
)
from ciguard.history.query import STEADY_S, STEADY_TESTS

PASSES: Final = 2
HELD_OUT_RUNS: Final = 5  # baseline runs that are compared with the others to learn their noise
MIN_TESTS: Final = 5  # tests of 50 ms in a run: with fewer, one test alone decides the median


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedBaseline:
    """The baseline at one speed.

    Attributes:
        log_wall: (cases, 20) logarithms of wall times, minus the speed of their leg.
        reference: median of each row; NaN without a value.
        steady: cases of at least 50 ms, which show the speed of a leg and are judged.
        residual_noise: noise of a run against the others; NaN if there are too few.
        speed: logarithm of the speed of each group; NaN if unknown.
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
        speed_factor: by leg; 1.3 is 30 % slower, NaN is unknown.
        has_speed: by case, whether the speed of its leg is known.
        low_confidence: by case, whether only the median of 5 to 19 tests is known.
    """

    log_wall: Floats
    speed_factor: Floats
    has_speed: Flags
    low_confidence: Flags
    residual_noise: float

    def noise_ratio(self, baseline: NormalizedBaseline) -> float | None:
        """Return the residual noise over that of the baseline; None if one is unknown."""
        if np.isnan(self.residual_noise) or not baseline.residual_noise > 0:
            return None
        return self.residual_noise / baseline.residual_noise


def speed_factors(residuals: Floats, group: Integers, run_of_group: Integers) -> Floats:
    """Return the median residual of each group; of its run if the group is small; otherwise NaN.

    Args:
        residuals: those of the measured, steady cases.
        group: the group of each residual.
        run_of_group: the run of each group.
    """
    by_group = _medians_of(residuals, group, len(run_of_group))
    if not len(run_of_group):
        return by_group
    by_run = _medians_of(residuals, run_of_group[group], int(run_of_group.max()) + 1)
    return np.where(np.isnan(by_group), by_run[run_of_group], by_group)


def _medians_of(residuals: Floats, group: Integers, groups: int) -> Floats:
    group_medians = np.full(groups, np.nan)
    # Sixteen bits are sorted by radix: 2,000,000 values in 20 ms; 64 bits take 200 ms.
    narrow = group.astype(np.uint16) if groups <= np.iinfo(np.uint16).max else group
    ordered = residuals[np.argsort(narrow, kind="stable")]
    sizes = np.bincount(group, minlength=groups)
    ends = np.cumsum(sizes)
    for number in np.flatnonzero(sizes >= STEADY_TESTS).tolist():
        members = ordered[ends[number] - sizes[number] : ends[number]]
        group_medians[number] = np.median(members)
    return group_medians


def normalize_baseline(
    wall_s: Floats, group: Integers, run_of_group: Integers
) -> NormalizedBaseline:
    """Divide the values of each leg by its speed, in two passes.

    Args:
        wall_s: (cases, 20), > 0 or NaN.
        group: the group of each value, or -1.
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
    """Return the residual noise of a baseline run against the others, as for a candidate."""
    enough = count_values(logs) >= MIN_BASELINE_RUNS
    logs, group = logs[enough], group[enough]
    if not len(logs):
        return float("nan")
    run = np.where(group >= 0, run_of_group[np.maximum(group, 0)], -1)
    spreads = []
    for held_out in np.unique(run[run >= 0])[-HELD_OUT_RUNS:]:
        mine = run == held_out
        # A run has one value in a row, so the sum is this value.
        own = np.nansum(np.where(mine, logs, 0.0), axis=1)[mine.any(axis=1)]
        other_medians = medians(np.where(mine, np.nan, logs))[mine.any(axis=1)]
        if len(own) >= STEADY_TESTS:
            residuals = own - other_medians
            spreads.append(mad_sigma(residuals - np.median(residuals)))
    return float(np.median(spreads)) if spreads else float("nan")


def normalize_run(
    wall_s: Floats, leg: NDArray[np.int32], legs: int, baseline: NormalizedBaseline
) -> NormalizedRun:
    """Divide the values of a run by the speed of their leg.

    Args:
        wall_s: by case, NaN if not comparable.
        leg: position of the leg, by case.
        legs: number of legs.
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
    """Return the smaller of each change and its difference from the run's median change.

    The median of few tests is no speed to divide by, as it may have changed itself. But neither the
    runner nor a few other tests explain a change that remains in both views.
    """
    relative_to_run = change - np.median(residuals)
    nearer = np.where(np.abs(relative_to_run) < np.abs(change), relative_to_run, change)
    return np.where(relative_to_run * change > 0, nearer, 0.0)


RATIO: Final = 0.05
CONFIRMED_Z: Final = 3.0
# Probes of one runner differ by as much (of the logarithm) from minute to minute.
RESOLUTION: Final = 0.01
OUTLIER_RATIO: Final = 2.0  # 3 of 39 legs of a busy machine were 3 to 11 times as slow
QUARTILES: Final = (0.25, 0.5, 0.75)
AS_MEASURED: Final = len(QUARTILES)  # the column after the quartiles
MIN_DIFFERENCE: Final = 0.025  # half of RATIO: the least uncorrected change of a suite

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


def probe_adjusted_speed(
    speed: Floats, probe_s: Floats, run: Integers, runs: int, baseline_probe_s: float | None
) -> Floats:
    """Return the logarithm of each run's own speed: three quartiles over its legs, or NaN.

    The fourth column has the median of the uncorrected speeds of the same legs.

    Args:
        speed: logarithm of the speed of each leg; NaN is unknown.
        probe_s: CPU probe of each leg's runner; NaN is not measured.
        run: the run of each leg.
        baseline_probe_s: median of the baseline's probes, by which outliers are left out: no runner
            is half as fast as the others. None: no probe is an outlier.

    Returns:
        (runs, 4); for two legs, the outer quartiles are the two.
    """
    most_s = np.inf if baseline_probe_s is None else OUTLIER_RATIO * baseline_probe_s
    with np.errstate(divide="ignore", invalid="ignore"):
        own = speed - np.log(np.where(probe_s > most_s, np.nan, probe_s))
    table = np.full((runs, AS_MEASURED + 1), np.nan)
    for number in range(runs):
        is_known = (run == number) & np.isfinite(own)
        legs = own[is_known]
        if len(legs):
            table[number] = (
                np.quantile(legs, QUARTILES[0], method="lower"),
                np.median(legs),
                np.quantile(legs, QUARTILES[2], method="higher"),
                np.median(speed[is_known]),
            )
    return table


def judge_suite_speed(
    candidate: Floats, baseline: Floats, previous: Floats | None = None
) -> SuiteSpeed:
    """Compare a run's own speed with those of the baseline's runs.

    Args:
        candidate: its row of `probe_adjusted_speed`.
        baseline: (runs, 4), the rows of the baseline's runs.
        previous: the row of an earlier run of the same change.
    """
    middles = baseline[:, 1]
    known = middles[np.isfinite(middles)]
    n = len(known)
    if not np.isfinite(candidate[1]) or n < MIN_BASELINE_RUNS:
        state: SuiteSpeedState = (
            "not enough data" if np.isfinite(candidate[1]) and n else "not measured"
        )
        return SuiteSpeed(state, n=n)
    usual = float(np.median(known))
    difference = float(candidate[1]) - usual
    error = max(float(np.std(known, ddof=1)), RESOLUTION) * float(np.sqrt(1 + 1 / n))
    width = student_975(n - 1) * error
    low, ratio, high = (
        float(np.expm1(x)) for x in (difference - width, difference, difference + width)
    )
    state = "no significant difference"
    outcomes: tuple[tuple[int, SuiteSpeedState, SuiteSpeedState], ...] = (
        (1, "slower", "maybe slower"),
        (-1, "faster", "maybe faster"),
    )
    for sign, sure, maybe in outcomes:
        # The quartile that three quarters of the legs reach, in either direction.
        least = 0 if sign > 0 else len(QUARTILES) - 1
        if _is_significant(sign * (candidate - usual), least, width):
            runs = (candidate,) if previous is None else (candidate, previous)
            is_repeated = len(runs) > 1 and all(
                _is_significant(sign * (run - usual), least, CONFIRMED_Z * error) for run in runs
            )
            state = sure if is_repeated and n >= MIN_RUNS_TO_CONFIRM else maybe
            measured = float(candidate[AS_MEASURED] - np.nanmedian(baseline[:, AS_MEASURED]))
            if np.expm1(sign * measured) < MIN_DIFFERENCE:
                return SuiteSpeed("unclear", ratio, low, high, n, float(np.expm1(measured)))
    return SuiteSpeed(state, ratio, low, high, n)


def _is_significant(difference: Floats, quartile: int, distance: float) -> bool:
    """Return whether the median leg differs by RATIO, and the quartile by more than `distance`."""
    return bool(np.expm1(difference[1]) >= RATIO and difference[quartile] > distance)
