"""Wall times and peak deltas of a run against the baseline's. Pure.

Of wall times each runner's speed is taken out. A peak delta is what a test adds to the memory it
finds: it does not depend on the order of tests, as the absolute peak does, and runners do not
differ in it; what it has is modes, so both the median and the extreme must be exceeded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.significance import CaseInput, Effects, MeasureVerdict, classify
from ciguard.compare.statistics import (
    MIB,
    MIN_BASELINE_RUNS,
    OFFSET_BYTES,
    RESOLUTION_BYTES,
    Thresholds,
    count_values,
    medians,
    moderated_scale,
    prediction_error,
)
from ciguard.history.query import STEADY_S

if TYPE_CHECKING:
    from ciguard.compare.baseline_matrix import BaselineMatrix
    from ciguard.compare.normalize import NormalizedBaseline, NormalizedRun
    from ciguard.compare.run_columns import Run
    from ciguard.compare.statistics import Flags, Floats

SUSPECT_DURATION: Final = Thresholds(z=2.0, ratio=0.05, amount=0.050)
CONFIRMED_DURATION: Final = Thresholds(z=3.0, ratio=0.10, amount=0.100)
# Named even when it is chance: whoever made a test three times as slow wants to know it at once.
LARGE_DURATION: Final = Thresholds(z=0.0, ratio=2.0, amount=1.0)
NOISY: Final = 1.5  # times the baseline's spread: then this run's durations tell nothing
DURATION_RESOLUTION: Final = 0.001  # of a value: no timer of a test is better
MEMORY_THRESHOLDS: Final = Thresholds(z=4.0, ratio=0.03, amount=4 * MIB)


def judge_durations(
    run: Run,
    speeds: NormalizedRun,
    baseline: NormalizedBaseline,
    previous_effects: Floats | None = None,
) -> MeasureVerdict:
    """Hold a run's wall times against the baseline.

    Args:
        speeds: the run at the baseline's speed.
        previous_effects: an earlier run of the same change, as `confirmable_logs` gives it.
    """
    number = count_values(baseline.log_wall)
    # Times under 50 ms are the timer's and the caches': not judged where both are.
    comparable = (baseline.steady | (speeds.log_wall >= np.log(STEADY_S))) & ~np.isnan(
        speeds.log_wall
    )
    ratio = speeds.noise_ratio(baseline)
    scale = np.maximum(moderated_scale(baseline.log_wall, baseline.reference), DURATION_RESOLUTION)

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
    large = found.exceeds_thresholds(LARGE_DURATION, 1)
    # A leg whose tests all take three times as long would else be a slow runner.
    measured = replace(found, after=np.where(comparable, run.wall_s, np.nan)).exceeds_thresholds(
        LARGE_DURATION, 1
    )
    question = CaseInput(
        run,
        "wall_s",
        found,
        twice,
        SUSPECT_DURATION,
        CONFIRMED_DURATION,
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


def judge_memory(
    run: Run, comparable: Flags, table: BaselineMatrix, previous_effects: Floats | None = None
) -> MeasureVerdict:
    """Hold a run's peak deltas against the baseline.

    Args:
        comparable: cases that ran to their good end in this run.
        previous_effects: peak deltas of an earlier run of the same change, by case.
    """
    peaks = table.peak_delta_bytes
    number = count_values(peaks)
    logs = np.log(np.maximum(peaks, 0) + OFFSET_BYTES)
    reference = medians(logs)
    before = np.exp(reference) - OFFSET_BYTES
    finest = RESOLUTION_BYTES / (before + OFFSET_BYTES)
    scale = np.maximum(moderated_scale(logs, reference), finest)

    def numbers(after: Floats) -> Effects:
        difference = np.log(np.maximum(after, 0) + OFFSET_BYTES) - reference
        return Effects(
            before, after, difference, prediction_error(scale, number), number, OFFSET_BYTES
        )

    after = np.where(comparable & (number > 0), run.peak_delta_bytes, np.nan)
    twice = None if previous_effects is None else numbers(previous_effects)
    found = classify(
        CaseInput(
            run,
            "peak_delta_bytes",
            numbers(after),
            twice,
            MEMORY_THRESHOLDS,
            MEMORY_THRESHOLDS,
            baseline_extremes=peaks,
        )
    )
    measured = comparable & ~np.isnan(run.peak_delta_bytes)
    otherwise = int((measured & (number < MIN_BASELINE_RUNS) & (table.other_method > 0)).sum())
    return replace(found, measured_otherwise=otherwise)
