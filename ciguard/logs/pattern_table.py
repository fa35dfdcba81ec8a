"""The table of all log patterns, which lists the files of the domains; add a row to its domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ciguard.logs import accelerator_patterns, actions_patterns, framework_patterns, system_patterns
from ciguard.logs.accelerator_patterns import SHARE, TRANSIENT
from ciguard.logs.pattern import Better, LogPattern
from ciguard.model import Ending

# "changed": the values differ, and neither direction is better.
DirectionVerdict = Literal["better", "worse", "changed", "same"]
PATTERNS: Final = (
    *accelerator_patterns.PATTERNS,
    *system_patterns.PATTERNS,
    *actions_patterns.PATTERNS,
    *framework_patterns.PATTERNS,
)


@dataclass(frozen=True, slots=True)
class Direction:
    """The better direction of a value, to judge a difference, and its bounds; see `LogPattern`.

    Attributes:
        better: None for the default of its unit.
        is_occurrence: the number of lines counts, such as of a warning or a failure.
        within: the names in its key of what it is counted in, such as a kernel.
    """

    better: Better | None = ""
    exact: bool = False
    is_occurrence: bool = False
    at_least: float | None = None
    at_most: float | None = None
    within: tuple[str, ...] = ()

    def allows(self, value: float) -> bool:
        low, high = self.at_least, self.at_most
        return (low is None or value >= low) and (high is None or value <= high)

    def judge(self, difference: float) -> DirectionVerdict:
        """Judge a difference that is significant, or 0."""
        if not difference:
            return "same"
        if not self.better:
            return "changed"
        return "better" if (difference < 0) == (self.better == "lower") else "worse"


@dataclass(frozen=True, slots=True)
class BoundViolation:
    """A metric beyond a bound, with its smallest or largest value; None if it has no value."""

    name: str
    unit: str
    value: float | None
    bound: float
    setting: Literal["at_least", "at_most"]


def find_violations(
    values: Iterable[tuple[str, str, float]], directions: Mapping[str, Direction]
) -> Iterator[BoundViolation]:
    """Yield the metrics beyond their bounds; `values` have name, unit and number."""
    numbers: dict[str, list[float]] = defaultdict(list)
    units: dict[str, str] = {}
    for name, units[name], value in values:
        numbers[name].append(value)
    for name, row in directions.items():
        found = [float(len(numbers[name]))] if row.is_occurrence else numbers[name]
        low, high = min(found, default=None), max(found, default=None)
        unit = "" if row.is_occurrence else units.get(name, "")
        if row.at_least is not None and (low is None or low < row.at_least):
            yield BoundViolation(name, unit, low, row.at_least, "at_least")
            if low is None:  # one sentence is enough
                continue
        if row.at_most is not None and (high is None or high > row.at_most):
            yield BoundViolation(name, unit, high, row.at_most, "at_most")


def directions(patterns: Sequence[LogPattern] = PATTERNS) -> dict[str, Direction]:
    """Map the name of each value to its direction, also of values computed from others."""
    keys = {row.name: row.key for row in patterns if row.kind == "context"}
    by_name = {
        name: Direction(row.better, row.exact, is_counted, row.at_least, row.at_most, within)
        for row in patterns
        for is_counted in (row.kind == "failure" or not row.fields,)
        for within in (tuple(part for context in row.contexts for part in keys[context]),)
        for name in ({*row.value_names().values(), row.name})
    }
    # A share has no better direction, because it also depends on the limit.
    return {**by_name, TRANSIENT: Direction("lower", exact=True), SHARE: Direction(exact=True)}


def endings(patterns: Sequence[LogPattern] = PATTERNS) -> dict[str, tuple[Ending | None, bool]]:
    """Map the name of each failure to the ending of its process, and to `inconclusive`."""
    return {
        name: (row.ending, row.inconclusive)
        for row in patterns
        if row.kind == "failure"
        for name in (*row.value_names().values(), row.name)
    }
