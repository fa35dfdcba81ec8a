"""What is told of single tests: outcomes that changed, units that were lost, numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.text import case_name, one_line

if TYPE_CHECKING:
    from ciguard.compare.statistics import Tier
    from ciguard.model import CaseKey, UnitKey

NAME_WIDTH: Final = 200
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
TransitionKind = Literal[
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
    "no_longer_run",
    "newly_skipped",
    "failing_on_both",
    "quarantined",
    "ignored",
    "flaky",
    "fixed",
    "renamed",
    "removed",
    "added",
]
# In the order in which a reader needs them, with their words.
KINDS: Final[dict[TransitionKind, str]] = {
    "newly_out_of_memory": "newly out of memory",
    "newly_timed_out": "newly timed out",
    "newly_crashed": "newly crashed",
    "newly_failing": "newly failing",
    "failing_added": "failing, added",
    "no_longer_run": "no longer run",
    "newly_skipped": "newly skipped",
    "failing_on_both": "failing on both",
    "quarantined": "quarantined",
    "ignored": "ignored",
    "flaky": "flaky",
    "fixed": "fixed",
    "renamed": "renamed",
    "removed": "removed",
    "added": "added",
}
WORSE_KINDS: Final[tuple[TransitionKind, ...]] = (
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
)
EXCUSABLE: Final[tuple[TransitionKind, ...]] = (*WORSE_KINDS, "failing_on_both")


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why the failure of a test does not count."""

    kind: Literal["quarantined", "ignored"]
    why: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A case whose outcome is another than the base's, or is worth a word: both in words.

    `shard` is the candidate's; "" where the case is in none, or nobody knows in which. `was` is its
    name on the base, where that is another one. `bad_before` counts the baseline runs in which a
    case went wrong that does so now, of `baseline_runs` that have it; None where nobody counted.
    `perhaps_was` is a case of the base with a like name, which may be this one and is not compared.
    `excuse` says why a quarantined or ignored failure does not count.
    """

    kind: TransitionKind
    key: CaseKey
    shard: str
    before: str
    after: str
    message: str | None = None
    renamed_from: CaseKey | None = None
    baseline_failures: int | None = None
    baseline_runs: int | None = None
    excuse: str = ""
    perhaps_was: CaseKey | None = None

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
class LostUnits:
    """Units without a result whose leg left no record, or did not end by itself.

    Attributes:
        shards: one where it is known which; else all that gave less than they should.
        sure: False where no plan says that the units were in these shards.
    """

    shards: tuple[str, ...]
    units: tuple[UnitKey, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A number of one case. `before` is the baseline's median, `ratio` the change, 0.25 is +25 %.

    Wall times are at the baseline's speed (the runner's own speed divided out). `low` and `high`
    are the 95 % interval of the ratio, None where there is no scale to judge by. `n` counts the
    baseline values. `is_large`: a wall time of 3 times as much and 1 s more, which is named even
    when it is not confirmed; where only the wall time as measured is so large, `after` is that.
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

    @property
    def name(self) -> str:
        """The case in one line."""
        return case_name(self.key, NAME_WIDTH)


@dataclass(frozen=True, slots=True)
class MeasureVerdict:
    """One measure over the whole run.

    Attributes:
        judged: cases with at least 3 baseline values.
        n: baseline values of a case, in the median.
        losses, gains: largest first; of durations the 40 largest are kept, `suspects` counts all.
        measured_otherwise: cases not judged, as memory of their baseline was measured in another
            way.
        spread: this run's residual noise over the baseline's; None where it cannot be told.
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
        """What a comment names: of durations what is confirmed or large, the rest is noise."""
        found = (*self.losses, *self.gains)
        if self.measure == "peak_delta_bytes":
            return found
        return tuple(change for change in found if change.tier == "confirmed" or change.is_large)

    @property
    def sure(self) -> tuple[CaseChange, ...]:
        """What is confirmed of all that is named."""
        return tuple(change for change in self.listed if change.tier == "confirmed")

    @property
    def unsure(self) -> tuple[CaseChange, ...]:
        """What is named and not confirmed."""
        return tuple(change for change in self.listed if change.tier != "confirmed")

    @property
    def unlisted(self) -> int:
        """How many unconfirmed changes a comment does not name.

        None over too few baseline runs: without a verdict every test has a change.
        """
        judged_changes = [one for one in (*self.losses, *self.gains) if one.tier != "unjudged"]
        return len(judged_changes) - sum(one.tier != "unjudged" for one in self.listed)

    def of_tier(self, tier: Tier) -> tuple[CaseChange, ...]:
        """The losses of one tier."""
        return tuple(change for change in self.losses if change.tier == tier)
