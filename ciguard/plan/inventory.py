"""The units that exist now, which of them are planned, and what keeps them together; and how many
the base has. Pure.

Everything is sorted by key, so that no decision depends on the order of the input. Where that order
has a meaning, as a framework's own does, `run_order` has it.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from posixpath import dirname, join, normpath, splitext
from typing import TYPE_CHECKING, Final, cast

from ciguard.errors import InputError, NothingToDo
from ciguard.history.query import BaseQuery, base_unit_count, cases_of_run
from ciguard.model import CaseKey, Exclusion, InventorySummary, Orphan, Suite, UnitCount, UnitKey
from ciguard.model.plan import exclusion_rule
from ciguard.run.frameworks.registry import framework
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.history.file import History

    Ancestors = Callable[[str], Sequence[str]]
    Name = tuple[str, str, str]  # suite, variant, and a name that `Ancestors` gave

MAX_CODE_POINT: Final = "\U0010ffff"  # sorts after every text with the same beginning
MAX_NAMED: Final = 5  # ids in a message; the rest is counted


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is there.

    Attributes:
        units: planned ones, by key, each once.
        keys: of the units; stored, because making 100,000 of them costs 0.1 s.
        run_order: for each unit, its place in the order in which it is to run.
        excluded: by key, not in `units`.
        files: every test file, also those without a unit -> how many units it has.
        file_names: of each unit, where it is known.
        folders: those of `file_names` that are folders of test files, as a package of Go is.
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
        """For each unit, whether its place is a folder; None where no unit's is."""
        if not self.folders:
            return None
        return [name in self.folders for name in self.file_names]

    def ancestors(self, of_suite: Mapping[str, Ancestors]) -> Callable[[int], Sequence[Hashable]]:
        """Names of a unit's groups by position, nearest first, within its suite and variant."""
        if len([*group_by_suite_key(self.keys)]) == 1:
            only = of_suite[self.keys[0].suite]
            return lambda position: only(self.keys[position].unit)

        def names(position: int) -> Sequence[Hashable]:
            suite, variant, unit = self.keys[position]
            return [(suite, variant, name) for name in of_suite[suite](unit)]

        return names

    def members(self, of_suite: Mapping[str, Ancestors]) -> Callable[[Hashable], list[int]]:
        """Units by a name of `ancestors`: every name is the beginning of a unit's id."""
        suite_key: UnitKey | None = (
            self.keys[0] if len([*group_by_suite_key(self.keys)]) == 1 else None
        )

        def found(name: Hashable) -> list[int]:
            group = (
                suite_key._replace(unit=cast("str", name))
                if suite_key
                else UnitKey(*cast("Name", name))
            )
            last = group._replace(unit=f"{group.unit}{MAX_CODE_POINT}")
            ancestors = of_suite[group.suite]
            return [
                place
                for place in range(bisect_left(self.keys, group), bisect_right(self.keys, last))
                if group.unit in ancestors(self.keys[place].unit)
            ]

        return found

    def file_indices(self) -> tuple[list[int], int]:
        """For each unit the number of its file, or -1; and how many there are."""
        numbers: dict[tuple[str, str, str], int] = {}
        places = []
        for unit, file in zip(self.units, self.file_names, strict=True):
            file_key = (unit.suite, unit.variant, file or "")
            places.append(numbers.setdefault(file_key, len(numbers)) if file else -1)
        return places, len(numbers)

    def summary(self) -> InventorySummary:
        """As the plan keeps it. The hash is the SHA-256 of all keys, as JSON."""
        others = [UnitKey(one.suite, one.variant, one.unit) for one in self.excluded]
        others += [one.key for one in self.orphans]
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
    """Sort, exclude and count.

    Args:
        units: all that exist.
        exclude: patterns by suite, as `fnmatch` reads them; an id itself always matches.
        files: test files that are there, whether they have a unit or not.
        ordered: a framework listed `units`; its order is the order within a shard.

    Raises:
        InputError: a unit is there twice.
        NothingToDo: none is there, or all are excluded.
    """
    planned: list[int] = []
    excluded: list[Exclusion] = []
    for position in _by_key(units):
        unit = units[position]
        patterns = exclude.get(unit.suite)
        rule = _rule(unit, patterns) if patterns else None
        if rule is None:
            planned.append(position)
        else:
            excluded.append(Exclusion(unit.unit, rule, unit.suite, unit.variant))
    if not planned:
        text = f"all {len(excluded)} units are excluded" if excluded else "there is no unit to plan"
        fix = "look at suite.exclude" if excluded else "run the framework's own listing and look"
        raise NothingToDo(text, fix=fix)
    names = [file_of(unit) for unit in units]
    counts = Counter(name for name in names if name)
    there = tuple(files)
    folders = frozenset(dirname(name) or "." for name in there) & counts.keys()
    # No file of a folder that has units is without tests.
    empty = (name for name in there if (dirname(name) or ".") not in folders)
    one = {name: name for name in counts}  # a text a file, not a unit: 80 MB of a million units
    return Inventory(
        units=tuple(units[position] for position in planned),
        keys=tuple(units[position].key for position in planned),
        run_order=tuple(planned) if ordered else tuple(range(len(planned))),
        excluded=tuple(excluded),
        files={**dict.fromkeys(empty, 0), **counts},
        file_names=tuple(one.get(names[position] or "") for position in planned),
        folders=folders,
    )


def group_by_suite_key(
    keys: Sequence[UnitKey] | Sequence[CaseKey],
) -> Iterator[tuple[tuple[str, str], range]]:
    """Suites and variants of sorted keys, each with its positions. O(suites x variants)."""
    begin = 0
    while begin < len(keys):
        suite, variant = keys[begin][:2]
        end = bisect_left(keys, (suite, variant + "\0"), begin)  # what comes next at the least
        yield (suite, variant), range(begin, end)
        begin = end


def _by_key(units: Sequence[InventoryUnit]) -> list[int]:
    """Positions in the order of the keys: texts first, which compare faster than tuples do.

    Raises:
        InputError: a key is there twice.
    """
    texts = [unit.unit for unit in units]
    found = sorted(range(len(units)), key=texts.__getitem__)
    suite_keys = [(unit.suite, unit.variant) for unit in units]
    rank = {suite_key: place for place, suite_key in enumerate(sorted(set(suite_keys)))}
    if len(rank) > 1:
        found.sort(key=[rank[suite_key] for suite_key in suite_keys].__getitem__)
    twice = [
        units[place].key
        for place, after in pairwise(found)
        if texts[place] == texts[after] and suite_keys[place] == suite_keys[after]
    ]
    reject_duplicates(twice)
    return found


def reject_duplicates(keys: Sequence[UnitKey], where: str = "") -> None:
    """Refuse duplicates.

    Raises:
        InputError: names them.
    """
    if keys:
        fix = "a unit runs once: list it once, or give each its own name"
        units = sorted({key.unit for key in keys})
        raise InputError(f"listed more than once: {name_some(units)}", where=where, fix=fix)


def _rule(unit: InventoryUnit, patterns: Sequence[str]) -> str | None:
    for pattern in patterns:
        if pattern == unit.unit or fnmatch.fnmatchcase(unit.unit, pattern):
            return exclusion_rule(unit.suite, pattern)
    return None


def name_some(ids: Sequence[str]) -> str:
    """Some ids for a message in one line; the rest is counted."""
    shown = ", ".join(one_line(unit) for unit in ids[:MAX_NAMED])
    return shown if len(ids) <= MAX_NAMED else f"{shown} and {len(ids) - MAX_NAMED} more"


def file_of(unit: InventoryUnit) -> str | None:
    """Its file: as listed, else the part before `::` of its id."""
    if unit.file:
        return unit.file
    head, separator, _ = unit.unit.partition("::")
    return head if separator and head else None


@dataclass(frozen=True, slots=True)
class BaseCount:
    """How many units the base's plan has.

    `files` are those that have a unit there, as far as ids tell, and classes.
    """

    planned: tuple[UnitCount, ...]
    source: str
    files: frozenset[str] = frozenset()


def base_count_of_history(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseCount | None:
    """Of the base's newest run before the planned one that has these; None where it is unknown.

    Args:
        suites: by name; ids of units name files as seen from the suite's working folder.
    """
    found = base_unit_count(history, query, suites)
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
