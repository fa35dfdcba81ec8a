"""Whether the whole suite became slower, told from slow runners by a fixed piece of CPU work. Pure.

Taking each leg's speed out of its tests takes out what slowed down all of them, too. What is left
of a leg's speed once the probe of its runner is divided out is the suite's own. A probe takes a
moment, in which a runner may not be what it is: three quarters of the legs must say the same. And
a suite that waits more than it computes takes no longer on a slower runner: divided by the probe it
seems faster there, and slower on a faster one. So the legs as measured must say the same, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.normalise import MANY
from ciguard.compare.statistics import quantile_95
from ciguard.compare.vocabulary import CONFIRMING
from ciguard.compare.wholes import Pace
from ciguard.compare.words import pace_words, unclear_pace

if TYPE_CHECKING:
    from ciguard.compare.normalise import Integers
    from ciguard.compare.statistics import Floats
    from ciguard.compare.vocabulary import PaceWord

RATIO: Final = 0.05
CONFIRMED_Z: Final = 3.0
# Of the logarithm: probes of one runner differ by as much from minute to minute.
FINEST: Final = 0.01
OFF: Final = 2.0  # 3 to 11 times the usual in 3 of 39 legs of a busy machine
QUARTILES: Final = (0.25, 0.5, 0.75)
AS_MEASURED: Final = len(QUARTILES)  # the column behind them
LEAST: Final = 0.025  # half of RATIO: what a suite must have changed with its runners in it


def believed(probe_s: Floats, usual_s: float | None) -> Floats:
    """The probes without those that are too far off: no runner is half as fast as the others.

    Args:
        usual_s: what a probe takes on the baseline's runners; None leaves all as they are.
    """
    return probe_s if usual_s is None else np.where(probe_s > OFF * usual_s, np.nan, probe_s)


def own_speed(speed: Floats, probe_s: Floats, run: Integers, runs: int) -> Floats:
    """The logarithm of each run's own pace: quartiles over its legs; NaN where none has both.

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


def judge_pace(candidate: Floats, baseline: Floats, previous: Floats | None = None) -> Pace:
    """Hold a run's own pace against those of the baseline's runs; all as `own_speed` gives them.

    Args:
        candidate: its three quartiles, and as measured.
        baseline: of each run; (runs, 4).
        previous: of an earlier run of the same change.
    """
    middles = baseline[:, 1]
    known = middles[np.isfinite(middles)]
    n = len(known)
    if not np.isfinite(candidate[1]) or n < MANY:
        word: PaceWord = "not enough data" if np.isfinite(candidate[1]) and n else "not measured"
        return Pace(word, pace_words(word, n=n), n=n)
    usual = float(np.median(known))
    difference = float(candidate[1]) - usual
    error = max(float(np.std(known, ddof=1)), FINEST) * float(np.sqrt(1 + 1 / n))
    width = float(quantile_95(np.array([n - 1]))[0]) * error
    low, ratio, high = (
        float(np.expm1(x)) for x in (difference - width, difference, difference + width)
    )
    word = "no significant difference"
    outcomes: tuple[tuple[int, PaceWord, PaceWord], ...] = (
        (1, "slower", "maybe slower"),
        (-1, "faster", "maybe faster"),
    )
    for sign, sure, maybe in outcomes:
        # What three quarters of the legs say at least, in either direction.
        least = 0 if sign > 0 else len(QUARTILES) - 1
        if _beyond(sign * (candidate - usual), least, width):
            runs = (candidate,) if previous is None else (candidate, previous)
            twice = len(runs) > 1 and all(
                _beyond(sign * (run - usual), least, CONFIRMED_Z * error) for run in runs
            )
            word = sure if twice and n >= CONFIRMING else maybe
            measured = float(candidate[AS_MEASURED] - np.nanmedian(baseline[:, AS_MEASURED]))
            if np.expm1(sign * measured) < LEAST:
                word, factor = "unclear", float(np.exp(measured))
                said = unclear_pace(factor, factor / (1 + ratio), n)
                return Pace(word, said, ratio, low, high, n)
    aside = ""
    if word == "no significant difference" and not low <= 0 <= high:
        is_small = np.expm1(abs(difference)) < RATIO
        aside = (
            f"below {100 * RATIO:.0f} %" if is_small else "three quarters of its legs do not say so"
        )
    said = pace_words(word, ratio=ratio, low=low, high=high, n=n, aside=aside)
    return Pace(word, said, ratio, low, high, n)


def _beyond(difference: Floats, least: int, distance: float) -> bool:
    """Say that the median leg differs by the floor, and the `least` quartile beyond noise."""
    return bool(np.expm1(difference[1]) >= RATIO and difference[least] > distance)
