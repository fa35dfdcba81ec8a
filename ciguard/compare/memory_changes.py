"""Peak deltas against the baseline: what a test adds to the memory it finds. Pure.

The delta does not depend on the order of tests, as the absolute peak does, and runners do not
differ in it; what it has is modes, so both the median and the extreme must be exceeded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.enums import MIN_BASELINE_RUNS
from ciguard.compare.significance import CaseInput, Effects, Thresholds, classify
from ciguard.compare.statistics import count_values, medians, moderated_scale, prediction_error

if TYPE_CHECKING:
    from ciguard.compare.baseline_matrix import BaselineMatrix
    from ciguard.compare.run_columns import Run
    from ciguard.compare.statistics import Flags, Floats
    from ciguard.compare.test_changes import MeasureVerdict

MIB: Final = 1024 * 1024
FLOOR: Final = Thresholds(z=4.0, ratio=0.03, amount=4 * MIB)
# A delta may be 0, which has no logarithm: 1 MiB is added to each.
OFFSET_BYTES: Final = MIB
RESOLUTION_BYTES: Final = MIB // 16  # what 99 % of repeated measurements agree within


def judge_memory(
    run: Run, comparable: Flags, table: BaselineMatrix, previous_effects: Floats | None = None
) -> MeasureVerdict:
    """Hold a run's peak deltas against the baseline.

    Args:
        comparable: cases that ran to their good end in this run.
        again: peak deltas of an earlier run of the same change, by case.
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
            run, "peak_delta_bytes", numbers(after), twice, FLOOR, FLOOR, baseline_extremes=peaks
        )
    )
    measured = comparable & ~np.isnan(run.peak_delta_bytes)
    otherwise = int((measured & (number < MIN_BASELINE_RUNS) & (table.other_method > 0)).sum())
    return replace(found, measured_otherwise=otherwise)
