"""Whether the whole suite became slower, told from slow runners by a fixed piece of CPU work. Pure.

Taking each leg's speed out of its tests takes out what slowed down all of them, too. What is left
of a leg's speed once the probe of its runner is divided out is the suite's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.comparison import CONFIRMING, Pace
from ciguard.compare.normalise import MANY
from ciguard.compare.statistics import quantile_95
from ciguard.compare.words import pace_words

if TYPE_CHECKING:
    from ciguard.compare.comparison import PaceWord
    from ciguard.compare.normalise import Integers
    from ciguard.compare.statistics import Floats

RATIO: Final = 0.05
SUSPECT_Z: Final = 2.0
CONFIRMED_Z: Final = 3.0
# Of the logarithm: probes of one runner differ by as much from minute to minute.
FINEST: Final = 0.01


def own_speed(speed: Floats, probe_s: Floats, run: Integers, runs: int) -> Floats:
    """The logarithm of each run's own pace: median over its legs; NaN where none has both.

    Args:
        speed: of each leg, as a logarithm; NaN could not be told.
        probe_s: of each leg's runner; NaN was not measured.
        run: of each leg.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        own = speed - np.log(probe_s)
    found = np.full(runs, np.nan)
    for number in range(runs):
        legs = own[(run == number) & np.isfinite(own)]
        if len(legs):
            found[number] = np.median(legs)
    return found


def judge_pace(candidate: float, baseline: Floats, previous: float = float("nan")) -> Pace:
    """Hold a run's own pace against those of the baseline's runs; all are logarithms, NaN unknown.

    Args:
        previous: of an earlier run of the same change.
    """
    known = baseline[np.isfinite(baseline)]
    n = len(known)
    if not np.isfinite(candidate) or n < MANY:
        word: PaceWord = "not enough data" if np.isfinite(candidate) and n else "not measured"
        return Pace(word, pace_words(word, n=n), n=n)
    difference = candidate - float(np.median(known))
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
    for sign, worse, maybe in outcomes:
        if _beyond(sign * difference, error, SUSPECT_Z):
            word = maybe
            twice = sign * (previous - float(np.median(known)))
            sure = n >= CONFIRMING and all(
                _beyond(one, error, CONFIRMED_Z) for one in (sign * difference, twice)
            )
            word = worse if sure else maybe
    return Pace(word, pace_words(word, ratio=ratio, low=low, high=high, n=n), ratio, low, high, n)


def _beyond(difference: float, error: float, z: float) -> bool:
    return (
        bool(np.isfinite(difference)) and difference > z * error and np.expm1(difference) >= RATIO
    )
