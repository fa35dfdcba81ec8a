"""Conditions under which two runs were measured: variables of `[metrics] conditions`. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Conditions = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A variable with other values in the other run; () where no leg had it set."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def conditions_of(legs: Iterable[Mapping[str, str]]) -> Conditions:
    """The values of each variable over the legs of a run, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for leg in legs:
        for name, value in leg.items():
            found[name].add(value)
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}


def condition_changes(before: Conditions, after: Conditions) -> tuple[ConditionChange, ...]:
    """Those that differ, or that only one of the runs has, by name."""
    return tuple(
        ConditionChange(name, before.get(name, ()), after.get(name, ()))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )
