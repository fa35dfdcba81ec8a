"""Metric series that never were, to count false alarms of their judgement, and how often it sleeps.

Each series is a time in seconds around 1 with independent noise, `runs` past values and a new one.
The kinds of noise are those of STATISTICS: normal; Student's t with 4 degrees of freedom, scaled to
the same standard deviation; the same with hiccups (0.3 % of the values take 1.5 times longer on
average); two modes (15 % more in 3 of 10 runs, 0.4 % noise). `rare` is a count that is 4, and 5 in
one of 20 runs: the rate that deceives 20 past runs most often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from compare.compare_factories import case, run_of

from ciguard.compare.metric_changes import compare_metrics
from ciguard.history.metric_series import RunValue

if TYPE_CHECKING:
    from ciguard.compare.run_columns import Run
    from ciguard.history.metric_series import MetricKey

Floats = np.ndarray[Any, Any]
Noise = Literal["normal", "heavy", "hiccups", "modes", "rare"]
HEAVY_TAIL: Final = 4  # degrees of freedom
BASE: Final = run_of({"01": [case("a")]})


@dataclass
class MetricScore:
    """Over many comparisons.

    Attributes:
        alarmed: comparisons in which a metric that did not change is worse, better or changed.
        alarms: such metrics.
        found: comparisons in which the changed metric is worse.
    """

    comparisons: int = 0
    alarmed: int = 0
    alarms: int = 0
    found: int = 0


def draw(
    random: np.random.Generator, noise: Noise, spread: float, shape: tuple[int, int]
) -> Floats:
    if noise == "rare":
        return np.where(random.random(shape) < 0.05, 5.0, 4.0)
    if noise in ("normal", "modes"):
        found: Floats = np.exp(random.normal(0, spread, shape))
        if noise == "modes":
            found *= np.where(random.random(shape) < 0.3, 1.15, 1.0)
        return found
    found = np.exp(random.standard_t(HEAVY_TAIL, shape) * spread / np.sqrt(2))
    if noise == "hiccups":
        found *= 1 + (random.random(shape) < 0.003) * random.exponential(1.5, shape)
    return found


def score_metrics(
    comparisons: int,
    *,
    series: int = 20,
    runs: int = 20,
    noise: Noise = "normal",
    spread: float = 0.01,
    growth: float = 0.0,
    seed: int = 0,
) -> MetricScore:
    """Judge one new run each; `growth` is what the change does to the first of the series."""
    random = np.random.default_rng(seed)
    total = MetricScore(comparisons)
    keys: list[MetricKey] = [(f"m{number:03}", "s", ()) for number in range(series)]
    for _ in range(comparisons):
        table = draw(random, noise, spread, (series, runs + 1))
        table[0, -1] *= 1 + growth
        rows = dict(zip(keys, table.tolist(), strict=True))
        past = {
            key: [RunValue(run_id, value) for run_id, value in enumerate(row[:-1], 1)]
            for key, row in rows.items()
        }
        run = _run({key: (row[-1],) for key, row in rows.items()})
        verdicts = {one.name: one.verdict for one in compare_metrics(BASE, run, past, {}).changes}
        hit = verdicts.pop("m000") if growth else "same"
        false = sum(verdict in ("worse", "better", "changed") for verdict in verdicts.values())
        total.found += hit == "worse"
        total.alarms += false
        total.alarmed += false > 0
    return total


def _run(metrics: dict[Any, tuple[float, ...]]) -> Run:
    return replace(BASE, metrics=metrics)
