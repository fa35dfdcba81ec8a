"""Whether the whole suite became slower, told from slow runners by a fixed piece of CPU work. Pure.

Taking each leg's speed out of its tests takes out what slowed down all of them, too. What is left
of a leg's speed once the probe of its runner is divided out is the suite's own. A probe takes a
moment, in which a runner may not be what it is: three quarters of the legs must say the same. And
a suite that waits more than it computes takes no longer on a slower runner: divided by the probe it
seems faster there, and slower on a faster one. So the legs as measured must say the same, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.statistics import MIN_BASELINE_RUNS, MIN_RUNS_TO_CONFIRM, t_975

if TYPE_CHECKING:
    from ciguard.compare.normalize import Integers
    from ciguard.compare.statistics import Floats

RATIO: Final = 0.05
CONFIRMED_Z: Final = 3.0
# Of the logarithm: probes of one runner differ by as much from minute to minute.
RESOLUTION: Final = 0.01
OUTLIER_RATIO: Final = 2.0  # 3 to 11 times the usual in 3 of 39 legs of a busy machine
QUARTILES: Final = (0.25, 0.5, 0.75)
AS_MEASURED: Final = len(QUARTILES)  # the column behind them
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
