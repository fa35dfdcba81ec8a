"""Ranges of commits with a known culprit, and the search of `ciguard culprit` on them.

A range has 2 to 256 commits (log-uniform), of which a tenth of the inner ones do not build. The
outcome of a try depends on the range, the commit and the number of the try alone, so every rule
sees the same outcomes. Noise of sizes and times is Student's t with 4 degrees of freedom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import Final, Literal

import numpy as np

from ciguard.culprit.search import (
    Measure,
    Model,
    believe,
    failure_model,
    has_converged,
    next_commit,
    size_model,
    smallest_set,
)

CONFIDENCE: Final = 0.95
EARLIER: Final = 20  # runs before the range
MAX_EXECUTIONS: Final = 60
NOISE: Final = {"memory": 0.03, "duration": 0.1}  # standard deviation of the logarithm
Kind = Literal[
    "failures",
    "small differences",
    "memory",
    "memory, outliers",
    "durations",
    "same failures",
    "same durations",
]


@dataclass(frozen=True, slots=True)
class Range:
    """A range of commits, of which the last is red or heavier.

    Attributes:
        culprit: position of the first bad commit, from 1 to `commits`; 0: there is none.
        good, bad: rate of failures, or logarithm of the size or time.
        broken: positions that do not build; never an end of the range.
        outliers: share of the tries in which a size is larger, by a half to 6 times.
    """

    measure: Measure
    seed: int
    commits: int
    culprit: int
    good: float
    bad: float
    broken: frozenset[int]
    outliers: float = 0.0

    @property
    def can_be_named(self) -> bool:
        """Whether the culprit and the commit before it build."""
        return self.culprit > 0 and self.broken.isdisjoint({self.culprit, self.culprit - 1})

    def outcome(self, position: int, number: int) -> float:
        """Return what a try of a commit measures: 1 for a failure, or a logarithm."""
        random = np.random.default_rng((self.seed, position, number, 1))
        level = self.bad if 0 < self.culprit <= position else self.good
        if self.measure == "failure":
            return float(random.random() < level)
        level += float(random.uniform(0.4, 2)) if random.random() < self.outliers else 0.0
        return level + NOISE[self.measure] * float(random.standard_t(4)) / sqrt(2)

    def earlier(self) -> list[float]:
        """Return what the runs before the range measured, at the good level."""
        return [self.outcome(0, 10_000 + number) for number in range(EARLIER)]


def draw(kind: Kind, seed: int) -> Range:
    random = np.random.default_rng(seed)
    commits = int(2 ** random.uniform(1, 8))
    culprit = int(random.integers(1, commits + 1))
    broken = frozenset((1 + np.flatnonzero(random.random(commits - 1) < 0.1)).tolist())
    good = float(random.uniform(0, 0.2))
    if kind == "failures":
        return Range("failure", seed, commits, culprit, good, random.uniform(good + 0.7, 1), broken)
    if kind == "small differences":
        bad = good + random.uniform(0.2, 0.6)
        return Range("failure", seed, commits, culprit, good, bad, broken)
    if kind == "same failures":
        return Range("failure", seed, commits, 0, good, good, broken)
    if kind == "same durations":
        return Range("duration", seed, commits, 0, 0.0, 0.0, broken)
    if kind == "durations":
        bad = log1p(random.uniform(0.5, 3))
        return Range("duration", seed, commits, culprit, 0.0, bad, broken)
    outliers = 0.05 if kind == "memory, outliers" else 0.0
    bad = log1p(random.uniform(0.2, 1))
    return Range("memory", seed, commits, culprit, 0.0, bad, broken, outliers)


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule found in a range: the positions that it does not exclude; 0: unchanged."""

    range: Range
    candidates: tuple[int, ...]
    executions: int

    @property
    def named(self) -> int:
        return self.candidates[0] if len(self.candidates) == 1 else 0

    @property
    def excess(self) -> float:
        return self.executions - (2 * log(self.range.commits, 2) + 6)


def model_of(one: Range, earlier: list[float], tries: list[tuple[int, float]]) -> Model:
    if one.measure == "failure":
        failures = int(sum(earlier))
        return failure_model((failures, EARLIER - failures))
    scale = 1.4826 * float(np.median(np.abs(np.array(earlier) - np.median(earlier))))
    return size_model([value for _, value in tries], scale)


def ends(one: Range) -> Iterator[int]:
    """Yield what is tried before the search chooses: levels of sizes are of one machine."""
    yield one.commits
    if one.measure != "failure":
        yield 0


def search(one: Range) -> Found:
    """Search as the command does, each try of a second."""
    tries: list[tuple[int, float]] = []
    numbers: Counter[int] = Counter()
    unusable: set[int] = set()
    first, earlier = list(ends(one)), one.earlier()
    prior, seconds = np.ones(one.commits), np.ones(one.commits + 1)
    while True:
        belief = believe(model_of(one, earlier, tries), prior, tries)
        candidates = smallest_set(belief, CONFIDENCE)
        if not first and (has_converged(candidates, unusable) or len(tries) == MAX_EXECUTIONS):
            break
        position = first.pop(0) if first else next_commit(belief.bits, seconds, unusable)
        if position is None:
            break
        if position in one.broken:
            unusable.add(position)
            continue
        tries.append((position, one.outcome(position, numbers[position])))
        numbers[position] += 1
    return Found(one, tuple(candidates), len(tries))
