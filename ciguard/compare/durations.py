"""Wall times against the baseline, with each runner's speed taken out. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.series import STEADY_S
from ciguard.compare.changes import Judgement
from ciguard.compare.findings import Floor, Numbers, Question, judge
from ciguard.compare.normalise import MANY
from ciguard.compare.statistics import counts, error, moderated_scale
from ciguard.compare.verdicts import said

if TYPE_CHECKING:
    from ciguard.compare.normalise import Baseline, Speeds
    from ciguard.compare.runs import Run
    from ciguard.compare.statistics import Floats

SUSPECT: Final = Floor(z=2.0, ratio=0.05, amount=0.050)
CONFIRMED: Final = Floor(z=3.0, ratio=0.10, amount=0.100)
# Named even when it is chance: whoever made a test three times as slow wants to know it at once.
LARGE: Final = Floor(z=0.0, ratio=2.0, amount=1.0)
NOISY: Final = 1.5  # times the baseline's spread: then this run's durations tell nothing
RESOLUTION: Final = 0.001  # of a value: no timer of a test is better


def judge_durations(
    run: Run, speeds: Speeds, baseline: Baseline, again: Floats | None = None
) -> Judgement:
    """Hold a run's wall times against the baseline.

    Args:
        speeds: the run at the baseline's speed.
        again: an earlier run of the same change, as `confirming` gives it.
    """
    number = counts(baseline.logs)
    # Times under 50 ms are the timer's and the caches': not judged where both are.
    judged = (baseline.steady | (speeds.logs >= np.log(STEADY_S))) & ~np.isnan(speeds.logs)
    ratio = speeds.noise_over(baseline)
    scale = np.maximum(moderated_scale(baseline.logs, baseline.reference), RESOLUTION)

    def numbers(logs: Floats) -> Numbers:
        logs = np.where(judged, logs, np.nan)
        before = np.where(judged, np.exp(baseline.reference), np.nan)
        return Numbers(
            before, np.exp(logs), logs - baseline.reference, error(scale, number), number
        )

    # Without a known speed nothing is confirmed: the whole runner may have been slow.
    sure = speeds.known | speeds.few
    twice = None if again is None else numbers(np.where(sure, again, np.nan))
    # Where few tests told it, the baseline's runners are in its values: the slowest of them, too.
    extremes = np.exp(np.where(speeds.few[:, None], baseline.logs, np.nan))
    found = numbers(speeds.logs)
    large = found.moved(LARGE, 1)
    # A leg whose tests all take three times as long would else be a slow runner.
    measured = replace(found, after=np.where(judged, run.wall_s, np.nan)).moved(LARGE, 1)
    question = Question(
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
    return judge(question) if ratio is None or ratio <= NOISY else _too_noisy(question, ratio)


def _too_noisy(question: Question, ratio: float) -> Judgement:
    numbers = question.numbers
    judged = int((~np.isnan(numbers.after) & (numbers.n >= MANY)).sum())
    losses = question.large_losses()
    words = said("wall_s", "too noisy to judge", losses=losses, spread=ratio)
    return Judgement("wall_s", "too noisy to judge", words, judged, losses=losses, spread=ratio)


def confirming(speeds: Speeds, baseline: Baseline) -> Floats:
    """What of an earlier run can confirm: logarithms at a known speed, in a run not too noisy."""
    ratio = speeds.noise_over(baseline)
    noisy = ratio is not None and ratio > NOISY
    return np.where((speeds.known | speeds.few) & (not noisy), speeds.logs, np.nan)
