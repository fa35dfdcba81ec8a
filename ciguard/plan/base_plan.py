"""The base's plan: where its units are, and which of them are elsewhere now. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from posixpath import join, normpath, splitext
from typing import TYPE_CHECKING

import numpy as np

from ciguard.history.query import cases_of_run, units, units_planned
from ciguard.model import MovedUnit, UnitCount, UnitKey, count_units
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.history.file import History
    from ciguard.history.query import BaseQuery
    from ciguard.model import InventorySummary, Plan, Shard, Suite


@dataclass(frozen=True, slots=True)
class BaseShard:
    """A shard of the base's plan."""

    key: str
    pool: str
    units: tuple[UnitKey, ...]


@dataclass(frozen=True, slots=True)
class BasePlan:
    """The base's shards, by key; `name` is what a person calls it."""

    name: str
    shards: tuple[BaseShard, ...]


@dataclass(frozen=True, slots=True)
class BaseCount:
    """How many units the base's plan has.

    `files` are those that have a unit there, as far as ids tell, and classes.
    """

    planned: tuple[UnitCount, ...]
    source: str
    files: frozenset[str] = frozenset()


def base_count_of_plan(plan: Plan) -> BaseCount:
    """As a plan file has it."""
    keys = {unit.key for shard in plan.shards for unit in shard.units}
    files = frozenset(file for file, units in plan.inventory.files.items() if units)
    return BaseCount(count_units(keys), f"plan {plan.id}", files)


def base_count_of_history(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseCount | None:
    """Of the base's newest run before the planned one that has these; None where it is unknown.

    Args:
        suites: by name; ids of units name files as seen from the suite's working folder.
    """
    found = units_planned(history, query, suites)
    if found is None:
        return None
    keys = cases_of_run(history, found.position)
    files = {
        _file_or_class(suites[suite], unit)
        for suite, unit in {(key.suite, key.unit) for key in keys}
        if suite in suites
    }
    return BaseCount(found.planned, found.source, files=frozenset(files))


def _file_or_class(suite: Suite, unit: str) -> str:
    head, separator, _ = unit.partition("::")
    file = framework(suite.framework).file_of(unit) or (head if separator else "")
    return normpath(join(suite.cwd, file)) if file else unit


def _names(file: str) -> set[str]:
    """The file's path, and the names that a Java class in it may have."""
    parts = splitext(file)[0].split("/")
    return {file, *(".".join(parts[count:]) for count in range(len(parts)))}


def with_base_counts(inventory: InventorySummary, base: BaseCount | None) -> InventorySummary:
    """The inventory with the base's counts, and the files that have no unit any more."""
    if base is None:
        return inventory
    return replace(
        inventory,
        base_units=base.planned,
        base_source=base.source,
        files_without_units=tuple(
            sorted(
                file
                for file, units in inventory.files.items()
                if not units and not base.files.isdisjoint(_names(file))
            )
        ),
    )


def from_plan(plan: Plan) -> BasePlan:
    """As a plan file has it."""
    return BasePlan(
        plan.id,
        tuple(
            BaseShard(shard.key, shard.pool, tuple(unit.key for unit in shard.units))
            for shard in plan.shards
        ),
    )


def from_history(history: History) -> BasePlan | None:
    """As the newest run was planned of which every leg ended by itself; None without one.

    Its records name the shard in which each unit ran, so no plan file has to be stored.
    """
    values = history.values
    keys, unit_of_key = units(history)
    for number in range(len(history.runs) - 1, -1, -1):
        run = history.runs[number]
        if not run.complete or not all(leg.shard for leg in run.legs):
            continue
        rows = np.flatnonzero(values.run == number)
        held: dict[int, set[UnitKey]] = defaultdict(set)
        for unit, leg in zip(
            unit_of_key[values.key[rows]].tolist(), values.leg[rows].tolist(), strict=True
        ):
            held[leg].add(keys[unit])
        shards = [
            BaseShard(leg.shard, leg.runner.pool, tuple(sorted(held[place])))
            for place, leg in enumerate(run.legs)
        ]
        return BasePlan(f"run {run.run_id}", tuple(sorted(shards, key=lambda shard: shard.key)))
    return None


def previous_shards(
    base: BasePlan, keys: Sequence[UnitKey]
) -> tuple[Mapping[str, Mapping[int, int]], Mapping[str, tuple[str, ...]]]:
    """Where the base has the units that exist now.

    Args:
        keys: of the inventory.

    Returns:
        By pool: for positions in the inventory the number of the shard among that pool's, and the
        keys of the pool's shards. O(units).
    """
    position = {key: place for place, key in enumerate(keys)}
    shards: dict[str, tuple[str, ...]] = {}
    found: dict[str, dict[int, int]] = {}
    for shard in base.shards:
        of_pool = found.setdefault(shard.pool, {})
        before = shards.get(shard.pool, ())
        for key in shard.units:
            place = position.get(key)
            if place is not None:
                of_pool[place] = len(before)
        shards[shard.pool] = (*before, shard.key)
    return found, shards


def shard_number(key: str) -> int | str:
    """The number in a shard's key: 07 of 99 and 007 of 100 shards are the same."""
    return int(key) if key.isascii() and key.isdigit() else key


def moved(base: BasePlan, shards: Sequence[Shard]) -> tuple[MovedUnit, ...]:
    """Units of both that are in another shard now, by key of the unit."""
    before = {key: shard.key for shard in base.shards for key in shard.units}
    found = [
        (unit.key, before[unit.key], shard.key)
        for shard in shards
        for unit in shard.units
        if shard_number(before.get(unit.key, shard.key)) != shard_number(shard.key)
    ]
    return tuple(
        MovedUnit(key.unit, was, now, key.suite, key.variant) for key, was, now in sorted(found)
    )
