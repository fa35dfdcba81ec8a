"""Wall times against the baseline, with each runner's speed taken out. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.enums import MIN_BASELINE_RUNS
from ciguard.compare.significance import CaseInput, Effects, Thresholds, classify
from ciguard.compare.statistics import count_values, moderated_scale, prediction_error
from ciguard.compare.test_changes import MeasureVerdict
from ciguard.history.query import STEADY_S

if TYPE_CHECKING:
    from ciguard.compare.normalize import NormalizedBaseline, NormalizedRun
    from ciguard.compare.run_columns import Run
    from ciguard.compare.statistics import Floats

SUSPECT: Final = Thresholds(z=2.0, ratio=0.05, amount=0.050)
CONFIRMED: Final = Thresholds(z=3.0, ratio=0.10, amount=0.100)
# Named even when it is chance: whoever made a test three times as slow wants to know it at once.
LARGE: Final = Thresholds(z=0.0, ratio=2.0, amount=1.0)
NOISY: Final = 1.5  # times the baseline's spread: then this run's durations tell nothing
RESOLUTION: Final = 0.001  # of a value: no timer of a test is better


def judge_durations(
    run: Run,
    speeds: NormalizedRun,
    baseline: NormalizedBaseline,
    previous_effects: Floats | None = None,
) -> MeasureVerdict:
    """Hold a run's wall times against the baseline.

    Args:
        speeds: the run at the baseline's speed.
        again: an earlier run of the same change, as `confirming` gives it.
    """
    number = count_values(baseline.log_wall)
    # Times under 50 ms are the timer's and the caches': not judged where both are.
    comparable = (baseline.steady | (speeds.log_wall >= np.log(STEADY_S))) & ~np.isnan(
        speeds.log_wall
    )
    ratio = speeds.noise_ratio(baseline)
    scale = np.maximum(moderated_scale(baseline.log_wall, baseline.reference), RESOLUTION)

    def numbers(logs: Floats) -> Effects:
        logs = np.where(comparable, logs, np.nan)
        before = np.where(comparable, np.exp(baseline.reference), np.nan)
        return Effects(
            before, np.exp(logs), logs - baseline.reference, prediction_error(scale, number), number
        )

    # Without a known speed nothing is confirmed: the whole runner may have been slow.
    sure = speeds.has_speed | speeds.low_confidence
    twice = None if previous_effects is None else numbers(np.where(sure, previous_effects, np.nan))
    # Where few tests told it, the baseline's runners are in its values: the slowest of them, too.
    extremes = np.exp(np.where(speeds.low_confidence[:, None], baseline.log_wall, np.nan))
    found = numbers(speeds.log_wall)
    large = found.exceeds_thresholds(LARGE, 1)
    # A leg whose tests all take three times as long would else be a slow runner.
    measured = replace(found, after=np.where(comparable, run.wall_s, np.nan)).exceeds_thresholds(
        LARGE, 1
    )
    question = CaseInput(
        run,
        "wall_s",
        found,
        twice,
        SUSPECT,
        CONFIRMED,
        extremes,
        ratio,
        large=large | measured,
        measured=np.where(measured & ~large, run.wall_s, np.nan),
    )
    return classify(question) if ratio is None or ratio <= NOISY else _too_noisy(question, ratio)


def _too_noisy(question: CaseInput, ratio: float) -> MeasureVerdict:
    numbers = question.numbers
    comparable = int((~np.isnan(numbers.after) & (numbers.n >= MIN_BASELINE_RUNS)).sum())
    losses = question.large_losses()
    return MeasureVerdict(
        "wall_s", "too noisy to judge", comparable, losses=losses, noise_ratio=ratio
    )


def confirmable_logs(speeds: NormalizedRun, baseline: NormalizedBaseline) -> Floats:
    """What of an earlier run can confirm: logarithms at a known speed, in a run not too noisy."""
    ratio = speeds.noise_ratio(baseline)
    noisy = ratio is not None and ratio > NOISY
    return np.where(
        (speeds.has_speed | speeds.low_confidence) & (not noisy), speeds.log_wall, np.nan
    )
