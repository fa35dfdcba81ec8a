"""Other programs' spellings -> the units of an inventory. Pure.

First by unit id; else by a normalised key that makes `pkg/mod.py::Class::t[x]` and the pair
(`pkg.mod.Class`, `t[x]`) the same, where exactly one unit has it. An entry without a name is the
total of a file, and belongs in equal parts to all units of it. An absolute path is taken from the
suite's folder (see `runner_paths`). Never across suites or variants.
O(units + entries).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import ExternalName
from ciguard.codec.results.runner_paths import (
    find_suite_folders,
    is_absolute,
    is_path_of,
    path_from_suite,
    plain_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.model import CaseKey

_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_SuiteKey = tuple[str, str]
_NormalizedKey = tuple[str, str, str]  # suite, variant, normalised text


def is_file_of(unit: str, classname: str | None, name: str | None, file: str | None) -> bool:
    """Say whether a unit is the file in which a case is: its own, or what stands as its class.

    Vitest writes the file as the class. CTest writes a test's own name there, which is no file.
    """
    files = {file, classname if classname != name else None} - {None}
    return any(is_path_of(unit, one) for one in files if one)


def _to_dotted(path: str) -> str:
    """A file's path as a module: without extension, dots for separators."""
    plain = plain_path(path)
    return _EXTENSION.sub("", plain).replace("/", ".").strip(".")


def _normalize(unit: str) -> str:
    """`a/b.py::C::t[x/y.z]` -> `a.b.C.t[x/y.z]`: parameters are kept as they are."""
    head, bracket, parameters = unit.partition("[")
    file, *names = head.split("::")
    return ".".join((_to_dotted(file) if names else file, *names)) + bracket + parameters


@dataclass(frozen=True, slots=True)
class _Index:
    """An inventory, looked up by id and by normalised texts; positions ascending."""

    by_id: Mapping[_NormalizedKey, int]
    by_path: Mapping[_NormalizedKey, int]
    by_key: Mapping[_NormalizedKey, list[int]]
    by_file: Mapping[_NormalizedKey, list[int]]
    folders: Mapping[_SuiteKey, Collection[str]]  # on runners

    def find(self, suite: str, variant: str, unit: str, spelling: ExternalName) -> tuple[int, ...]:
        """Positions for one entry."""
        position = self.by_id.get((suite, variant, unit))
        if position is not None:
            return (position,)
        # Our own records say in which file a unit is, and are no file's total for that.
        if spelling.name is None and spelling.file == unit:
            return tuple(self.by_file.get((suite, variant, _to_dotted(unit)), ()))
        # A unit's id as it is: Go's package with a dot, nextest's binary with a space. Normalising
        # would make one key of `a/b` and `a.b`, and of the slash before a subtest.
        for mark in (".", " ") if spelling.classname is not None else ():
            name = f"{spelling.classname}{mark}{spelling.name}"
            position = self.by_id.get((suite, variant, name))
            if position is not None:
                return (position,)
        for text in _texts(unit, spelling):
            found = self.by_key.get((suite, variant, text), ())
            if len(found) == 1:
                return (found[0],)
        # A framework whose units are whole files reports cases inside them; the file may stand in
        # the place of the class.
        folders = self.folders.get((suite, variant), ())
        for path in _paths(spelling):
            text = path_from_suite(path, folders)
            position = self.by_path.get((suite, variant, text))
            if position is not None:
                return (position,)
        return ()


def _texts(unit: str, spelling: ExternalName) -> tuple[str, ...]:
    """The normalised keys that an entry may stand for, the likeliest first."""
    if spelling.name is None:
        return (_normalize(unit),)
    classname = (spelling.classname or "").replace("::", ".").replace("/", ".")
    if spelling.classname == spelling.name:  # of CTest, which knows no classes
        return (_normalize(spelling.name), f"{classname}.{spelling.name}")
    texts = [f"{classname}.{spelling.name}" if classname else spelling.name]
    if spelling.file:
        texts.append(f"{_to_dotted(spelling.file)}.{texts[0]}")
    return tuple(texts)


def _paths(spelling: ExternalName) -> Iterator[str]:
    """What may be the file of an entry that has a name, or stand for one."""
    return filter(None, (spelling.file, spelling.classname))


def suite_folders(
    spellings: Iterable[ExternalName], units: Sequence[InventoryUnit]
) -> frozenset[str]:
    """The folders of one suite on the runners, by all that is known of its run."""
    absolute = [
        path for path in {path for one in spellings for path in _paths(one)} if is_absolute(path)
    ]
    known = {plain_path(unit.unit) for unit in units} if absolute else ()
    return find_suite_folders(absolute, known)


def _folders(
    keys: Sequence[CaseKey],
    spellings: Mapping[CaseKey, ExternalName],
    units: Sequence[InventoryUnit],
) -> dict[_SuiteKey, frozenset[str]]:
    names: dict[_SuiteKey, list[ExternalName]] = defaultdict(list)
    for key in keys:
        if key in spellings:
            names[key.suite, key.variant].append(spellings[key])
    inventories: dict[_SuiteKey, list[InventoryUnit]] = defaultdict(list)
    for unit in units if names else ():
        inventories[unit.suite, unit.variant].append(unit)
    return {key: suite_folders(found, inventories[key]) for key, found in names.items()}


def _index(units: Sequence[InventoryUnit], folders: Mapping[_SuiteKey, Collection[str]]) -> _Index:
    by_id: dict[_NormalizedKey, int] = {}
    by_path: dict[_NormalizedKey, int] = {}
    by_key: dict[_NormalizedKey, list[int]] = defaultdict(list)
    by_file: dict[_NormalizedKey, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        suite_key = (unit.suite, unit.variant)
        by_id.setdefault((*suite_key, unit.unit), position)
        by_path.setdefault((*suite_key, plain_path(unit.unit)), position)
        text = _normalize(unit.unit)
        by_key[(*suite_key, text)].append(position)
        file = unit.file or unit.unit.partition("::")[0]
        by_file[(*suite_key, _to_dotted(file))].append(position)
    return _Index(by_id, by_path, by_key, by_file, folders)


def match_units(
    keys: Sequence[CaseKey],
    spellings: Mapping[CaseKey, ExternalName],
    units: Sequence[InventoryUnit],
    folders: Mapping[_SuiteKey, Collection[str]] | None = None,
) -> list[tuple[int, ...]]:
    """Find the inventory's units for a history's keys.

    A unit that has an entry of its own is still part of its file's total: whoever
    shares a total out divides by all of the group.

    Args:
        keys: of the history (or of one foreign file).
        spellings: how other programs spell some of them.
        units: the inventory.
        folders: of each suite on the runners; None to conclude them from the other arguments.

    Returns:
        For each key its positions in the inventory: none where it belongs nowhere, several where it
        is the total of them all.
    """
    index = _index(units, _folders(keys, spellings, units) if folders is None else folders)
    nothing = ExternalName()
    return [
        index.find(key.suite, key.variant, key.unit, spellings.get(key, nothing)) for key in keys
    ]
