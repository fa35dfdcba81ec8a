"""Wall times and peak deltas of a run against the baseline's: what is worse, and how sure. Pure.

With thousands of tests a rare accident is an everyday event: no rule over one run has both fewer
than one false alarm per pull request and any power. So one run gives suspects, and what a second
run of the same change repeats is confirmed. A run is never held against itself.

Of wall times each runner's speed is taken out. A peak delta is what a test adds to the memory it
finds: it does not depend on the order of tests, as the absolute peak does, and runners do not
differ in it; what it has is modes, so both the median and the extreme must be exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.statistics import (
    MIB,
    MIN_BASELINE_RUNS,
    MIN_RUNS_TO_CONFIRM,
    OFFSET_BYTES,
    RESOLUTION_BYTES,
    Thresholds,
    count_values,
    medians,
    moderated_scale,
    prediction_error,
    t_975,
)
from ciguard.history.query import STEADY_S
from ciguard.text import case_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ciguard.compare.baseline_matrix import BaselineMatrix
    from ciguard.compare.run_columns import Run
    from ciguard.compare.statistics import Flags, Floats, Tier
    from ciguard.compare.suite_speed import NormalizedBaseline, NormalizedRun
    from ciguard.model import CaseKey


MAX_SUSPECTS: Final = 40  # largest suspects: more are not read

Measure = Literal["wall_s", "peak_delta_bytes"]


MEASURE_NOUN: Final[dict[Measure, str]] = {"wall_s": "duration", "peak_delta_bytes": "peak memory"}


# "incomplete": an improvement of an incomplete run; "baseline incomplete": measured before only in
# legs that did not end by themselves.
MeasureState = Literal[
    "regressed",
    "improved",
    "mixed",
    "suspects",
    "no significant difference",
    "not enough data",
    "too noisy to judge",
    "not measured",
    "incomplete",
    "baseline incomplete",
]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """How one measure of one case changed.

    Attributes:
        before: median of the baseline values.
        after: value of this run. Wall times are corrected for the speed of the runner; if only the
            uncorrected time is large (see `is_large`), `after` is the uncorrected time.
        ratio: relative change; 0.25 is +25 %. Infinite if `before` is not above 0 (null in JSON).
        n: number of baseline values.
        z: change divided by its standard error; None if the change was not judged.
        low, high: 95 % interval of `ratio`; None if the change was not judged, or has no `ratio`.
        is_large: the wall time is at least 3 times as long and 1 s longer. Such a change is
            reported even if it is not confirmed.
        measured: uncorrected wall time in seconds; None for memory.
    """

    key: CaseKey
    shard: str
    measure: Measure
    tier: Tier
    before: float
    after: float
    ratio: float
    n: int
    z: float | None = None
    low: float | None = None
    high: float | None = None
    is_large: bool = False
    measured: float | None = None

    @property
    def name(self) -> str:
        """The case in one line."""
        return case_name(self.key)


@dataclass(frozen=True, slots=True)
class MeasureVerdict:
    """One measure over the whole run.

    Attributes:
        judged_tests: cases with at least 3 baseline values.
        n: baseline values of a case, in the median.
        losses, gains: largest first; of durations the 40 largest are kept, `suspects` counts all.
        measured_otherwise: cases not judged, as memory of their baseline was measured in another
            way.
        noise_ratio: this run's residual noise over the baseline's; None where it cannot be told.
    """

    measure: Measure
    verdict: MeasureState
    judged_tests: int = 0
    n: int = 0
    suspects: int = 0
    losses: tuple[CaseChange, ...] = ()
    gains: tuple[CaseChange, ...] = ()
    noise_ratio: float | None = None
    measured_otherwise: int = 0

    @property
    def listed(self) -> tuple[CaseChange, ...]:
        """Select the changes that a comment names: of durations confirmed or large ones only."""
        found = (*self.losses, *self.gains)
        if self.measure == "peak_delta_bytes":
            return found
        return tuple(change for change in found if change.tier == "confirmed" or change.is_large)

    @property
    def unconfirmed(self) -> tuple[CaseChange, ...]:
        """Select the named changes that are not confirmed."""
        return tuple(change for change in self.listed if change.tier != "confirmed")

    @property
    def unlisted(self) -> tuple[CaseChange, ...]:
        """The unconfirmed changes that a comment does not name.

        None over too few baseline runs: without a verdict every test has a change.
        """
        listed = set(self.listed)
        changes = (one for one in (*self.losses, *self.gains) if one.tier != "unjudged")
        return tuple(one for one in changes if one not in listed)

    def of_tier(self, tier: Tier) -> tuple[CaseChange, ...]:
        """The losses of one tier."""
        return tuple(change for change in self.losses if change.tier == tier)


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """One measure of a run's cases: NaN where it was not measured, or has no baseline.

    `difference` and `error` are of log(value + `offset`).
    """

    before: Floats
    after: Floats
    difference: Floats
    error: Floats
    n: NDArray[np.int64]
    offset: float = 0.0

    @property
    def z(self) -> Floats:
        """Signed: > 0 is worse."""
        return self.difference / self.error

    def exceeds_thresholds(self, floor: Thresholds, sign: int) -> Flags:
        """Say which are worse (sign 1) or better (-1) by the floor's amounts, however likely."""
        amount = sign * (self.after - self.before)
        moved: Flags = (amount >= floor.amount) & (amount >= floor.ratio * self.before)
        return moved

    def is_significant(self, floor: Thresholds, sign: int, extremes: Floats | None) -> Flags:
        """Say which have moved further than noise explains.

        Args:
            extremes: (cases, values) of the baseline, all of which must be exceeded, too; nothing
                of a case without any.
        """
        significant: Flags = (
            self.exceeds_thresholds(floor, sign)
            & (sign * self.z > floor.z)
            & (self.n >= MIN_BASELINE_RUNS)
        )
        if extremes is None:
            return significant
        extreme = (np.fmax if sign > 0 else np.fmin).reduce(extremes, axis=1)
        amount = sign * (self.after - extreme)
        significant &= np.isnan(extreme) | (
            (amount >= floor.amount) & (amount >= floor.ratio * extreme)
        )
        return significant

    def interval_of(self, row: int) -> tuple[float, float]:
        """The 95 % interval of a case's ratio, as a change; `before` must be > 0."""
        width = float(t_975(self.n[row : row + 1] + 3)[0] * self.error[row])
        before, difference = float(self.before[row]), float(self.difference[row])
        low, high = (
            ((before + self.offset) * float(np.exp(log_ratio)) - self.offset) / before - 1
            for log_ratio in (difference - width, difference + width)
        )
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class CaseInput:
    """All that a judgement of one measure takes.

    Attributes:
        previous_effects: the same numbers in an earlier run of the same change, None without one.
        suspect, confirmed: what a change must exceed in this run, and in both.
        baseline_extremes: values that must all be exceeded, None where the median is enough.
        large: losses that are named however likely they are by chance; None where there are none.
        measured: of a loss that is large only as measured, that value; else NaN.
    """

    run: Run
    measure: Measure
    numbers: Effects
    previous_effects: Effects | None
    suspect: Thresholds
    confirmed: Thresholds
    baseline_extremes: Floats | None = None
    noise_ratio: float | None = None
    large: Flags | None = None
    measured: Floats | None = None

    def is_large(self, sign: int) -> Flags:
        """Say which changes are large losses."""
        if self.large is None or sign < 0:
            return np.zeros(len(self.numbers.n), np.bool_)
        return self.large

    def tiers(self, sign: int) -> dict[Tier, Flags]:
        """Each case in at most one tier, the surest first."""
        numbers, large = self.numbers, self.is_large(sign)
        suspect = numbers.is_significant(self.suspect, sign, self.baseline_extremes) | (
            large & (numbers.n >= MIN_BASELINE_RUNS)
        )
        confirmed = np.zeros(len(suspect), np.bool_)
        if self.previous_effects is not None:
            confirmed = numbers.is_significant(self.confirmed, sign, self.baseline_extremes)
            confirmed &= self.previous_effects.is_significant(
                self.confirmed, sign, self.baseline_extremes
            )
            confirmed &= numbers.n >= MIN_RUNS_TO_CONFIRM
        moved = (numbers.exceeds_thresholds(self.suspect, sign) | large) & (
            numbers.n < MIN_BASELINE_RUNS
        )
        return {"confirmed": confirmed, "suspect": suspect & ~confirmed, "unjudged": moved}

    def changes(self, sign: int) -> tuple[CaseChange, ...]:
        """All that is confirmed or large, and the largest of the rest, by tier, then amount."""
        found: list[CaseChange] = []
        for tier, flags in self.tiers(sign).items():
            rows = self._largest_first(flags, sign)
            if tier != "confirmed":
                room = max(0, MAX_SUSPECTS - len(found))
                rows = rows[(np.arange(len(rows)) < room) | self.is_large(sign)[rows]]
            found += [self._change(row, tier, sign) for row in rows.tolist()]
        return tuple(found)

    def large_losses(self) -> tuple[CaseChange, ...]:
        """The large losses alone, without a verdict."""
        rows = self._largest_first(self.is_large(1), 1).tolist()
        return tuple(self._change(row, "unjudged", 1) for row in rows)

    def _largest_first(self, flags: Flags, sign: int) -> NDArray[np.int64]:
        rows = np.flatnonzero(flags)
        after = self.numbers.after[rows]
        if self.measured is not None:
            after = np.where(np.isnan(self.measured[rows]), after, self.measured[rows])
        amount = sign * (after - self.numbers.before[rows])
        return rows[np.argsort(-amount, kind="stable")]

    def _change(self, row: int, tier: Tier, sign: int) -> CaseChange:
        run, numbers = self.run, self.numbers
        before, after = float(numbers.before[row]), float(numbers.after[row])
        is_judged = tier != "unjudged"
        if tier != "confirmed" and self.measured is not None and not np.isnan(self.measured[row]):
            after, is_judged = float(self.measured[row]), False  # noise is known at one speed only
        low, high = numbers.interval_of(row) if is_judged and before > 0 else (None, None)
        return CaseChange(
            key=run.keys[row],
            shard=run.legs[run.leg[row]].name,
            measure=self.measure,
            tier=tier,
            before=before,
            after=after,
            ratio=after / before - 1 if before > 0 else float("inf"),
            n=int(numbers.n[row]),
            z=float(numbers.z[row]) if is_judged else None,
            low=low,
            high=high,
            is_large=bool(self.is_large(sign)[row]),
            measured=float(run.wall_s[row]) if self.measure == "wall_s" else None,
        )


def classify(question: CaseInput) -> MeasureVerdict:
    """Find what changed, in both directions."""
    numbers = question.numbers
    measured = ~np.isnan(numbers.after) & ~np.isnan(numbers.before)
    judged_tests = int((measured & (numbers.n >= MIN_BASELINE_RUNS)).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        losses, gains = question.changes(1), question.changes(-1)
        suspects = int(question.tiers(1)["suspect"].sum())
    word = classify_measure(int(measured.sum()), judged_tests, losses, gains)
    typical = int(np.median(numbers.n[measured])) if measured.any() else 0
    return MeasureVerdict(
        measure=question.measure,
        verdict=word,
        judged_tests=judged_tests,
        n=typical,
        suspects=suspects,
        losses=losses,
        gains=gains,
        noise_ratio=question.noise_ratio,
    )


def classify_measure(
    measured: int, judged_tests: int, losses: Sequence[CaseChange], gains: Sequence[CaseChange]
) -> MeasureState:
    """The verdict on a measure.

    Args:
        measured: cases with a value and a baseline.
        judged_tests: those of them with enough baseline values for a verdict.
    """
    if not measured:
        return "not measured"
    if not judged_tests:
        return "not enough data"
    worse = any(change.tier == "confirmed" for change in losses)
    better = any(change.tier == "confirmed" for change in gains)
    if worse and better:
        return "mixed"
    if worse:
        return "regressed"
    if any(change.tier == "suspect" for change in losses):
        return "suspects"
    return "improved" if better else "no significant difference"


SUSPECT_DURATION: Final = Thresholds(z=2.0, ratio=0.05, amount=0.050)
CONFIRMED_DURATION: Final = Thresholds(z=3.0, ratio=0.10, amount=0.100)
# Named even when it is chance: a test that became three times as slow is news at once.
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
    """Return the logarithms that can confirm: at a known speed, in a run not too noisy."""
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
