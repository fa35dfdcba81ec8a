"""The one table of log patterns: every row, by domain. To add one, add it to its domain's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.logs import (
    accelerator_patterns,
    actions_patterns,
    framework_patterns,
    system_patterns,
)
from ciguard.logs.allocator_blocks import SHARE, TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.logs.pattern import Better, LogPattern
    from ciguard.model import Ending

# "changed": it differs, and neither direction is better.
DirectionVerdict = Literal["better", "worse", "changed", "same"]
PATTERNS: Final = (
    *accelerator_patterns.PATTERNS,
    *system_patterns.PATTERNS,
    *actions_patterns.PATTERNS,
    *framework_patterns.PATTERNS,
)


@dataclass(frozen=True, slots=True)
class Direction:
    """How a difference of a value is judged; see `LogPattern`.

    Attributes:
        is_occurrence: the value is a text that is there, such as a warning, and no number.
    """

    better: Better = ""
    exact: bool = False
    is_occurrence: bool = False

    def judge(self, difference: float) -> DirectionVerdict:
        """The verdict on a difference that is no chance."""
        if not difference:
            return "same"
        if not self.better:
            return "changed"
        return "better" if (difference < 0) == (self.better == "lower") else "worse"


def directions(patterns: Sequence[LogPattern] = PATTERNS) -> dict[str, Direction]:
    """By name of the value, what follows from others included."""
    found = {
        name: Direction(row.better, row.exact, not row.fields)
        for row in patterns
        for name in ({*row.value_names().values(), row.name})
    }
    # A share is another one of another limit, too.
    return {**found, TRANSIENT: Direction("lower", exact=True), SHARE: Direction(exact=True)}


def endings(
    patterns: Sequence[LogPattern] = PATTERNS,
) -> dict[str, tuple[Ending | None, bool]]:
    """By name of a failure's value: what it makes of its process, and whether it is weak."""
    return {
        name: (row.ending, row.weak)
        for row in patterns
        if row.kind == "failure"
        for name in (*row.value_names().values(), row.name)
    }
