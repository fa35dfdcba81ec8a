"""Whether one new value of a metric is like the values of past runs. Pure.

Nothing is known of a metric but its own past, so its spread is its own, and is not moderated by
that of others. The scale is the standard deviation of logarithms (of the values where one is not
above 0); a difference in scales is looked up in Student's t with `DEGREES` degrees of freedom
however many runs there are, for noise has heavier tails than a normal distribution. As one value
can be of a mode that was seen before, it must also lie outside of all past values. False alarms
over all metrics of a run are controlled (Benjamini and Hochberg 1995, JRSS B 57): where nothing
changed, at most `FALSE_ALARM_RATE` of the runs have one, unless a value is of a mode that no past
run had. docs/explanation/statistics.md has what `benchmarks/metric_calibration.py` measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.statistics import MIN_RUNS_TO_CONFIRM, prediction_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.statistics import Flags, Floats

# With 6, a metric that has two modes alarms in 4 % of the runs; with 10 in 1 %.
MIN_RUNS: Final = MIN_RUNS_TO_CONFIRM
FALSE_ALARM_RATE: Final = 0.05  # of unchanged runs, over all of their metrics
DEGREES: Final = 4  # tails of the noise, as of tests/compare/simulation.py
T_975: Final = 2.776445  # of that many degrees, for a two-sided 95 % interval
MIN_SPREAD: Final = 0.005  # of a value: 20 equal values do not prove that it never moves
NEGLIGIBLE: Final = 0.01  # of a value: less is no change, however sure it is


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """A new value beside the past ones.

    Attributes:
        before: median of the past values.
        p: chance of a value that is as far away, if nothing changed; 1 within the past values.
        low, high: 95 % interval of the relative change; None if `before` is not above 0.
    """

    before: float
    p: float
    low: float | None = None
    high: float | None = None


def metric_effect(past: Sequence[float], value: float) -> MetricEffect:
    """Hold a value against at least 2 past ones."""
    values = np.array(past, np.float64)
    before = float(np.median(values))
    is_positive = bool((values > 0).all()) and value > 0
    scaled = np.log(values) if is_positive else values
    middle = float(np.median(scaled))
    difference = (float(np.log(value)) if is_positive else value) - middle
    least = MIN_SPREAD * (1.0 if is_positive else abs(middle))
    spread = max(float(scaled.std(ddof=1)), least)
    error = float(prediction_error(np.array([spread]), np.array([len(values)]))[0])
    p = two_sided_p(difference / error) if error else 0.0  # only zeros, until now
    if not _is_outside(values, before, value):
        p = 1.0
    if before <= 0:
        return MetricEffect(before, p)
    ends = (difference - T_975 * error, difference + T_975 * error)
    low, high = (float(np.expm1(end)) if is_positive else end / before for end in ends)
    return MetricEffect(before, p, low, high)


def _is_outside(values: Floats, before: float, value: float) -> bool:
    """Say that a value lies beyond the median and all past values, by more than is negligible."""
    nearest = float(values.max() if value > before else values.min())
    return all(
        abs(value - other) > NEGLIGIBLE * abs(other) and (value > other) == (value > before)
        for other in (before, nearest)
    )


def two_sided_p(t: float) -> float:
    """Student's t with 4 degrees of freedom, exactly: its distribution has a closed form."""
    share = abs(t) / float(np.sqrt(DEGREES + t * t))
    return max(0.0, 1 - 1.5 * share + 0.5 * share**3)


def discoveries(chances: Sequence[float], rate: float = FALSE_ALARM_RATE) -> Flags:
    """Say which of several changes are none by chance; a `rate` of them at most is, on average."""
    p = np.array(chances, np.float64)
    order = np.argsort(p, kind="stable")
    passes = p[order] <= rate * np.arange(1, len(p) + 1) / max(1, len(p))
    last = int(np.flatnonzero(passes)[-1]) + 1 if passes.any() else 0
    found = np.zeros(len(p), np.bool_)
    found[order[:last]] = True
    return found
