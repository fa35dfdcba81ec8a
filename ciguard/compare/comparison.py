"""What a comparison comes to: the values that are rendered, and that `report` composes. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.scatter import Pairs
from ciguard.compare.words import (
    change_words,
    leak_words,
    lost_words,
    run_words,
    sentence,
    trend_words,
)
from ciguard.text import case_name, one_line

if TYPE_CHECKING:
    from datetime import datetime

    from ciguard.model import CaseKey, Ending, UnitKey

NAME_WIDTH: Final = 200
CONFIRMING: Final = 10  # baseline values without which nothing is confirmed

State = Literal["incomplete", "worse", "mixed", "better", "suspect", "same", "inconclusive"]
Measure = Literal["wall_s", "peak_delta_bytes"]
# "moved": too few baseline runs for a verdict; "not confirmed": re-runs did not show it again.
Tier = Literal["confirmed", "suspect", "not confirmed", "moved"]
Word = Literal[
    "regressed",
    "improved",
    "mixed",
    "suspects",
    "no significant difference",
    "not enough data",
    "too noisy to judge",
    "not measured",
    "incomplete",
]
Kind = Literal[
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
    "no_longer_run",
    "newly_skipped",
    "failing_on_both",
    "flaky",
    "fixed",
    "moved",
    "removed",
    "added",
]
JobWord = Literal[
    "unblocked", "newly cancelled", "newly failing", "fixed", "newly skipped", "added", "gone"
]
PaceWord = Literal[
    "slower",
    "maybe slower",
    "faster",
    "maybe faster",
    "no significant difference",
    "not enough data",
    "not measured",
]
TrendName = Literal["makespan_s", "sum_s", "peak_bytes"]
TrendWord = Literal["more than usual", "less than usual", "no significant difference", "no verdict"]
# In the order in which a reader needs them, with their words.
KINDS: Final[dict[Kind, str]] = {
    "newly_out_of_memory": "newly out of memory",
    "newly_timed_out": "newly timed out",
    "newly_crashed": "newly crashed",
    "newly_failing": "newly failing",
    "failing_added": "failing, added",
    "no_longer_run": "no longer run",
    "newly_skipped": "newly skipped",
    "failing_on_both": "failing on both",
    "flaky": "flaky",
    "fixed": "fixed",
    "moved": "moved or renamed",
    "removed": "removed",
    "added": "added",
}
WORSE: Final[tuple[Kind, ...]] = (
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
)


@dataclass(frozen=True, slots=True)
class Transition:
    """A case whose outcome is another than the base's, or is worth a word: both in words.

    `shard` is the candidate's; "" where the case is in none, or nobody knows in which. `was` is its
    name on the base, where that is another one. `bad_before` counts the baseline runs in which a
    case went wrong that does so now, of `runs_before` that have it; None where nobody counted.
    """

    kind: Kind
    key: CaseKey
    shard: str
    before: str
    after: str
    message: str | None = None
    was: CaseKey | None = None
    bad_before: int | None = None
    runs_before: int | None = None

    @property
    def name(self) -> str:
        """The case in one line."""
        return case_name(self.key, NAME_WIDTH)

    @property
    def first_line(self) -> str:
        """What the message says first, in one line; "" without a message."""
        lines = (line.strip() for line in (self.message or "").splitlines())
        return one_line(next((line for line in lines if line), ""), NAME_WIDTH)


@dataclass(frozen=True, slots=True)
class Lost:
    """Units without a result whose leg left no record, or did not end by itself.

    Attributes:
        shards: one where it is known which; else all that gave less than they should.
        sure: False where no plan says that the units were in these shards.
    """

    shards: tuple[str, ...]
    units: tuple[UnitKey, ...]
    sure: bool

    @property
    def words(self) -> str:
        """How many units, and with which shard."""
        return lost_words(self)


@dataclass(frozen=True, slots=True)
class Change:
    """A number of one case. `before` is the baseline's median, `ratio` the change, 0.25 is +25 %.

    Wall times are at the baseline's speed (the runner's own speed divided out). `low` and `high`
    are the 95 % interval of the ratio, None where there is no scale to judge by. `n` counts the
    baseline values.
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

    @property
    def name(self) -> str:
        """The case in one line."""
        return case_name(self.key, NAME_WIDTH)

    @property
    def words(self) -> str:
        """Tier and numbers, with unit, n and interval."""
        return change_words(self)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One measure over the whole run.

    Attributes:
        said: the sentence for `word`, with its numbers.
        judged: cases with at least 3 baseline values.
        losses, gains: largest first; of durations the 40 largest are kept, `suspects` counts all.
        spread: this run's residual noise over the baseline's; None where it cannot be told.
    """

    measure: Measure
    word: Word
    said: str
    judged: int = 0
    suspects: int = 0
    losses: tuple[Change, ...] = ()
    gains: tuple[Change, ...] = ()
    spread: float | None = None

    @property
    def named(self) -> tuple[Change, ...]:
        """What a comment names: of durations only what is confirmed, the rest is mostly noise."""
        found = (*self.losses, *self.gains)
        if self.measure == "peak_delta_bytes":
            return found
        return tuple(change for change in found if change.tier == "confirmed")

    def of_tier(self, tier: Tier) -> tuple[Change, ...]:
        """The losses of one tier."""
        return tuple(change for change in self.losses if change.tier == tier)


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `speed` is how slow this runner was: 1.3 took 30 % longer than usual for the same tests;
    `probe_ratio` is the same of a fixed piece of CPU work, against the baseline's median (the
    base's without a baseline). `predicted_...` are the candidate's plan's.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    budget_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None
    probe_ratio: float | None = None
    predicted_wall_s: float | None = None
    predicted_peak_bytes: int | None = None
    pool: str = ""

    @property
    def endings(self) -> str:
        """ "completed", "completed -> deadline", "absent -> completed"."""
        before, after = self.before or "absent", self.after or "no record"
        return after if before == after else f"{before} -> {after}"


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job whose conclusion is another than on the base; None where it was not there.

    `word` is None for a pair of conclusions that has no name of its own.
    """

    name: str
    before: str | None
    after: str | None
    word: JobWord | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""

    @property
    def words(self) -> str:
        """ "cancelled -> success (unblocked)"."""
        change = f"{self.before or 'absent'} -> {self.after or 'absent'}"
        return f"{change} ({self.word})" if self.word else change


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed minutes; the price where that of every pool is known. Not `whole`: of legs alone."""

    minutes: int
    price_usd: float | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: what all of its tests kept together.
        steady_bytes: without the tenth that keeps most, of the tests that the base has too.
        before_bytes: the same of the baseline; None where it has too few of these tests.
    """

    shard: str
    process: int
    tests: int
    growth_bytes: int
    steady_bytes: int
    before_bytes: int | None
    n: int
    tier: Tier

    @property
    def words(self) -> str:
        """What grew, by how much, and how sure that is new."""
        return leak_words(self)


@dataclass(frozen=True, slots=True)
class Pace:
    """The suite's own speed, that of the runners taken out by their probes: 0.1 is 10 % slower.

    `low` and `high` are its 95 % interval, `n` the baseline runs with a probe.
    """

    word: PaceWord
    said: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure of the whole run, and the baseline's median; 95 % of runs lie in `low`..`high`."""

    name: TrendName
    before: float
    after: float
    word: TrendWord
    n: int
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """ "slowest leg: no significant difference (124 s and 122 s, n=12)"."""
        return trend_words(self)


NO_PACE: Final = Pace("not measured", "")


@dataclass(frozen=True, slots=True)
class Totals:
    """Whole runs. The makespan is told only of complete ones; the sum over `common` cases that
    passed in both, as measured."""

    makespan_before_s: float | None = None
    makespan_after_s: float | None = None
    common: int = 0
    sum_before_s: float | None = None
    sum_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RunName:
    """Which run it was; None is not known. `values`: of how many cases it is baseline."""

    name: str
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    branch: str | None = None
    event: str | None = None
    at: datetime | None = None
    cases: int = 0
    complete: bool = False
    in_history: bool = False
    values: int | None = None

    @property
    def words(self) -> str:
        """All that is known of it, in a line."""
        return run_words(self)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run of the history that is no baseline, and why."""

    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unused:
    """Values of baseline runs that are not in the baseline, and why."""

    reason: str
    values: int


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """The runs whose values are the baseline; `how` says in words how they were chosen."""

    runs: tuple[RunName, ...]
    left_out: tuple[LeftOut, ...]
    how: str
    values: int = 0
    unused: tuple[Unused, ...] = ()

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Why runs are no baseline, and how many for each reason, most first."""
        counts = Counter(one.reason for one in self.left_out)
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


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
    base: RunName | None
    candidate: RunName
    previous: RunName | None
    baseline: BaselineFacts
    reasons: tuple[str, ...]
    transitions: tuple[Transition, ...]
    lost: tuple[Lost, ...]
    legs: tuple[LegChange, ...]
    totals: Totals
    durations: Judgement
    memory: Judgement
    unjudged: str = ""
    notes: tuple[str, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    cost_before: Cost | None = None
    cost_after: Cost | None = None
    leaks: tuple[Leak, ...] = ()
    pace: Pace = NO_PACE
    trends: tuple[Trend, ...] = ()
    pairs: Pairs = field(default=Pairs(), compare=False, metadata={"json": False})  # for a picture

    @property
    def can_be_confirmed(self) -> bool:
        """Say that there is a suspect which a second run of the same change would confirm."""
        enough = len(self.baseline.runs) >= CONFIRMING
        changes = (*self.memory.losses, *self.memory.gains, *self.durations.losses)
        tiers = [*(one.tier for one in changes), *(one.tier for one in self.leaks)]
        return enough and (self.pace.word.startswith("maybe") or "suspect" in tiers)

    @property
    def groups(self) -> tuple[tuple[str, tuple[Transition, ...]], ...]:
        """The transitions by kind, each with its words."""
        grouped = groupby(self.transitions, key=lambda one: one.kind)
        return tuple((KINDS[kind], tuple(found)) for kind, found in grouped)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said at the end: nothing that the headline has said."""
        if not self.unjudged or self.says_only_why:
            return self.notes
        return (sentence(self.unjudged), *self.notes)

    @property
    def says_only_why(self) -> bool:
        """Say that the headline has nothing to tell but why there is nothing to tell."""
        return bool(self.unjudged) and self.unjudged in self.headline

    @property
    def is_quiet(self) -> bool:
        """Say that nothing was found and nothing could be: that is worth no heading."""
        return self.state == "inconclusive" and (self.says_only_why or self.base is None)

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """Both measures; without verdicts only what has numbers to show."""
        both = (self.memory, self.durations)
        return tuple(one for one in both if one.named) if self.unjudged else both

    @property
    def limit_name(self) -> str:
        """What `limit_of` is of every leg: "budget" of its tests, or "memory" of its machine."""
        planned = any(leg.budget_bytes is not None for leg in self.legs)
        return "budget" if planned else "memory"

    def limit_of(self, leg: LegChange) -> int | None:
        """What the leg's peak must stay below, in bytes: never of two kinds in one comparison."""
        return leg.budget_bytes if self.limit_name == "budget" else leg.memory_bytes

    def of_kind(self, kind: Kind) -> tuple[Transition, ...]:
        """The transitions of one kind."""
        return tuple(one for one in self.transitions if one.kind == kind)
