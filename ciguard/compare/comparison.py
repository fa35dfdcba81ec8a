"""What a comparison comes to: the value that is rendered, and that `report` composes. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ciguard.compare.jobs import STOPPED, Cost, JobChange
from ciguard.compare.metric_changes import NO_METRICS, NO_NEIGHBOURS
from ciguard.compare.statistics import MIN_RUNS_TO_CONFIRM
from ciguard.compare.steps_and_artifacts import NO_ARTIFACTS, NO_STEPS, ArtifactChanges, StepChanges
from ciguard.compare.suite_speed import NO_SUITE_SPEED, SuiteSpeed
from ciguard.compare.transitions import WORSE_KINDS, Transition, TransitionKind
from ciguard.errors import ExitCode
from ciguard.model import FAIL_CONDITIONS, MEMORY_ENDINGS, Ending, FailCondition, Record
from ciguard.model.moved_units import count_moved_blocks
from ciguard.model.record import newest_by_shard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ciguard.compare.baseline_matrix import BaselineInfo
    from ciguard.compare.leaks import Leak
    from ciguard.compare.legs import IncompleteReason, LegChange, LostUnits, Total
    from ciguard.compare.measure_changes import CaseChange, MeasureVerdict
    from ciguard.compare.metric_changes import ConditionChange, Metrics, Neighbours
    from ciguard.compare.run_columns import RunInfo
    from ciguard.compare.series import SeriesChange

State = Literal["incomplete", "worse", "mixed", "better", "suspect", "same", "inconclusive"]
UnjudgedReason = Literal["same run", "baseline incomplete", "few baseline runs"]


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
    """What a reader must know about how a comparison was judged.

    Attributes:
        count, total: so many of all tests in both runs, or of all suspects; blocks and shards.
        runs: of each commit, in an experiment.
        detail: foreign text: an error, a commit.
    """

    kind: NoteKind
    count: int = 0
    total: int = 0
    runs: int = 0
    detail: str = ""


def moved_notes(records: Iterable[Record]) -> tuple[Note, ...]:
    """Note how many blocks moved in the candidate; only its plan names their tests."""
    blocks, shards = count_moved_blocks(newest_by_shard(records))
    return (Note("blocks_moved", blocks, shards),) if blocks else ()


class Judged(Protocol):
    """A comparison of runs, of jobs alone, or of logs."""

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """Each condition of `--fail-on` that is known of it, and whether something meets it."""

    def is_unjudged(self, fail_on: Collection[str]) -> bool:
        """Say that it could not be judged, as far as `fail_on` asks."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer.

    Attributes:
        base: whose outcomes are the ones before; None where there is none.
        incomplete_reasons: empty if nothing says that the candidate is incomplete.
        transitions: by kind, then key.
        lost_units: units whose leg gave no result; they are in no transition.
        unjudged_reason: why no number has a verdict; None where one has.
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

    @property
    def can_be_confirmed(self) -> bool:
        """Say that there is a suspect which a second run of the same change would confirm."""
        enough = len(self.baseline.runs) >= MIN_RUNS_TO_CONFIRM
        changes = (*self.memory.losses, *self.memory.gains, *self.durations.losses)
        tiers = [*(one.tier for one in changes), *(one.tier for one in self.leaks)]
        return enough and (self.suite_speed.verdict.startswith("maybe") or "suspect" in tiers)

    @property
    def is_doubled(self) -> bool:
        """Say that a sum of times is at least twice what it was.

        Never over too few baseline runs: then no number has a verdict, and nothing denies it.
        """
        return self.unjudged_reason is None and any(one.is_doubled for one in self.totals)

    @property
    def is_incomplete(self) -> bool:
        """Say that something is missing: totals of the run are not known then."""
        return bool(self.incomplete_reasons) or bool(self.of_kind("no_longer_run"))

    @property
    def verdicts(self) -> tuple[MeasureVerdict, ...]:
        """Both measures; without verdicts only what has numbers to show."""
        both = (self.memory, self.durations)
        return tuple(one for one in both if one.listed) if self.unjudged_reason else both

    @property
    def suspects(self) -> tuple[CaseChange, ...]:
        """Losses that one run made suspect; of memory, the more certain measure, first."""
        verdicts = (self.memory, self.durations)
        return tuple(change for one in verdicts for change in one.of_tier("suspect"))

    @property
    def deaths_on_both(self) -> Counter[Ending]:
        """Count the cases that still run out of time or memory, by ending."""
        endings = [one.after.ending for one in self.of_kind("failing_on_both") if one.after]
        return Counter(ending for ending in endings if ending in DEATHS)

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """Each condition of `--fail-on`, and whether something here meets it."""
        leaked = any(leak.tier == "confirmed" for leak in self.leaks)
        met: dict[FailCondition, bool] = {
            "memory": bool(self.memory.of_tier("confirmed")) or leaked,
            "duration": bool(self.durations.of_tier("confirmed"))
            or self.suite_speed.verdict == "slower",
            "metric": "worse" in self.metrics.verdicts,
            "incomplete": bool(self.incomplete_reasons),
        }
        for word, kinds in _KINDS.items():
            met[word] = any(one.kind in kinds for one in self.transitions)
        for word, endings in _ENDINGS.items():
            met[word] |= any(
                leg.after in endings and leg.before not in endings for leg in self.legs
            )
        return met

    def is_unjudged(self, fail_on: Collection[str]) -> bool:
        """Say that memory or durations were not judged, nor any metric that `fail_on` names."""
        verdicts = {self.durations.verdict, self.memory.verdict}
        unjudged = "metric" in fail_on and self.metrics.is_unjudged
        return unjudged or bool(verdicts & _INCONCLUSIVE)

    def of_kind(self, kind: TransitionKind) -> tuple[Transition, ...]:
        """The transitions of one kind."""
        return tuple(one for one in self.transitions if one.kind == kind)


def with_state(comparison: Comparison) -> Comparison:
    """Return the comparison with the state that its findings come to."""
    return replace(comparison, state=state_of(comparison))


def state_of(comparison: Comparison) -> State:
    """Return the one word for all findings of a comparison."""
    found, speed = comparison.transitions, comparison.suite_speed.verdict
    kinds = {one.kind for one in found}
    words = {comparison.durations.verdict, comparison.memory.verdict}
    leaks = {one.tier for one in comparison.leaks}
    if comparison.incomplete_reasons:
        return "incomplete"
    worse = bool(kinds & set(WORSE_KINDS)) or bool(words & {"regressed", "mixed"})
    metrics = comparison.metrics.verdicts
    worse |= speed == "slower" or "confirmed" in leaks or bool({"worse", "mixed"} & metrics.keys())
    # Units that are gone take their failures, time and memory with them: that is no gain.
    better = "fixed" in kinds or "improved" in words or speed == "faster"
    better |= any(
        one.transition == "unblocked" and one.after == "success" for one in comparison.jobs
    )
    better |= bool({"better", "mixed"} & metrics.keys())
    # Nor are values that a compiler or allocator no longer prints.
    better &= not has_missing_tests(found) and not comparison.metrics.missing_exact
    if worse:
        return "mixed" if better or "mixed" in words else "worse"
    if comparison.memory.verdict == "suspects" or speed == "maybe slower" or "suspect" in leaks:
        return "suspect"
    if comparison.is_doubled:
        return "suspect"
    # What did not run to its end is no proof of anything, least of all of no difference.
    if any(one.after in STOPPED for one in comparison.jobs) or comparison.deaths_on_both:
        return "inconclusive"
    if better:
        return "better"
    if has_missing_tests(found) or comparison.base is None:
        return "inconclusive"
    if kinds & {"newly_skipped", "newly_xfailed"} or "changed" in metrics:
        return "inconclusive"
    if comparison.metrics.missing_exact:
        return "inconclusive"
    # Nearly every run has a duration suspect by chance: alone, they are no difference.
    known = words & {"no significant difference", "suspects"}
    return "same" if known else "inconclusive"


def has_missing_tests(transitions: Sequence[Transition]) -> bool:
    """Say that a case has no result any more; a whole leg may be gone with it."""
    return any(one.kind == "no_longer_run" for one in transitions)


_KINDS: Final[Mapping[FailCondition, tuple[TransitionKind, ...]]] = {
    "new-failure": ("newly_failing", "failing_added", "newly_crashed", "crashed_added"),
    "timeout": ("newly_timed_out", "timed_out_added"),
    "oom": ("newly_out_of_memory", "out_of_memory_added"),
}


DEATHS: Final[tuple[Ending, ...]] = ("timeout", *MEMORY_ENDINGS)
_ENDINGS: Final[Mapping[FailCondition, tuple[Ending, ...]]] = {
    "timeout": ("timeout", "deadline"),
    "oom": ("out_of_memory", "memory_guard"),
}


# Nothing could be said of these.
_INCONCLUSIVE: Final = frozenset(
    {"not enough data", "too noisy to judge", "not measured", "baseline incomplete"}
)


def triggered(comparison: Judged, fail_on: Collection[str]) -> tuple[FailCondition, ...]:
    """The conditions of `fail_on` that a comparison meets, as `FAIL_CONDITIONS` are ordered."""
    met = comparison.conditions_met
    return tuple(word for word in FAIL_CONDITIONS if word in fail_on and met.get(word))


def exit_code(comparison: Judged, fail_on: Collection[str], *, strict: bool = False) -> ExitCode:
    """Incomplete outranks failed tests outrank a regression outranks inconclusive.

    Args:
        strict: end with 12 when what was compared could not be judged.
    """
    found = triggered(comparison, fail_on)
    if "incomplete" in found:
        return ExitCode.INCOMPLETE
    if any(word in _KINDS for word in found):
        return ExitCode.TESTS_FAILED
    if found:
        return ExitCode.REGRESSION
    return ExitCode.INCONCLUSIVE if strict and comparison.is_unjudged(fail_on) else ExitCode.OK
