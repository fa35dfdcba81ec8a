"""The commit since which a test fails, or needs more time or memory: a noisy binary search. Pure.

The hypotheses are each commit of the range as the first bad one, and that nothing changed. A test
has one level before the first bad commit and another level from it on: its rate of failures, or the
logarithm of its time or memory. Both levels are unknown, so the posterior is a sum over pairs of
levels on a grid. The next commit to try is the one with the most expected information in a second,
as in Burnashev and Zigangirov 1974 (Problems of Information Transmission 10), where rates are
known. For flaky tests, see Henderson et al. 2023, "Flake Aware Culprit Finding" (ICST, Google).
benchmarks/culprit_search.py compares the search with PyTorch's autorevert (pytorch/test-infra).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Measure = Literal["failure", "memory", "duration"]

UNCHANGED: Final = 0.1  # prior of a failure by chance, by another machine, or from before
LEVELS: Final = 16
LEAST_RATE: Final = 0.1  # rates that differ by less are no change
LEAST_RATIO: Final = 0.05  # times or sizes that differ by less are no change
SELECTED: Final = 0.5  # weight of a run since the range is red, as its failure started the search
TAILS: Final = 2  # degrees of freedom of a time or size: one try in twenty may be an outlier
# Factor on the requested chance of an error: if rates differ by 0.2 to 0.6, the prior of the rates
# makes answers too sure (benchmarks/culprit_search.py).
DOUBT: Final = 0.6
MIN_BITS: Final = 0.002  # of a try: with less, even many tries give no answer


@dataclass(frozen=True, slots=True)
class Model:
    """The possible levels of a test, and the likelihood of a try at each level.

    Attributes:
        levels: (L,) ascending: rates, or logarithms.
        good, bad: (L,) logarithms of the prior before the first bad commit, and from it on.
        least: the smallest difference of two levels that is a change.
        scale: scale of the logarithm of a time or size in one try; 0 for failures.
    """

    levels: Floats
    good: Floats
    bad: Floats
    least: float
    scale: float = 0.0

    def log_likelihood(self, values: Floats) -> Floats:
        """Return (T, L): log-likelihood of each try at each level; a failure is 1, a pass 0."""
        if not self.scale:
            return np.where(values[:, None] > 0, np.log(self.levels), np.log1p(-self.levels))
        distance = (values[:, None] - self.levels) / self.scale
        return -(TAILS + 1) / 2 * np.log1p(distance**2 / TAILS)

    def chance_of_bad(self, middle: float) -> Floats:
        """Return (L,): the chance that a try at a level fails, or is above the middle."""
        if not self.scale:
            return self.levels
        return 1 / (1 + np.exp(np.clip((middle - self.levels) / self.scale, -50, 50)))


def failure_model(good: tuple[int, int], bad: tuple[int, int] = (1, 0)) -> Model:
    """Return the model of a test's failures, by its failures and passes in the history.

    The grid is uniform in the arcsine of the root of a rate, where Jeffreys' prior is uniform.

    Args:
        good, bad: failures and passes of runs before the range, and of runs since it is red.
    """
    rates = np.sin(pi / 2 * (np.arange(LEVELS) + 0.5) / LEVELS) ** 2
    log_rates = np.array([np.log(rates), np.log1p(-rates)])
    return Model(rates, good @ log_rates, SELECTED * (bad @ log_rates), LEAST_RATE)


def size_model(logs: Sequence[float], scale: float) -> Model:
    """Return the model of a time or size, by the logarithms of all tries so far."""
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)
    least = max(log(1 + LEAST_RATIO), 2 * scale)
    levels = np.linspace(low - 2 * least, high + 2 * least, 2 * LEVELS)
    scale = max(scale, float(levels[1] - levels[0]) / 2)  # no value is far from all levels
    flat = np.zeros(len(levels))
    return Model(levels, flat, flat, least, scale)


@dataclass(frozen=True, slots=True)
class Belief:
    """The posterior of a search over n commits after a good one.

    Attributes:
        first_bad: (n,) probability that each commit after the good one is the first bad one.
        unchanged: probability that no commit changed the test.
        bits: (n + 1,) expected information of a try of each commit, the good one first.
    """

    first_bad: Floats
    unchanged: float
    bits: Floats


def believe(model: Model, prior: Floats, tries: Sequence[tuple[int, float]]) -> Belief:
    """Return the posterior. O(n L^2): 2,000 commits of sizes in 0.1 s.

    Args:
        prior: (n,) weight of each commit, > 0.
        tries: the position of a commit, 0 for the good one, and the measured value.
    """
    n = len(prior)
    at = np.array([position for position, _ in tries], np.int64)
    values = np.array([value for _, value in tries], np.float64)
    by_commit = np.zeros((n + 1, len(model.levels)))
    np.add.at(by_commit, at, model.log_likelihood(values))
    sums = np.cumsum(by_commit, axis=0)
    before, whole = sums[:-1], sums[-1]
    low, high = np.nonzero(model.levels - model.levels[:, None] >= model.least)
    pairs = model.good[low] + model.bad[high]
    joint = before[:, low] + (whole - before)[:, high] + (pairs - _log_sum(pairs))
    joint += np.log(prior / prior.sum() * (1 - UNCHANGED))[:, None]
    # A failure by chance has the rate of the history; on another machine it has any rate.
    same = whole + np.logaddexp(model.good - _log_sum(model.good), -log(len(whole)))
    same += log(UNCHANGED / 2)
    total = np.logaddexp(_log_sum(joint), _log_sum(same))
    weights, same_weights = np.exp(joint - total), np.exp(same - total)
    first_bad, unchanged = weights.sum(axis=1), float(same_weights.sum())
    known = np.maximum(first_bad, 1e-300)
    middle = weights.sum(axis=0) @ (model.levels[low] + model.levels[high])
    chance = model.chance_of_bad(float(middle) / max(2 * first_bad.sum(), 1e-300))
    # The chance of a failure before the first bad commit and from it on, by its position.
    good, bad = weights @ chance[low] / known, weights @ chance[high] / known
    same_chance = float(same_weights @ chance) / max(unchanged, 1e-300)
    expected = _by_position(first_bad * bad, first_bad * good) + unchanged * same_chance
    noise = _by_position(first_bad * _entropy(bad), first_bad * _entropy(good))
    noise += unchanged * _entropy(np.array(same_chance))
    return Belief(first_bad, unchanged, np.maximum(_entropy(expected) - noise, 0.0))


def _by_position(if_bad: Floats, if_good: Floats) -> Floats:
    """Return (n + 1,): the sum over all first bad commits, up to each position and after it."""
    after = np.cumsum(if_good[::-1])[::-1]
    total: Floats = np.append(0, np.cumsum(if_bad)) + np.append(after, 0)
    return total


def _log_sum(logs: Floats) -> float:
    highest = float(logs.max())
    return highest + log(float(np.exp(logs - highest).sum()))


def _entropy(chance: Floats) -> Floats:
    inside = np.clip(chance, 1e-12, 1 - 1e-12)
    return -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))


def next_commit(bits: Floats, seconds: Floats, unusable: Collection[int]) -> int | None:
    """Return the position with the most information in a second; None if no try is informative.

    Commits near an unusable commit are probably unusable, too: the more unusable commits there are,
    the farther away is the next try.
    """
    rate = np.where(bits >= MIN_BITS, bits / seconds, 0.0)
    if unusable:
        distances = np.abs(np.arange(len(bits))[:, None] - np.array([*unusable])).min(axis=1)
        rate *= distances / (distances + len(unusable) - 1 + 1e-9)
    return int(rate.argmax()) if rate.max() > 0 else None


def smallest_set(belief: Belief, confidence: float) -> list[int]:
    """Return the fewest positions that have the confidence, likely ones first; 0 is "unchanged".

    `DOUBT` raises the required confidence, unless the answer blames no commit.
    """
    chances = np.append(belief.unchanged, belief.first_bad)
    order = np.argsort(-chances, kind="stable")
    error = (1 - confidence) * (1 if belief.unchanged >= confidence else DOUBT)
    wanted = 1 - error - 1e-9  # for rounding errors of the sum
    count = int(np.searchsorted(np.cumsum(chances[order]), wanted)) + 1
    return order[:count].tolist()  # type: ignore[no-any-return]


def has_converged(candidates: Collection[int], unusable: Collection[int]) -> bool:
    """Return whether a search may end: its candidates cannot be separated further by any try."""
    between = range(min(candidates), max(candidates))
    return all(position in unusable for position in between)
