"""What is told of single tests: outcomes that changed, units that were lost, numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.compare.vocabulary import NAME_WIDTH
from ciguard.compare.words import change_words, lost_words
from ciguard.text import case_name, one_line

if TYPE_CHECKING:
    from ciguard.compare.vocabulary import Kind, Measure, Tier, Word
    from ciguard.model import CaseKey, UnitKey


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
