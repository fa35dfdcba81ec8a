"""The picture of tests in both runs: which of many it shows, and where each dot stands. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.text import case_name, duration, one_line

if TYPE_CHECKING:
    from ciguard.compare.run_columns import Run

WIDTH: Final = 420.0
LEFT: Final = 64.0

PER_CRITERION: Final = 400  # the largest, those that moved most, and an even sample of the rest
NAME_WIDTH: Final = 160


@dataclass(frozen=True, slots=True)
class Pair:
    """A test that passed in both runs."""

    name: str
    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the tests that passed in both runs, of so many."""

    shown: tuple[Pair, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class Dot:
    """A test in both runs."""

    x: float
    y: float
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A value of both axes, and how far from their origin it stands."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """Tests in both runs on two logarithmic axes; on the diagonal nothing changed."""

    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    total: int


def scatter(pairs: Sample) -> Scatter | None:
    """Wall times of tests before and after; None where fewer than two have both."""
    known = [pair for pair in pairs.shown if pair.before_s > 0 and pair.after_s > 0]
    if len(known) < 2:  # noqa: PLR2004
        return None
    values = [value for pair in known for value in (pair.before_s, pair.after_s)]
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    scale = WIDTH / (high - low)

    def at(value: float) -> float:
        return (math.log10(value) - low) * scale

    dots = tuple(
        Dot(
            round(LEFT + at(pair.before_s), 1),
            round(WIDTH - at(pair.after_s), 1),
            f"{one_line(pair.name, 120)}\n{duration(pair.before_s)} to {duration(pair.after_s)}",
            "slower" if pair.after_s > pair.before_s else "faster",
        )
        for pair in known
    )
    ticks = tuple(
        Tick(round((power - low) * scale, 1), _power(power)) for power in range(low, high + 1)
    )
    return Scatter(dots, ticks, pairs.total)


def _power(power: int) -> str:
    """ "1 ms", "10 s", "1,000 s"."""
    return f"{10**power:,} s" if power >= 0 else f"{1000 * 10.0**power:g} ms"


def sample_pairs(base: Run | None, candidate: Run) -> Sample:
    """At most three times `PER_CRITERION` tests, in the candidate's order; `of` counts all of
    them.
    """
    if base is None:
        return Sample()
    before, after = align(candidate, base).wall_s, candidate.wall_s
    rows = np.flatnonzero(usable(candidate) & (before > 0) & (after > 0))
    before, after = before[rows], after[rows]
    count = len(rows)
    if count <= 3 * PER_CRITERION:
        chosen = np.arange(count)
    else:
        largest = np.argsort(-np.maximum(before, after), kind="stable")[:PER_CRITERION]
        moved = np.argsort(-np.abs(after - before), kind="stable")[:PER_CRITERION]
        even = np.linspace(0, count - 1, PER_CRITERION).astype(np.int64)
        chosen = np.unique(np.concatenate([largest, moved, even]))
    found = tuple(
        Pair(
            case_name(candidate.keys[int(rows[one])], NAME_WIDTH),
            float(before[one]),
            float(after[one]),
        )
        for one in chosen
    )
    return Sample(found, count)
