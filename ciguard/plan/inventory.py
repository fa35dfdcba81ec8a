"""The existing units: planned, excluded and orphaned ones, and their files.

All units are sorted by key, so that no decision depends on the order of the input. If that order
has a meaning, as the order of a framework's list has, `run_order` keeps it. Pure.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from posixpath import dirname, splitext
from typing import Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError, NothingToDo
from ciguard.history.query import BaseUnitCount
from ciguard.model import Exclusion, InventorySummary, Orphan, UnitKey
from ciguard.model.plan import excluding_pattern, exclusion_rule
from ciguard.text import name_some, one_line

Ancestors = Callable[[str], Sequence[str]]
GroupName = tuple[str, str, str]  # suite, variant, and a name that `Ancestors` gave

MAX_CODE_POINT: Final = "\U0010ffff"  # sorts after every text with the same beginning


@dataclass(frozen=True, slots=True)
class Inventory:
    """The existing units of all suites and variants.

    Attributes:
        units: planned ones, by key, each once.
        keys: of the units; stored, because constructing 100,000 of them costs 0.1 s.
        run_order: for each unit, its position in the order of execution.
        excluded: by key, not in `units`.
        files: number of units of every test file, also without any.
        file_names: of each unit, if known.
        folders: those of `file_names` that are folders of test files, such as a package of Go.
        orphans: by key, not in `units` either.
    """

    units: tuple[InventoryUnit, ...]
    keys: tuple[UnitKey, ...]
    run_order: tuple[int, ...]
    excluded: tuple[Exclusion, ...]
    files: Mapping[str, int]
    file_names: tuple[str | None, ...]
    orphans: tuple[Orphan, ...] = ()
    folders: frozenset[str] = frozenset()

    def in_folder(self) -> list[bool] | None:
        """Return for each unit whether its file is a folder; None without folders."""
        if not self.folders:
            return None
        return [name in self.folders for name in self.file_names]

    def ancestors(self, of_suite: Mapping[str, Ancestors]) -> Callable[[int], Sequence[GroupName]]:
        """Return a function from a unit to the names of its groups, nearest first."""

        def names(position: int) -> Sequence[GroupName]:
            suite, variant, unit = self.keys[position]
            return [(suite, variant, name) for name in of_suite[suite](unit)]

        return names

    def members(self, of_suite: Mapping[str, Ancestors]) -> Callable[[GroupName], list[int]]:
        """Return a function from a name of `ancestors` to its units, whose ids begin with it."""

        def members_of(name: GroupName) -> list[int]:
            suite, variant, begin = name
            last = (suite, variant, f"{begin}{MAX_CODE_POINT}")
            return [
                position
                for position in range(bisect_left(self.keys, name), bisect_right(self.keys, last))
                if begin in of_suite[suite](self.keys[position].unit)
            ]

        return members_of

    def file_indices(self) -> tuple[list[int], int]:
        """Return the index of each unit's file, or -1, and the number of files."""
        index_of_file: dict[tuple[str, str, str], int] = {}
        indices = []
        for unit, file in zip(self.units, self.file_names, strict=True):
            file_key = (unit.suite, unit.variant, file or "")
            indices.append(index_of_file.setdefault(file_key, len(index_of_file)) if file else -1)
        return indices, len(index_of_file)

    def summary(self) -> InventorySummary:
        """Return the counts for the plan. The hash is the SHA-256 of all keys, as JSON."""
        others = [UnitKey(each.suite, each.variant, each.unit) for each in self.excluded]
        others += [orphan.key for orphan in self.orphans]
        keys = sorted([*self.keys, *others]) if others else self.keys
        return InventorySummary(
            collected=len(keys),
            files=dict(sorted(self.files.items())),
            hash=hashlib.sha256(json.dumps(keys).encode("ascii")).hexdigest(),
            excluded=self.excluded,
            orphans=self.orphans,
        )


def inventory(
    units: Sequence[InventoryUnit],
    *,
    exclude: Mapping[str, Sequence[str]],
    files: Iterable[str] = (),
    ordered: bool,
) -> Inventory:
    """Sort, exclude and count units.

    Args:
        units: all existing ones.
        exclude: patterns of `fnmatch` by suite; an id itself always matches.
        files: existing test files, with or without a unit.
        ordered: a framework listed `units`; its order is the order within a shard.

    Raises:
        InputError: a unit is listed twice.
        NothingToDo: there is no unit, or all are excluded.
    """
    planned: list[int] = []
    excluded: list[Exclusion] = []
    for position in _by_key(units):
        unit = units[position]
        patterns = exclude.get(unit.suite)
        pattern = excluding_pattern(unit.unit, patterns) if patterns else None
        if pattern is None:
            planned.append(position)
        else:
            rule = exclusion_rule(unit.suite, pattern)
            excluded.append(Exclusion(unit.unit, rule, unit.suite, unit.variant))
    if not planned:
        text = f"all {len(excluded)} tests are excluded" if excluded else "there is no test to plan"
        fix = "check `exclude` of the suite" if excluded else "check what the framework lists"
        raise NothingToDo(text, fix=fix)
    names = [file_of(unit) for unit in units]
    counts = Counter(name for name in names if name)
    existing = tuple(files)
    folders = frozenset(dirname(name) or "." for name in existing) & counts.keys()
    # In a folder with units each file counts as one with tests.
    empty = (name for name in existing if (dirname(name) or ".") not in folders)
    # One text for all units of a file saves 80 MB with a million units.
    interned = {name: name for name in counts}
    return Inventory(
        units=tuple(units[position] for position in planned),
        keys=tuple(units[position].key for position in planned),
        run_order=tuple(planned) if ordered else tuple(range(len(planned))),
        excluded=tuple(excluded),
        files={**dict.fromkeys(empty, 0), **counts},
        file_names=tuple(interned.get(names[position] or "") for position in planned),
        folders=folders,
    )


def with_base_counts(inventory: InventorySummary, base: BaseUnitCount | None) -> InventorySummary:
    """Add the base's counts, and the files that lost all their units since."""
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


def _names(file: str) -> set[str]:
    """Return the file's path, and the possible names of a Java class in it."""
    parts = splitext(file)[0].split("/")
    return {file, *(".".join(parts[count:]) for count in range(len(parts)))}


def _by_key(units: Sequence[InventoryUnit]) -> list[int]:
    """Return positions in the order of the keys, sorted by texts first, which compare faster.

    Raises:
        InputError: a key is listed twice.
    """
    texts = [unit.unit for unit in units]
    order = sorted(range(len(units)), key=texts.__getitem__)
    suite_keys = [(unit.suite, unit.variant) for unit in units]
    rank = {suite_key: index for index, suite_key in enumerate(sorted(set(suite_keys)))}
    if len(rank) > 1:
        order.sort(key=[rank[suite_key] for suite_key in suite_keys].__getitem__)
    duplicates = [
        units[position].key
        for position, after in pairwise(order)
        if texts[position] == texts[after] and suite_keys[position] == suite_keys[after]
    ]
    reject_duplicates(duplicates)
    return order


def reject_duplicates(keys: Sequence[UnitKey], where: str = "") -> None:
    """Refuse duplicates.

    Raises:
        InputError: names them.
    """
    if keys:
        fix = "list each test once, or give each a different name"
        units = sorted({key.unit for key in keys})
        raise InputError(
            f"listed more than once: {name_some(units, one_line)}", where=where, fix=fix
        )


def file_of(unit: InventoryUnit) -> str | None:
    """Return the file of a unit: as listed, otherwise the part of its id before `::`."""
    if unit.file:
        return unit.file
    head, separator, _ = unit.unit.partition("::")
    return head if separator and head else None
