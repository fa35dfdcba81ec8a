"""The change point of a series: the step or creep that explains its values best, if any. Pure.

Of all ramps (a level, a straight line to another level, that level) the best fit to the logarithms
is judged by its t statistic, whose threshold is for the largest of all (Andrews 1993, Econometrica
61). A step is a ramp over one run. As neighbours depend on each other, the variance is that of an
AR(1) process with the autocorrelation of the residuals (Andrews 1991, Econometrica 59).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MIN_RUNS: Final = 20
MIN_SIDE: Final = 5  # runs before a change, and since its first one
MIN_MOVED: Final = 0.25  # of a change, between the medians before and after: else it is an outlier
WINDOWS: Final = (40, 60)  # newest values that are judged alone, too
LENGTHS: Final = 40  # of ramps, in geometric progression
# Of unchanged series with an autocorrelation up to 0.5, less than 2 % exceed it, at 20 runs, too.
THRESHOLD: Final = 5.2
MIN_NOISE: Final = 0.02  # of a value: smaller changes explain no slow runs
MAX_CORRELATION: Final = 0.9


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level by `ratio`, over a number of values: 1 for a step.

    `before` and `first` are positions of the last value before it, and of its first one.
    """

    before: int
    first: int
    values: int
    ratio: float


def find_change(values: Sequence[float | None]) -> ChangePoint | None:
    """Return the most significant change; None without one, or for < 20 known values > 0.

    One ramp does not explain two changes: the newest values are judged alone, too.
    """
    known = {at: value for at, value in enumerate(values) if value is not None and value > 0}
    logs, positions = np.log(list(known.values())), list(known)
    sizes = {len(known), *(size for size in WINDOWS if size < len(known))}
    judged = (_judge(logs[-size:], positions[-size:]) for size in sizes if size >= MIN_RUNS)
    found = [change for change in judged if change is not None]
    return max(found, key=lambda change: change[0])[1] if found else None


def _judge(logs: NDArray[Any], positions: Sequence[int]) -> tuple[float, ChangePoint] | None:
    """Return the t statistic of the best ramp, and the change; None if it is not significant."""
    n = len(logs)
    logs = logs - logs.mean()
    before, length, ramps, heights = _ramps(n)
    fits = np.einsum("ij,j->i", ramps, logs)  # `@` has threads, which wait on a busy machine
    best = int(np.argmax(np.abs(fits)))
    residuals = logs - fits[best] * ramps[best]
    square = max(float(residuals @ residuals), n * MIN_NOISE**2)
    # The residuals of short series are less correlated than the noise: by 4 / n, measured.
    correlation = np.clip(residuals[1:] @ residuals[:-1] / square + 4 / n, 0, MAX_CORRELATION)
    error = np.sqrt(square / (n - 4) * (1 + correlation) / (1 - correlation))
    change, t = fits[best] * heights[best], abs(fits[best]) / error
    at = int(before[best]) + 1
    moved = np.median(logs[at:]) - np.median(logs[:at])
    if t < THRESHOLD or abs(moved) < MIN_MOVED * abs(change):
        return None
    ratio = float(np.expm1(change))
    return float(t), ChangePoint(positions[at - 1], positions[at], int(length[best]), ratio)


@lru_cache(maxsize=8)
def _ramps(n: int) -> tuple[NDArray[Any], ...]:
    """Return start, length, values and height of the ramps: (ramps, n) values, mean 0, norm 1."""
    lengths = np.unique(np.round(np.geomspace(1, n, LENGTHS)))
    starts = np.arange(MIN_SIDE - 1, n - MIN_SIDE)
    before, length = (axis.ravel() for axis in np.meshgrid(starts, lengths))
    is_inside = before + length < n
    before, length = before[is_inside], length[is_inside]
    ramps = np.clip((np.arange(n) - before[:, None]) / length[:, None], 0, 1)
    ramps -= ramps.mean(axis=1, keepdims=True)
    norms = np.sqrt((ramps**2).sum(axis=1))
    return before, length, ramps / norms[:, None], 1 / norms
