"""Charts of a measure over runs, as points of SVG lines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ciguard.render.change_point import ChangePoint

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
HEADROOM: Final = 1.05


@dataclass(frozen=True, slots=True)
class RunChart:
    """A chart of a measure over runs, the oldest run at the left.

    Attributes:
        most: value at the top.
        lines: points of each line; a run without a value ends a line.
        bad: x of each run that is marked, such as those in which a test failed.
    """

    most: float
    lines: tuple[str, ...]
    bad: tuple[float, ...]


def draw_runs(runs: Sequence[tuple[float | None, str]]) -> RunChart | None:
    """Draw value and status of each run; None if no run has a value."""
    known = [value for value, _ in runs if value is not None]
    if not known:
        return None
    most = max(known) * HEADROOM or 1.0
    step = WIDTH / max(1, len(runs) - 1)
    points = [
        None if value is None else f"{index * step:.1f},{HEIGHT * (1 - value / most):.1f}"
        for index, (value, _) in enumerate(runs)
    ]
    groups = itertools.groupby(points, key=lambda point: point is not None)
    lines = tuple(
        _line([point for point in group if point]) for is_known, group in groups if is_known
    )
    bad = tuple(round(i * step, 1) for i, (_, status) in enumerate(runs) if status == "bad")
    return RunChart(most, lines, bad)


def _line(points: list[str]) -> str:
    """Return the points of a line; a single point twice, which SVG draws as a dot."""
    return " ".join(points if len(points) > 1 else points * 2)


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure over runs, the oldest first, with its change; positions count these runs."""

    measure: str
    title: str
    values: tuple[float | None, ...]
    change: ChangePoint | None

    def chart(self) -> RunChart | None:
        first = self.change.first if self.change else None
        return draw_runs([(v, "bad" if at == first else "") for at, v in enumerate(self.values)])
