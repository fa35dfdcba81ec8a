"""The change point of a series: the step or creep that explains its values best, if any. Pure.

Of all ramps (a level, a straight line to another level, that level) the best fit to the logarithms
is judged by its t statistic, whose threshold is for the largest of all (Andrews 1993, Econometrica
61). A step is a ramp over one run. As neighbours depend on each other, the variance is that of an
AR(1) process with the autocorrelation of the residuals (Andrews 1991, Econometrica 59).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

MIN_RUNS: Final = 20
MIN_SIDE: Final = 5  # runs before a change, and since its first one
MIN_MOVED: Final = 0.25  # of a change, between the medians before and after: else it is an outlier
LENGTHS: Final = 40  # of ramps, in geometric progression
# Of unchanged series with an autocorrelation up to 0.5, less than 2 % exceed it, at 20 runs, too.
THRESHOLD: Final = 5.0
MIN_RATIO: Final = 0.05  # of a change; a smaller one explains no slow runs
MIN_NOISE: Final = 0.005  # of a value, against equal values
MAX_CORRELATION: Final = 0.9


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level.

    Attributes:
        before: position of the last value at the old level.
        end: position of the first value at the new level; `before + 1` for a step.
        ratio: new level / old level - 1.
    """

    before: int
    end: int
    ratio: float


def find_change(values: Sequence[float]) -> ChangePoint | None:
    """Return the most significant change of a series; None without one, or for < 20 values.

    Args:
        values: all > 0, in their order. O(values^2), 15 ms for 200.
    """
    n = len(values)
    if n < MIN_RUNS:
        return None
    logs = np.log(values)
    logs -= logs.mean()
    before, end, ramps, heights = _ramps(n)
    fits = ramps @ logs
    best = int(np.argmax(np.abs(fits)))
    residuals = logs - fits[best] * ramps[best]
    square = max(float(residuals @ residuals), n * MIN_NOISE**2)
    # The residuals of short series are less correlated than the noise: by 4 / n, measured.
    correlation = float(residuals[1:] @ residuals[:-1]) / square + 4 / n
    correlation = min(max(correlation, 0.0), MAX_CORRELATION)
    error = math.sqrt(square / (n - 4) * (1 + correlation) / (1 - correlation))
    change = float(fits[best] * heights[best])
    at = int(before[best]) + 1
    moved = float(np.median(logs[at:]) - np.median(logs[:at]))
    ratio = math.expm1(change)
    is_significant = abs(fits[best]) >= THRESHOLD * error and abs(moved) >= MIN_MOVED * abs(change)
    if not is_significant or abs(ratio) < MIN_RATIO:
        return None
    return ChangePoint(at - 1, int(end[best]), ratio)


@lru_cache(maxsize=4)
def _ramps(n: int) -> tuple[Integers, Integers, Floats, Floats]:
    """Return start, end, values and height of the ramps: (ramps, n) values of mean 0, norm 1."""
    lengths = np.unique(np.round(np.geomspace(1, n, LENGTHS)).astype(np.int64))
    starts = np.arange(MIN_SIDE - 1, n - MIN_SIDE)
    before, length = (axis.ravel() for axis in np.meshgrid(starts, lengths))
    is_inside = before + length < n
    before, length = before[is_inside], length[is_inside]
    ramps = np.clip((np.arange(n) - before[:, None]) / length[:, None], 0, 1)
    ramps -= ramps.mean(axis=1, keepdims=True)
    norms = np.sqrt((ramps**2).sum(axis=1))
    return before, before + length, ramps / norms[:, None], 1 / norms
