"""The result of a comparison: its findings, its state, and the exit code of `--fail-on`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ciguard.compare.baseline_matrix import BaselineInfo
from ciguard.compare.jobs import STOPPED, JobChange, JobsComparison
from ciguard.compare.leaks import Leak
from ciguard.compare.legs import Cost, IncompleteReason, LegChange, LostUnits, Total, TotalName
from ciguard.compare.log_comparison import Caveat, FailureCount, LogComparison
from ciguard.compare.measure_changes import NO_GPU_MEMORY, CaseChange, MeasureVerdict
from ciguard.compare.metric_changes import (
    NO_METRICS,
    NO_NEIGHBOURS,
    ConditionChange,
    Metrics,
    Neighbours,
)
from ciguard.compare.run_columns import RunInfo
from ciguard.compare.series import SeriesChange
from ciguard.compare.statistics import MIN_RUNS_TO_CONFIRM, Tier
from ciguard.compare.steps_and_artifacts import NO_ARTIFACTS, NO_STEPS, ArtifactChanges, StepChanges
from ciguard.compare.suite_speed import NO_SUITE_SPEED, SuiteSpeed
from ciguard.compare.transitions import WORSE_KINDS, Transition, TransitionKind
from ciguard.errors import ExitCode
from ciguard.logs.values import Place
from ciguard.model import FAIL_CONDITIONS, MEMORY_ENDINGS, Ending, FailCondition, Record
from ciguard.model.moved_units import count_moved_blocks
from ciguard.model.record import newest_by_shard

State = Literal["incomplete", "worse", "mixed", "better", "suspect", "same", "inconclusive"]
UnjudgedReason = Literal["same run", "baseline incomplete", "few baseline runs"]

LARGE_RATIO: Final = 0.2  # of a suspect of memory that a search for its culprit may confirm

NoteKind = Literal[
    "no_base",
    "incomplete_base",
    "blocks_moved",
    "resharded",
    "not_passed",
    "confirmation",
    "confirmation_of_other_commit",
    "confirmation_failed",
    "confirmation_by_judged_run",
    "confirmation_unreadable",
    "no_previous_run",
]


@dataclass(frozen=True, slots=True)
class Note:
    """A fact on how a comparison was judged.

    Attributes:
        count, total: number of affected tests among all in both runs, or of confirmed suspects
            among all; for `blocks_moved`, number of blocks and shards.
        runs: number of runs of each commit in an experiment.
        detail: foreign text: an error, a commit.
    """

    kind: NoteKind
    count: int = 0
    total: int = 0
    runs: int = 0
    detail: str = ""


def moved_notes(records: Iterable[Record]) -> tuple[Note, ...]:
    """Return a note on the blocks of tests that moved between shards of the candidate, if any."""
    blocks, shards = count_moved_blocks(newest_by_shard(records))
    return (Note("blocks_moved", blocks, shards),) if blocks else ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two runs.

    Attributes:
        base: the run with the outcomes before; None if there is no base.
        incomplete_reasons: reasons why the candidate is incomplete; empty if it is complete.
        transitions: sorted by kind, then key.
        lost_units: units whose leg gave no result; they are in no transition.
        unjudged_reason: reason why no number has a verdict; None if any has one.
        log_failures, log_doubts, log_missing: failures, caveats and absences of the jobs' logs.
    """

    state: State
    base: RunInfo | None
    candidate: RunInfo
    previous: RunInfo | None
    baseline: BaselineInfo
    incomplete_reasons: tuple[IncompleteReason, ...]
    transitions: tuple[Transition, ...]
    lost_units: tuple[LostUnits, ...]
    legs: tuple[LegChange, ...]
    totals: tuple[Total, ...]
    durations: MeasureVerdict
    memory: MeasureVerdict
    gpu_memory: MeasureVerdict = NO_GPU_MEMORY
    unjudged_reason: UnjudgedReason | None = None
    notes: tuple[Note, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    leaks: tuple[Leak, ...] = ()
    suite_speed: SuiteSpeed = NO_SUITE_SPEED
    metrics: Metrics = NO_METRICS
    series: tuple[SeriesChange, ...] = ()
    steps: StepChanges = NO_STEPS
    artifacts: ArtifactChanges = NO_ARTIFACTS
    conditions: tuple[ConditionChange, ...] = ()
    neighbours: Neighbours = NO_NEIGHBOURS
    log_failures: tuple[FailureCount, ...] = ()
    log_doubts: tuple[Caveat, ...] = ()
    log_missing: tuple[Place, ...] = ()

    @property
    def can_be_confirmed(self) -> bool:
        """Return whether a second run of the same commit can confirm a suspect."""
        enough = len(self.baseline.runs) >= MIN_RUNS_TO_CONFIRM
        changes = (*self.memory.losses, *self.memory.gains, *self.durations.losses)
        changes += self.gpu_memory.losses
        tiers = [*(change.tier for change in changes), *(leak.tier for leak in self.leaks)]
        tiers += [tier for _, tier in self.growths]
        return enough and (self.suite_speed.verdict.startswith("maybe") or "suspect" in tiers)

    @property
    def is_doubled(self) -> bool:
        """Return whether a sum of times has at least doubled.

        False if there are too few baseline runs for a verdict on numbers.
        """
        return self.unjudged_reason is None and any(total.is_doubled for total in self.totals)

    @property
    def growths(self) -> frozenset[tuple[TotalName, Tier]]:
        """The totals that grew, with their tier: memory of a GPU, and swap."""
        return frozenset((total.name, total.tier) for total in self.totals if total.tier)

    @property
    def is_incomplete(self) -> bool:
        """Return whether legs or tests are missing, so that totals of the run are unknown."""
        return bool(self.incomplete_reasons) or bool(self.of_kind("no_longer_run"))

    @property
    def verdicts(self) -> tuple[MeasureVerdict, ...]:
        """The measures of tests; if no number is judged, only those with listed changes."""
        measures = (self.memory, self.gpu_memory, self.durations)
        return tuple(measure for measure in measures if measure.listed or not self.unjudged_reason)

    @property
    def suspects(self) -> tuple[CaseChange, ...]:
        """The suspect losses; losses of memory, the more certain measure, come first."""
        return (*self.memory.of_tier("suspect"), *self.durations.of_tier("suspect"))

    @property
    def newly_failing(self) -> tuple[Transition, ...]:
        """The failures of cases that the base has: a commit since then may be the culprit."""
        worse = (case for case in self.transitions if case.kind in WORSE_KINDS)
        return tuple(case for case in worse if case.before is not None)

    @property
    def clear_losses(self) -> tuple[CaseChange, ...]:
        """The losses of memory and time that are confirmed, and the large suspects."""
        suspects = (
            *(loss for loss in self.memory.of_tier("suspect") if loss.ratio >= LARGE_RATIO),
            *(loss for loss in self.durations.of_tier("suspect") if loss.is_large),
        )
        verdicts = self.memory, self.durations
        return (*(loss for verdict in verdicts for loss in verdict.of_tier("confirmed")), *suspects)

    @property
    def deaths_on_both(self) -> Counter[Ending]:
        """Numbers, by ending, of the cases that still run out of time or memory."""
        endings = [case.after.ending for case in self.of_kind("failing_on_both") if case.after]
        return Counter(ending for ending in endings if ending in DEATHS)

    @property
    def more_in_logs(self) -> tuple[FailCondition, ...]:
        """The conditions with more texts in the candidate's logs, over all jobs (tests move)."""
        more: Counter[Ending | None] = Counter()
        for count in self.log_failures:
            more[count.ending] += 0 if count.weak else count.after - count.before
        met = [word for word, endings in FAIL_ENDS.items() if sum(more[one] for one in endings) > 0]
        return () if "base cut" in self.log_doubts else tuple(met)

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """For each condition of `--fail-on`, whether a finding meets it."""
        leaked = any(leak.tier == "confirmed" for leak in self.leaks)
        met: dict[FailCondition, bool] = {
            "memory": bool(self.memory.of_tier("confirmed")) or leaked,
            "gpu-memory": bool(self.gpu_memory.of_tier("confirmed"))
            or ("gpu_bytes", "confirmed") in self.growths,
            "swap": ("swap_growth_bytes", "confirmed") in self.growths,
            "duration": bool(self.durations.of_tier("confirmed"))
            or self.suite_speed.verdict == "slower",
            "metric": "worse" in self.metrics.verdicts or bool(self.metrics.violations),
            "incomplete": bool(self.incomplete_reasons),
        }
        for word, kinds in FAIL_KINDS.items():
            met[word] = any(case.kind in kinds for case in self.transitions)
        for word, endings in FAIL_ENDS.items():
            met[word] |= word in self.more_in_logs or any(
                leg.after in endings and leg.before not in endings for leg in self.legs
            )
        return met

    def is_unjudged(self, fail_on: Collection[str]) -> bool:
        """Return whether memory, durations or, if in `fail_on`, all metrics are unjudged."""
        verdicts = {self.durations.verdict, self.memory.verdict}
        unjudged = "metric" in fail_on and self.metrics.is_unjudged
        return unjudged or bool(verdicts & _INCONCLUSIVE)

    def of_kind(self, kind: TransitionKind) -> tuple[Transition, ...]:
        return tuple(case for case in self.transitions if case.kind == kind)


# The kinds of a comparison: runs with records, only jobs of runs, text logs.
AnyComparison = Comparison | JobsComparison | LogComparison


def with_state(comparison: Comparison) -> Comparison:
    return replace(comparison, state=state_of(comparison))


def state_of(comparison: Comparison) -> State:
    """Return the state of a comparison by the first rule that applies."""
    transitions, speed = comparison.transitions, comparison.suite_speed.verdict
    kinds = {case.kind for case in transitions}
    sizes = {comparison.memory.verdict, comparison.gpu_memory.verdict}
    words = {comparison.durations.verdict, *sizes}
    tiers = {leak.tier for leak in comparison.leaks} | {tier for _, tier in comparison.growths}
    if comparison.incomplete_reasons:
        return "incomplete"
    worse = bool(kinds & set(WORSE_KINDS)) or bool(words & {"regressed", "mixed"})
    metrics = comparison.metrics.verdicts
    worse |= speed == "slower" or "confirmed" in tiers or bool({"worse", "mixed"} & metrics.keys())
    worse |= bool(comparison.metrics.violations or comparison.more_in_logs)
    # If tests are removed, fewer failures, less time and less memory are no gain. A value that a
    # compiler or allocator no longer prints is no gain either.
    is_partial = has_missing_tests(transitions) or bool(comparison.metrics.missing_exact)
    better = "fixed" in kinds or "improved" in words or speed == "faster"
    better |= any(
        job.transition == "unblocked" and job.after == "success" for job in comparison.jobs
    )
    better |= bool({"better", "mixed"} & metrics.keys())
    better &= not is_partial
    if worse:
        return "mixed" if better or "mixed" in words else "worse"
    is_suspect = "suspects" in sizes or speed == "maybe slower" or "suspect" in tiers
    if is_suspect or comparison.is_doubled:
        return "suspect"
    # A job or test that did not run to its end does not prove even equality.
    if any(job.after in STOPPED for job in comparison.jobs) or comparison.deaths_on_both:
        return "inconclusive"
    if better:
        return "better"
    is_changed = bool(kinds & {"newly_skipped", "newly_xfailed"}) or "changed" in metrics
    if is_partial or is_changed or comparison.base is None:
        return "inconclusive"
    # Nearly every run has duration suspects by chance, so that they alone are no difference.
    return "same" if words & {"no significant difference", "suspects"} else "inconclusive"


def has_missing_tests(transitions: Sequence[Transition]) -> bool:
    """Return whether a case has no result any more; its whole leg may be missing."""
    return any(case.kind == "no_longer_run" for case in transitions)


FAIL_KINDS: Final[Mapping[FailCondition, tuple[TransitionKind, ...]]] = {
    "new-failure": ("newly_failing", "failing_added", "newly_crashed", "crashed_added"),
    "timeout": ("newly_timed_out", "timed_out_added"),
    "oom": ("newly_out_of_memory", "out_of_memory_added"),
}


DEATHS: Final[tuple[Ending, ...]] = ("timeout", *MEMORY_ENDINGS)
FAIL_ENDS: Final[Mapping[FailCondition, tuple[Ending, ...]]] = {
    "timeout": ("timeout", "deadline"),
    "oom": ("out_of_memory", "memory_guard"),
}


_INCONCLUSIVE: Final = frozenset(
    {"not enough data", "too noisy to judge", "not measured", "baseline incomplete"}
)


def triggered(comparison: AnyComparison, fail_on: Collection[str]) -> tuple[FailCondition, ...]:
    """Return the conditions of `fail_on` that a comparison meets, ordered as `FAIL_CONDITIONS`."""
    met = comparison.conditions_met
    return tuple(word for word in FAIL_CONDITIONS if word in fail_on and met.get(word))


def exit_code(
    comparison: AnyComparison, fail_on: Collection[str], *, strict: bool = False
) -> ExitCode:
    """Return the exit code: incomplete outranks failed tests, a regression, inconclusive.

    Args:
        strict: an unjudged comparison is inconclusive.
    """
    conditions = triggered(comparison, fail_on)
    if "incomplete" in conditions:
        return ExitCode.INCOMPLETE
    if any(condition in FAIL_KINDS for condition in conditions):
        return ExitCode.TESTS_FAILED
    if conditions:
        return ExitCode.REGRESSION
    return ExitCode.INCONCLUSIVE if strict and comparison.is_unjudged(fail_on) else ExitCode.OK
