"""A measure of a test over its runs as geometry for a drawing without scripts. Pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
HEADROOM: Final = 1.05


@dataclass(frozen=True, slots=True)
class RunChart:
    """The oldest run at the left.

    Attributes:
        most: the value at the top.
        lines: points of a line each; a run without a value interrupts them.
        bad: where the runs are in which the test went wrong.
    """

    most: float
    lines: tuple[str, ...]
    bad: tuple[float, ...]


def draw_runs(runs: Sequence[tuple[float | None, str]]) -> RunChart | None:
    """Draw value and status of each run; None where no run has a value."""
    known = [value for value, _ in runs if value is not None]
    if not known:
        return None
    most = max(known) * HEADROOM or 1.0
    step = WIDTH / max(1, len(runs) - 1)
    points = [
        None if value is None else f"{at * step:.1f},{HEIGHT * (1 - value / most):.1f}"
        for at, (value, _) in enumerate(runs)
    ]
    groups = itertools.groupby(points, key=lambda point: point is not None)
    lines = tuple(_line([one for one in group if one]) for is_known, group in groups if is_known)
    bad = tuple(round(at * step, 1) for at, (_, status) in enumerate(runs) if status == "bad")
    return RunChart(most, lines, bad)


def _line(points: list[str]) -> str:
    """A single point is drawn too: a line of no length with round ends."""
    return " ".join(points if len(points) > 1 else points * 2)
