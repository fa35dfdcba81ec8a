"""Which numbers are worse, and how sure that is: suspects, and confirmed over two runs. Pure.

With thousands of tests a rare accident is an everyday event: no rule over one run has both fewer
than one false alarm per pull request and any power. So one run gives suspects, and what a second
run of the same change repeats is confirmed. A run is never held against itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.changes import Change, Judgement
from ciguard.compare.normalise import MANY
from ciguard.compare.statistics import quantile_95
from ciguard.compare.verdicts import judged_word, said
from ciguard.compare.vocabulary import CONFIRMING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ciguard.compare.runs import Run
    from ciguard.compare.statistics import Flags, Floats
    from ciguard.compare.vocabulary import Measure, Tier

KEPT: Final = 40  # largest suspects: nobody reads more


@dataclass(frozen=True, slots=True)
class Floor:
    """What a change must exceed: all three."""

    z: float
    ratio: float
    amount: float


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
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

    def moved(self, floor: Floor, sign: int) -> Flags:
        """Say which are worse (sign 1) or better (-1) by the floor's amounts, however likely."""
        amount = sign * (self.after - self.before)
        moved: Flags = (amount >= floor.amount) & (amount >= floor.ratio * self.before)
        return moved

    def beyond(self, floor: Floor, sign: int, extremes: Floats | None) -> Flags:
        """Say which have moved further than noise explains.

        Args:
            extremes: (cases, values) of the baseline, all of which must be exceeded, too; nothing
                of a case without any.
        """
        beyond: Flags = self.moved(floor, sign) & (sign * self.z > floor.z) & (self.n >= MANY)
        if extremes is None:
            return beyond
        extreme = (np.fmax if sign > 0 else np.fmin).reduce(extremes, axis=1)
        amount = sign * (self.after - extreme)
        beyond &= np.isnan(extreme) | ((amount >= floor.amount) & (amount >= floor.ratio * extreme))
        return beyond

    def change_of(self, row: int) -> tuple[float, float]:
        """The 95 % interval of a case's ratio, as a change; `before` must be > 0."""
        width = float(quantile_95(self.n[row : row + 1] + 3)[0] * self.error[row])
        before, difference = float(self.before[row]), float(self.difference[row])
        low, high = (
            ((before + self.offset) * float(np.exp(log_ratio)) - self.offset) / before - 1
            for log_ratio in (difference - width, difference + width)
        )
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """All that a judgement of one measure takes.

    Attributes:
        twice: the same numbers in an earlier run of the same change, None without one.
        suspect, confirmed: what a change must exceed in this run, and in both.
        extremes: baseline values that must all be exceeded, None where the median is enough.
        large: losses that are named however likely they are by chance; None where there are none.
        measured: of a loss that is large only as measured, that value; else NaN.
    """

    run: Run
    measure: Measure
    numbers: Numbers
    twice: Numbers | None
    suspect: Floor
    confirmed: Floor
    extremes: Floats | None = None
    spread: float | None = None
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
        suspect = numbers.beyond(self.suspect, sign, self.extremes) | (large & (numbers.n >= MANY))
        confirmed = np.zeros(len(suspect), np.bool_)
        if self.twice is not None:
            confirmed = numbers.beyond(self.confirmed, sign, self.extremes)
            confirmed &= self.twice.beyond(self.confirmed, sign, self.extremes)
            confirmed &= numbers.n >= CONFIRMING
        moved = (numbers.moved(self.suspect, sign) | large) & (numbers.n < MANY)
        return {"confirmed": confirmed, "suspect": suspect & ~confirmed, "moved": moved}

    def changes(self, sign: int) -> tuple[Change, ...]:
        """All that is confirmed or large, and the largest of the rest, by tier, then amount."""
        found: list[Change] = []
        for tier, flags in self.tiers(sign).items():
            rows = self._largest_first(flags, sign)
            if tier != "confirmed":
                room = max(0, KEPT - len(found))
                rows = rows[(np.arange(len(rows)) < room) | self.is_large(sign)[rows]]
            found += [self._change(row, tier, sign) for row in rows.tolist()]
        return tuple(found)

    def large_losses(self) -> tuple[Change, ...]:
        """The large losses alone, without a verdict."""
        rows = self._largest_first(self.is_large(1), 1).tolist()
        return tuple(self._change(row, "moved", 1) for row in rows)

    def _largest_first(self, flags: Flags, sign: int) -> NDArray[np.int64]:
        rows = np.flatnonzero(flags)
        after = self.numbers.after[rows]
        if self.measured is not None:
            after = np.where(np.isnan(self.measured[rows]), after, self.measured[rows])
        amount = sign * (after - self.numbers.before[rows])
        return rows[np.argsort(-amount, kind="stable")]

    def _change(self, row: int, tier: Tier, sign: int) -> Change:
        run, numbers = self.run, self.numbers
        before, after = float(numbers.before[row]), float(numbers.after[row])
        judged = tier != "moved"
        if tier != "confirmed" and self.measured is not None and not np.isnan(self.measured[row]):
            after, judged = float(self.measured[row]), False  # noise is known at one speed only
        low, high = numbers.change_of(row) if judged and before > 0 else (None, None)
        return Change(
            key=run.keys[row],
            shard=run.legs[run.leg[row]].name,
            measure=self.measure,
            tier=tier,
            before=before,
            after=after,
            ratio=after / before - 1 if before > 0 else float("inf"),
            n=int(numbers.n[row]),
            z=float(numbers.z[row]) if judged else None,
            low=low,
            high=high,
            is_large=bool(self.is_large(sign)[row]),
        )


def judge(question: Question) -> Judgement:
    """Find what changed, in both directions, and put it into words."""
    numbers = question.numbers
    measured = ~np.isnan(numbers.after) & ~np.isnan(numbers.before)
    judged = int((measured & (numbers.n >= MANY)).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        losses, gains = question.changes(1), question.changes(-1)
        suspects = int(question.tiers(1)["suspect"].sum())
    word = judged_word(int(measured.sum()), judged, losses, gains)
    typical = int(np.median(numbers.n[measured])) if measured.any() else 0
    told = said(
        question.measure,
        word,
        judged=judged,
        n=typical,
        suspects=suspects,
        losses=losses,
        gains=gains,
    )
    return Judgement(
        measure=question.measure,
        word=word,
        said=told,
        judged=judged,
        n=typical,
        suspects=suspects,
        losses=losses,
        gains=gains,
        spread=question.spread,
    )
