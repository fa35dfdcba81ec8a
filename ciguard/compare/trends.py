"""Whole runs against whole runs: makespan, sum over the legs, largest peak. Pure.

Only of complete runs: one that lacks a leg is shorter and smaller for nothing. As measured, so that
a slow runner is in it; the tests' own numbers are judged apart from that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.normalise import MANY
from ciguard.compare.runs import leg_of_history
from ciguard.compare.statistics import quantile_95
from ciguard.compare.wholes import Trend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.codec.history import History
    from ciguard.compare.runs import Run, RunLeg
    from ciguard.compare.vocabulary import TrendName, TrendWord

    Measured = Callable[[Sequence[RunLeg]], float | None]

RATIO: Final = 0.05
FINEST: Final = 0.01  # of the logarithm


def _makespan(legs: Sequence[RunLeg]) -> float | None:
    walls = [leg.wall_s for leg in legs if leg.wall_s is not None]
    return max(walls) if walls and len(walls) == len(legs) else None


def _sum(legs: Sequence[RunLeg]) -> float | None:
    walls = [leg.wall_s for leg in legs if leg.wall_s is not None]
    return sum(walls) if walls and len(walls) == len(legs) else None


def _peak(legs: Sequence[RunLeg]) -> float | None:
    return max((leg.peak_bytes for leg in legs if leg.peak_bytes is not None), default=None)


MEASURES: Final[Mapping[TrendName, Measured]] = {
    "makespan_s": _makespan,
    "sum_s": _sum,
    "peak_bytes": _peak,
}


def trends(
    candidate: Run,
    history: History | None,
    used: Sequence[int],
    bases: Sequence[Run],
    *,
    complete: bool,
) -> tuple[Trend, ...]:
    """Hold the whole candidate against whole baseline runs, measure by measure.

    Args:
        complete: nothing says that the candidate lacks a leg.
    """
    past = (
        [[leg_of_history(leg) for leg in history.runs[at].legs] for at in used] if history else []
    )
    past += [list(run.legs) for run in bases]
    whole = [legs for legs in past if legs and all(leg.complete for leg in legs)]
    found = []
    for name, measure in MEASURES.items():
        before = [value for legs in whole if (value := measure(legs))]
        after = measure(candidate.legs) if complete and candidate.complete else None
        if before and after:
            found.append(_trend(name, np.array(before, np.float64), after))
    return tuple(found)


def _trend(
    name: TrendName, before: np.ndarray[tuple[int], np.dtype[np.float64]], after: float
) -> Trend:
    # The median as anybody works it out from the runs; of logarithms the one of an even number of
    # runs would be a bit smaller.
    usual, n = float(np.median(before)), len(before)
    if n < MANY:
        return Trend(name, usual, after, "no verdict", n)
    logs, middle = np.log(before), math.log(usual)
    error = max(float(np.std(logs, ddof=1)), FINEST) * float(np.sqrt(1 + 1 / n))
    width = float(quantile_95(np.array([n - 1]))[0]) * error
    difference = float(np.log(after)) - middle
    word: TrendWord = "no significant difference"
    if abs(difference) > width and abs(np.expm1(difference)) >= RATIO:
        word = "more than usual" if difference > 0 else "less than usual"
    low, high = (float(np.exp(middle + side)) for side in (-width, width))
    return Trend(name, usual, after, word, n, low, high)
