"""What a comparison comes to: the value that is rendered, and that `report` composes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from ciguard.compare.enums import KINDS, MIN_RUNS_TO_CONFIRM
from ciguard.compare.run_changes import NO_METRICS, NO_SUITE_SPEED, describe_costs
from ciguard.compare.scatter import Sample
from ciguard.compare.wording import as_sentence

if TYPE_CHECKING:
    from ciguard.compare.enums import State, TransitionKind
    from ciguard.compare.run_changes import (
        Cost,
        JobChange,
        Leak,
        LegChange,
        Metrics,
        SuiteSpeed,
        Totals,
        TotalVsBaseline,
    )
    from ciguard.compare.run_info import BaselineInfo, RunInfo
    from ciguard.compare.test_changes import LostUnits, MeasureVerdict, Transition


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer.

    Attributes:
        base: whose outcomes are the ones before; None where there is none.
        reasons: why the candidate is incomplete; empty if nothing says so.
        transitions: by kind, then key.
        lost: units whose leg gave no result; they are in no transition.
        unjudged: why no number has a verdict; "" where one has.
        notes: what a reader must know about how this was judged.
    """

    state: State
    headline: str
    base: RunInfo | None
    candidate: RunInfo
    previous: RunInfo | None
    baseline: BaselineInfo
    incomplete_reasons: tuple[str, ...]
    transitions: tuple[Transition, ...]
    lost_units: tuple[LostUnits, ...]
    legs: tuple[LegChange, ...]
    totals: Totals
    durations: MeasureVerdict
    memory: MeasureVerdict
    unjudged_reason: str = ""
    notes: tuple[str, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    leaks: tuple[Leak, ...] = ()
    suite_speed: SuiteSpeed = NO_SUITE_SPEED
    totals_vs_baseline: tuple[TotalVsBaseline, ...] = ()
    metrics: Metrics = NO_METRICS
    scatter_sample: Sample = field(
        default=Sample(), compare=False, metadata={"json": False}
    )  # for a picture

    @property
    def can_be_confirmed(self) -> bool:
        """Say that there is a suspect which a second run of the same change would confirm."""
        enough = len(self.baseline.runs) >= MIN_RUNS_TO_CONFIRM
        changes = (*self.memory.losses, *self.memory.gains, *self.durations.losses)
        tiers = [*(one.tier for one in changes), *(one.tier for one in self.leaks)]
        return enough and (self.suite_speed.verdict.startswith("maybe") or "suspect" in tiers)

    @property
    def doubled(self) -> tuple[str, ...]:
        """The sums of times that are at least twice what they were, in words.

        None over too few baseline runs: then no number has a verdict, and nothing denies it.
        """
        if self.unjudged_reason:
            return ()
        found = (self.totals.doubled, *(trend.doubled for trend in self.totals_vs_baseline))
        return tuple(words for words in found if words)

    @property
    def groups(self) -> tuple[tuple[str, tuple[Transition, ...]], ...]:
        """The transitions by kind, each with its words."""
        grouped = groupby(self.transitions, key=lambda one: one.kind)
        return tuple((KINDS[kind], tuple(found)) for kind, found in grouped)

    @property
    def closing_notes(self) -> tuple[str, ...]:
        """What is said at the end: nothing that the headline has said."""
        if not self.unjudged_reason or self.has_only_reason:
            return self.notes
        return (as_sentence(self.unjudged_reason), *self.notes)

    def headline_contains(self, sentence: str) -> bool:
        """Say that the headline has this sentence: then nobody needs it again."""
        return sentence in self.headline

    def headline_names_measure(self, verdict: MeasureVerdict) -> bool:
        """Say that the headline has the verdict on this measure."""
        return self.headline_contains(verdict.said) or self.headline_contains(verdict.brief)

    @property
    def leaks_outside_headline(self) -> tuple[Leak, ...]:
        """The leaks that the headline only counts."""
        return tuple(leak for leak in self.leaks if not self.headline_contains(leak.describe))

    @property
    def suite_speed_outside_headline(self) -> str:
        """The suite's own pace, where it is known and not in the headline; else ""."""
        unknown = self.suite_speed.verdict in ("not measured", "not enough data")
        return (
            ""
            if unknown or self.headline_contains(self.suite_speed.said)
            else self.suite_speed.said
        )

    @property
    def has_only_reason(self) -> bool:
        """Say that the headline has nothing to tell but why there is nothing to tell."""
        return bool(self.unjudged_reason) and self.unjudged_reason in self.headline

    @property
    def has_no_findings(self) -> bool:
        """Say that nothing was found and nothing could be: that is worth no heading."""
        return self.state == "inconclusive" and (self.has_only_reason or self.base is None)

    @property
    def placeholder(self) -> str:
        """In the place of what a whole run has and this one has not, as something is missing."""
        is_incomplete = self.incomplete_reasons or self.of_kind("no_longer_run")
        return "not shown: the run is incomplete" if is_incomplete else "-"

    @property
    def cost_text(self) -> str:
        """What both runs cost, in words; "" where that is not known."""
        return describe_costs(self.cost_before, self.cost_after, self.placeholder)

    @property
    def verdicts(self) -> tuple[MeasureVerdict, ...]:
        """Both measures; without verdicts only what has numbers to show."""
        both = (self.memory, self.durations)
        return tuple(one for one in both if one.listed) if self.unjudged_reason else both

    @property
    def has_budgets(self) -> bool:
        """Say that a plan gives the legs a budget: without one there is no column for it."""
        return any(leg.budget_bytes is not None for leg in self.legs)

    @property
    def has_probes(self) -> bool:
        """Say that a fixed piece of CPU work tells of a leg's runner beside those before."""
        return any(leg.probe_ratio is not None for leg in self.legs)

    def of_kind(self, kind: TransitionKind) -> tuple[Transition, ...]:
        """The transitions of one kind."""
        return tuple(one for one in self.transitions if one.kind == kind)
