"""Changes of wall times and peak memory of tests against the baseline, and their certainty. Pure.

Among thousands of tests rare accidents happen every day. So no rule over one run has both fewer
than one false alarm per pull request and enough power. One run therefore gives suspects, and a
change that a second run of the same commit repeats is confirmed. A run is never compared with
itself.

Wall times are divided by the speed of their runner. A peak delta is the memory that a test adds.
Unlike the absolute peak, it does not depend on the order of tests, nor on the runner. But it has
modes, so a change must exceed both the median and the extreme of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.compare.baseline_matrix import BaselineMatrix, standings
from ciguard.compare.run_columns import Run
from ciguard.compare.statistics import (
    MIB,
    MIN_BASELINE_RUNS,
    MIN_RUNS_TO_CONFIRM,
    OFFSET_BYTES,
    RESOLUTION_BYTES,
    Thresholds,
    Tier,
    count_values,
    medians,
    moderated_scale,
    prediction_error,
    student_975,
)
from ciguard.compare.suite_speed import NormalizedBaseline, NormalizedRun
from ciguard.history.file import BOUNDS, CODE
from ciguard.history.query import COMPLETED, STEADY_S
from ciguard.model import CaseKey, UnitKey

MAX_SUSPECTS: Final = 40  # the largest suspects, because a longer list is not read

Measure = Literal["wall_s", "peak_delta_bytes", "gpu_peak_bytes"]

MEASURE_NOUN: Final[dict[Measure, str]] = {
    "wall_s": "duration",
    "peak_delta_bytes": "peak memory",
    "gpu_peak_bytes": "peak GPU memory",
}

# "incomplete": improved, but the run is incomplete; "baseline incomplete": all values of the
# baseline are from legs that did not end by themselves.
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
    """The change of one measure of one case.

    Attributes:
        before: median of the baseline values.
        after: value of this run. Wall times are corrected for the speed of the runner; if only the
            uncorrected time is large (see `is_large`), `after` is the uncorrected time.
        ratio: relative change; 0.25 is +25 %. Infinite if `before` is not above 0 (null in JSON).
        n: number of baseline values.
        z: change divided by its standard error; None if the change was not judged.
        low, high: 95 % interval of `ratio`; None if the change was not judged, or has no `ratio`.
        is_bound: `before` and `after` are the nearer bounds of disjoint intervals, so that the real
            change is at least as large.
        is_large: the wall time is at least 3 times as long and 1 s longer. Such a change is
            reported even if it is not confirmed.
        measured: uncorrected wall time in seconds; None for memory.
        cases: number of changed cases that share these bounds; `key` is the first that ended.
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
    is_bound: bool = False
    cases: int = 1

    @property
    def is_listed(self) -> bool:
        """Return whether a comment lists the change: for durations only if confirmed or large.

        Most other durations are noise in a single run: a comment counts them, and a page lists all.
        """
        return self.measure != "wall_s" or self.tier == "confirmed" or self.is_large


@dataclass(frozen=True, slots=True)
class MeasureVerdict:
    """The verdict on one measure over the whole run.

    Attributes:
        judged_tests: number of cases with at least 3 baseline values.
        n: median number of baseline values of a case.
        losses, gains: largest first. For durations, `losses` has at most 40 suspects; `suspects` is
            the number of all.
        measured_otherwise: number of cases whose baseline memory was measured in another way.
        paid_once: number of cases that are not judged, because their values include costs that
            occur once in a process, here or in the baseline.
        noise_ratio: residual noise of this run divided by that of the baseline; None if unknown.
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
    paid_once: int = 0

    @property
    def listed(self) -> tuple[CaseChange, ...]:
        return tuple(change for change in (*self.losses, *self.gains) if change.is_listed)

    @property
    def unconfirmed(self) -> tuple[CaseChange, ...]:
        return tuple(change for change in self.listed if change.tier != "confirmed")

    def of_tier(self, tier: Tier) -> tuple[CaseChange, ...]:
        return tuple(change for change in self.losses if change.tier == tier)


NO_GPU_MEMORY: Final = MeasureVerdict("gpu_peak_bytes", "not measured")


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The change of one measure by case; NaN without a value or a baseline.

    Attributes:
        difference, error: change of log(value + `offset`), and its standard error.
        extremes: (cases, values) baseline values that a change must exceed as well as the median;
            NaN is no condition.
        is_bound: cases whose change is that between the nearer bounds of intervals.
    """

    before: Floats
    after: Floats
    difference: Floats
    error: Floats
    n: Integers
    extremes: Floats
    is_bound: Flags
    offset: float = 0.0

    @property
    def z(self) -> Floats:
        """Change divided by its standard error; > 0 is worse."""
        return self.difference / self.error

    def exceeds_thresholds(
        self, floor: Thresholds, sign: int, reference: Floats | None = None
    ) -> Flags:
        """Select changes from `reference` (default: the median), worse (sign 1) or better (-1)."""
        before = self.before if reference is None else reference
        amount = sign * (self.after - before)
        moved: Flags = (amount >= floor.amount) & (amount >= floor.ratio * before)
        return moved

    @property
    def is_apart(self) -> Flags:
        """Select all values, but bounds only if they are far apart."""
        apart: Flags = ~self.is_bound | (np.abs(self.after - self.before) >= MIN_BOUND_BYTES)
        return apart

    def is_significant(self, floor: Thresholds, sign: int) -> Flags:
        """Select the changes that noise does not explain."""
        # Disjoint intervals are a change, even if their values vary much.
        is_sure = np.where(self.is_bound, self.is_apart, sign * self.z > floor.z)
        extreme = (np.fmax if sign > 0 else np.fmin).reduce(self.extremes, axis=1)
        is_beyond = np.isnan(extreme) | self.exceeds_thresholds(floor, sign, extreme)
        is_judged = self.n >= MIN_BASELINE_RUNS
        significant: Flags = self.exceeds_thresholds(floor, sign) & is_sure & is_beyond & is_judged
        return significant

    def interval_of(self, row: int) -> tuple[float, float]:
        """Return the 95 % interval of a case's relative change; `before` must be > 0."""
        width = student_975(int(self.n[row]) + 3) * float(self.error[row])
        before, difference = float(self.before[row]), float(self.difference[row])
        low, high = (
            ((before + self.offset) * float(np.exp(log_ratio)) - self.offset) / before - 1
            for log_ratio in (difference - width, difference + width)
        )
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class CaseInput:
    """The inputs of the judgement of one measure.

    Attributes:
        numbers: the effects in this run.
        previous_effects: the effects in an earlier run of the same change; None without a run.
        suspect, confirmed: thresholds of a change in this run, and in both runs.
        large: losses that are listed even if they may be noise; None for none.
        measured: uncorrected value of a loss that is large only if uncorrected; otherwise NaN.
        unjudged: by sign of the change, cases that are not judged.
    """

    run: Run
    measure: Measure
    numbers: Effects
    previous_effects: Effects | None
    suspect: Thresholds
    confirmed: Thresholds
    large: Flags | None = None
    measured: Floats | None = None
    unjudged: Mapping[int, Flags] = field(default_factory=dict)

    def is_large(self, sign: int) -> Flags:
        if self.large is None or sign < 0:
            return np.zeros(len(self.numbers.n), np.bool_)
        return self.large

    def tiers(self, sign: int) -> dict[Tier, Flags]:
        """Return the cases of each tier, the surest first; a case has at most one tier."""
        numbers, large = self.numbers, self.is_large(sign)
        suspect = numbers.is_significant(self.suspect, sign) | (
            large & (numbers.n >= MIN_BASELINE_RUNS)
        )
        confirmed = np.zeros(len(suspect), np.bool_)
        if self.previous_effects is not None:
            confirmed = numbers.is_significant(self.confirmed, sign)
            confirmed &= self.previous_effects.is_significant(self.confirmed, sign)
            confirmed &= numbers.n >= MIN_RUNS_TO_CONFIRM
        if sign in self.unjudged:
            judged = ~self.unjudged[sign]
            suspect, confirmed = suspect & judged, confirmed & judged
        moved = (numbers.exceeds_thresholds(self.suspect, sign) & numbers.is_apart) | large
        # Without a verdict, only losses are listed, because they may need an answer.
        unjudged = moved & (numbers.n < MIN_BASELINE_RUNS) & (sign > 0)
        return {"confirmed": confirmed, "suspect": suspect & ~confirmed, "unjudged": unjudged}

    def case_counts(self, sign: int) -> dict[Tier, Integers]:
        """Return by tier the number of changed cases that each case represents.

        All cases of a unit have the unit's bounds: the first changed case represents the others,
        which have 0.
        """
        tiers = self.tiers(sign)
        counts = {tier: flags.astype(np.int64) for tier, flags in tiers.items()}
        firsts: dict[UnitKey, tuple[Tier, int]] = {}
        for tier, flags in tiers.items():
            rows = np.flatnonzero(flags & self.numbers.is_bound)
            for row in rows[np.argsort(self.run.measured("at_s")[rows], kind="stable")].tolist():
                of_unit, first = firsts.setdefault(self.run.keys[row].unit_key, (tier, row))
                counts[tier][row] = 0
                counts[of_unit][first] += 1
        return counts

    def changes(self, sign: int) -> tuple[CaseChange, ...]:
        """Return confirmed and large changes, and the largest others, by tier, then amount."""
        listed: list[CaseChange] = []
        for tier, counts in self.case_counts(sign).items():
            rows = self.largest_first(counts > 0, sign)
            if tier != "confirmed":
                room = max(0, MAX_SUSPECTS - len(listed))
                rows = rows[(np.arange(len(rows)) < room) | self.is_large(sign)[rows]]
            listed += [self.change(row, tier, sign, int(counts[row])) for row in rows.tolist()]
        return tuple(listed)

    def largest_first(self, flags: Flags, sign: int) -> Integers:
        rows = np.flatnonzero(flags)
        after = self.numbers.after[rows]
        if self.measured is not None:
            after = np.where(np.isnan(self.measured[rows]), after, self.measured[rows])
        amount = sign * (after - self.numbers.before[rows])
        return rows[np.argsort(-amount, kind="stable")]

    def change(self, row: int, tier: Tier, sign: int, cases: int = 1) -> CaseChange:
        run, numbers = self.run, self.numbers
        before, after = float(numbers.before[row]), float(numbers.after[row])
        is_judged = tier != "unjudged"
        if tier != "confirmed" and self.measured is not None and not np.isnan(self.measured[row]):
            # The noise of uncorrected times is unknown.
            after, is_judged = float(self.measured[row]), False
        is_bound = bool(numbers.is_bound[row])
        has_interval = is_judged and before > 0 and not is_bound
        low, high = numbers.interval_of(row) if has_interval else (None, None)
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
            is_bound=is_bound,
            cases=cases,
        )


def classify(worse: CaseInput, better: CaseInput | None = None) -> MeasureVerdict:
    """Return the verdict on a measure in both directions; `better` has other inputs for gains."""
    numbers = worse.numbers
    measured = ~np.isnan(numbers.after) & ~np.isnan(numbers.before)
    judged_tests = int((measured & (numbers.n >= MIN_BASELINE_RUNS)).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        losses, gains = worse.changes(1), (better or worse).changes(-1)
        suspects = int(np.count_nonzero(worse.case_counts(1)["suspect"]))
    state = classify_measure(int(measured.sum()), judged_tests, losses, gains)
    typical = int(np.median(numbers.n[measured])) if measured.any() else 0
    return MeasureVerdict(
        measure=worse.measure,
        verdict=state,
        judged_tests=judged_tests,
        n=typical,
        suspects=suspects,
        losses=losses,
        gains=gains,
    )


def classify_measure(
    measured: int, judged_tests: int, losses: Sequence[CaseChange], gains: Sequence[CaseChange]
) -> MeasureState:
    """Return the state of a measure.

    Args:
        measured: number of cases with a value and a baseline.
        judged_tests: number of these cases with enough baseline values for a verdict.
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
# A test that takes three times as long is listed at once, even if this may be chance.
LARGE_DURATION: Final = Thresholds(z=0.0, ratio=2.0, amount=1.0)
NOISY: Final = 1.5  # times the noise of the baseline: a noisier run has no verdict
DURATION_RESOLUTION: Final = 0.001  # of a value, because timers of tests are not more precise
MEMORY_THRESHOLDS: Final = Thresholds(z=4.0, ratio=0.03, amount=4 * MIB)
# Between bounds: memory at a unit's start may include the last 40 ms of the unit before.
MIN_BOUND_BYTES: Final = 16 * MIB
# Samples see a short child process by chance, so that a smaller one is no loss if rarely seen.
MIN_NEW_CHILD_BYTES: Final = 64 * MIB
MIN_JUMP_BYTES: Final = MIB
SELDOM: Final = 5  # a test that jumps in more than 1 of 5 values has two modes


def judge_durations(
    run: Run,
    speeds: NormalizedRun,
    baseline: NormalizedBaseline,
    table: BaselineMatrix,
    previous_effects: Floats | None = None,
) -> MeasureVerdict:
    """Compare a run's wall times with the baseline.

    Args:
        speeds: the run at the baseline's speed.
        previous_effects: `confirmable_logs` of an earlier run of the same change.
    """
    number = count_values(baseline.log_wall)
    # Times under 50 ms in both runs are not judged, because they depend on timers and caches.
    comparable = (baseline.steady | (speeds.log_wall >= np.log(STEADY_S))) & ~np.isnan(
        speeds.log_wall
    )
    ratio = speeds.noise_ratio(baseline)
    scale = np.maximum(moderated_scale(baseline.log_wall, baseline.reference), DURATION_RESOLUTION)
    # If few tests give the speed, the slowest uncorrected baseline value must be exceeded, too.
    extremes = np.exp(np.where(speeds.low_confidence[:, None], baseline.log_wall, np.nan))
    no_bounds = np.zeros_like(comparable)

    def numbers(logs: Floats) -> Effects:
        logs = np.where(comparable, logs, np.nan)
        before = np.where(comparable, np.exp(baseline.reference), np.nan)
        error = prediction_error(scale, number)
        change = logs - baseline.reference
        return Effects(before, np.exp(logs), change, error, number, extremes, no_bounds)

    # If the speed is unknown, no change is confirmed, because the whole runner may have been slow.
    sure = speeds.has_speed | speeds.low_confidence
    repeated = None
    if previous_effects is not None:
        repeated = numbers(np.where(sure, previous_effects, np.nan))
    effects = numbers(speeds.log_wall)
    large = effects.exceeds_thresholds(LARGE_DURATION, 1)
    # A test that fills a cache once in a process may take three times as long as well.
    usual = np.exp(baseline.reference)
    excess = np.exp(baseline.log_wall) - usual[:, None]
    jumps = excess >= np.fmax(LARGE_DURATION.amount, LARGE_DURATION.ratio * usual)[:, None]
    reordered, after_death = _in_other_order(run, table, number)
    enough = _largest_jump(excess, jumps, number) + LARGE_DURATION.amount
    judged = ~after_death & (~reordered | (effects.after - effects.before >= enough))
    # Uncorrected times count, too: if all tests take three times as long, the runner looks slow.
    measured = replace(effects, after=np.where(comparable, run.wall_s, np.nan)).exceeds_thresholds(
        LARGE_DURATION, 1
    )
    inputs = CaseInput(
        run,
        "wall_s",
        effects,
        repeated,
        SUSPECT_DURATION,
        CONFIRMED_DURATION,
        large=(large | measured) & judged,
        measured=np.where(measured & ~large, run.wall_s, np.nan),
        unjudged={-1: table.holds_paid_once},
    )
    verdict = classify(inputs) if ratio is None or ratio <= NOISY else _too_noisy(inputs)
    once = comparable & (number < MIN_BASELINE_RUNS) & (table.other_standing > 0)
    once |= (large | measured) & ~judged
    return replace(verdict, noise_ratio=ratio, paid_once=int(once.sum()))


def _too_noisy(inputs: CaseInput) -> MeasureVerdict:
    numbers = inputs.numbers
    comparable = int((~np.isnan(numbers.after) & (numbers.n >= MIN_BASELINE_RUNS)).sum())
    rows = inputs.largest_first(inputs.is_large(1), 1).tolist()
    losses = tuple(inputs.change(row, "unjudged", 1) for row in rows)
    return MeasureVerdict("wall_s", "too noisy to judge", comparable, losses=losses)


def confirmable_logs(speeds: NormalizedRun, baseline: NormalizedBaseline) -> Floats:
    """Return the logarithms that can confirm; NaN if the speed is unknown or the run is noisy."""
    ratio = speeds.noise_ratio(baseline)
    noisy = ratio is not None and ratio > NOISY
    return np.where(
        (speeds.has_speed | speeds.low_confidence) & (not noisy), speeds.log_wall, np.nan
    )


def judge_memory(
    run: Run, comparable: Flags, table: BaselineMatrix, previous: Mapping[str, Floats] | None = None
) -> MeasureVerdict:
    """Compare a run's peak deltas with the baseline.

    A peak between bounds is compared by the nearer bounds: for a loss, its lower bound with the
    largest upper bound of the baseline, and the reverse for a gain.

    Args:
        comparable: cases that passed in this run.
        previous: peak deltas and bounds of an earlier run of the same change, by case.
    """
    is_bound, names = run.has_bounds, ("peak_delta_bytes", *BOUNDS)
    values = {name: np.where(comparable, run.measured(name), np.nan) for name in names}

    def inputs(sign: int) -> CaseInput:
        past, reference = _past_memory(table, is_bound, sign)
        effects, bound = _memory_effects(past, reference, is_bound), BOUNDS[0 if sign > 0 else 1]

        def effects_of(columns: Mapping[str, Floats]) -> Effects:
            return effects(np.where(is_bound, columns[bound], columns["peak_delta_bytes"]))

        return CaseInput(
            run,
            "peak_delta_bytes",
            effects_of(values),
            None if previous is None else effects_of(previous),
            MEMORY_THRESHOLDS,
            MEMORY_THRESHOLDS,
        )

    worse = inputs(1)
    paid_once = _paid_once(worse, table)
    unjudged = {1: paid_once, -1: table.holds_paid_once | (table.with_children > 0)}
    better = worse if table.peak_bounds is None else inputs(-1)
    verdict = classify(replace(worse, unjudged=unjudged), replace(better, unjudged=unjudged))
    few = ~np.isnan(worse.numbers.after) & (worse.numbers.n < MIN_BASELINE_RUNS)
    return replace(
        verdict,
        measured_otherwise=int((few & (table.other_method > 0)).sum()),
        judged_tests=verdict.judged_tests - int(paid_once.sum()),
        paid_once=int((few & (table.other_standing > 0)).sum() + paid_once.sum()),
    )


def judge_gpu_memory(
    run: Run, comparable: Flags, table: BaselineMatrix, previous: Mapping[str, Floats] | None = None
) -> MeasureVerdict:
    """Compare the peaks of the GPU allocator with the baseline, as `judge_memory` does."""
    name, past = NO_GPU_MEMORY.measure, table.gpu_peak_bytes
    if past is None:
        return NO_GPU_MEMORY
    effects = _memory_effects(past, medians(_memory_logs(past)))
    after = effects(np.where(comparable, run.measured(name), np.nan))
    repeated = None if previous is None else effects(previous[name])
    floor, unjudged = MEMORY_THRESHOLDS, {-1: table.holds_paid_once}
    return classify(CaseInput(run, name, after, repeated, floor, floor, unjudged=unjudged))


def memory_tier(past: Sequence[float], after: float, previous: float | None) -> Tier | None:
    """Return the tier of a growth of a run's own memory, by the rule for tests; None for no growth.

    Args:
        past: values of baseline runs.
        previous: value of an earlier run of the same change.
    """
    table = np.array([past], np.float64)
    effects = _memory_effects(table, medians(_memory_logs(table)))
    runs = [after] if previous is None else [after, previous]
    grown = [
        bool(effects(np.array([value])).is_significant(MEMORY_THRESHOLDS, 1)[0]) for value in runs
    ]
    if not grown[0]:
        return None
    is_sure = grown == [True, True] and len(past) >= MIN_RUNS_TO_CONFIRM
    return "confirmed" if is_sure else "suspect"


def _in_other_order(run: Run, table: BaselineMatrix, number: Integers) -> tuple[Flags, Flags]:
    """Select the cases in legs of another order, and in processes after a death.

    The order of a leg differs if one of its processes began with a test that rarely did so in the
    baseline. In another order, other tests have the costs that occur once in a process.

    Args:
        number: number of baseline values by case.
    """
    standing = standings(run)
    begins = (standing > 0) & (standing != CODE["standing"]["later"])
    begins &= table.other_standing > number
    died = run.leg[(run.outcome == CODE["outcome"]["died"]) | (run.ending > COMPLETED)]
    again = begins & (standing == CODE["standing"]["restarted"]) & np.isin(run.leg, died)
    process = run.leg.astype(np.int64) << 32 | (0 if run.process is None else run.process)
    return np.isin(run.leg, run.leg[begins]), np.isin(process, process[again])


def _largest_jump(excess: Floats, jumps: Flags, number: Integers) -> float:
    """Return the largest excess over the median in the baseline, among tests that rarely jump."""
    seldom = jumps & (jumps.sum(axis=1) <= np.maximum(1, number // SELDOM))[:, None]
    return float(np.nanmax(excess[seldom], initial=0.0))


def _paid_once(inputs: CaseInput, table: BaselineMatrix) -> Flags:
    """Select the memory losses that may be costs which occur once in a process, or chance.

    In another order, a loss belongs to the test only if it exceeds the largest jump in the
    baseline, as a whole or in the part that the test did not retain (imports and caches stay).
    After a death the loss must also exceed all memory that the tests of its shard retained in one
    run, because the new process needs it again. A small child process that samples rarely saw
    before is no loss.
    """
    run, numbers, floor = inputs.run, inputs.numbers, inputs.suspect
    reordered, after_death = _in_other_order(run, table, numbers.n)
    with np.errstate(invalid="ignore"):
        losses = numbers.is_significant(floor, 1)
        is_new = run.measured("peak_lower_bytes") >= run.peak_delta_bytes
        is_new &= table.with_children < MIN_BASELINE_RUNS
        unjudged = losses & is_new & (numbers.after - numbers.before < MIN_NEW_CHILD_BYTES)
        within = losses & (reordered | after_death)
        if not within.any():
            return unjudged
        excess = table.peak_delta_bytes - numbers.before[:, None]
        jumps = excess >= MIN_JUMP_BYTES
        parts = [(excess, numbers.after - numbers.before)]
        again = np.full(len(within), np.inf)
        if (kept := table.retained_bytes) is not None:
            usual = medians(kept)
            own = parts[0][1] - (run.measured("retained_bytes") - usual)
            parts.append((excess - (kept - usual[:, None]), own))
            totals = [np.bincount(run.leg, np.fmax(one, 0)) for one in kept.T]
            again = np.max(totals, axis=0)[run.leg] + MIN_BOUND_BYTES
        for past, now in parts:
            beyond = _largest_jump(past, jumps, numbers.n) + floor.amount
            within &= ~(now >= np.where(after_death, np.fmax(again, beyond), beyond))
    return within | unjudged


def _past_memory(table: BaselineMatrix, is_bound: Flags, sign: int) -> tuple[Floats, Floats]:
    """Return the values of the baseline, and the logarithm that each case is compared with.

    For peaks between bounds, the values are the bounds that are nearer for a change of this sign.
    """
    past, reference = table.peak_delta_bytes, medians(_memory_logs(table.peak_delta_bytes))
    if table.peak_bounds is None:
        return past, reference
    farther, nearer = table.peak_bounds if sign > 0 else table.peak_bounds[::-1]
    extreme = np.fmax if sign > 0 else np.fmin
    # If a peak has only the farther bound, this bound must be exceeded, as the peak is beyond. If
    # most peaks are such, they may be as large as this peak.
    known = extreme(nearer, farther)
    is_open = 2 * count_values(nearer) < count_values(known)
    nearer = np.where(is_open[:, None], np.nan, nearer)
    nearest = extreme.reduce(known, axis=1)
    return (
        np.where(is_bound[:, None], nearer, past),
        np.where(is_bound, _memory_logs(nearest), reference),
    )


def _memory_logs(sizes: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(sizes, 0) + OFFSET_BYTES)
    return logs


def _memory_effects(
    past: Floats, reference: Floats, is_bound: Flags | None = None
) -> Callable[[Floats], Effects]:
    """Return a function from values to their effects against the baseline."""
    number = count_values(past)
    reference = np.where(number > 0, reference, np.nan)
    before = np.exp(reference) - OFFSET_BYTES
    finest = RESOLUTION_BYTES / (before + OFFSET_BYTES)
    scale = np.maximum(moderated_scale(_memory_logs(past), reference), finest)
    error = prediction_error(scale, number)
    bounds = np.zeros(len(past), np.bool_) if is_bound is None else is_bound

    def effects(after: Floats) -> Effects:
        change = _memory_logs(after) - reference
        return Effects(before, after, change, error, number, past, bounds, OFFSET_BYTES)

    return effects
