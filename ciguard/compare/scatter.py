"""The picture of tests in both runs: where each dot stands, for a template to draw. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ciguard.text import duration, one_line

WIDTH: Final = 420.0
LEFT: Final = 64.0


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
