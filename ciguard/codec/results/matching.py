"""Other programs' spellings -> the units of an inventory. Pure.

First by unit id; else by a normalised key that makes `pkg/mod.py::Class::t[x]` and the pair
(`pkg.mod.Class`, `t[x]`) the same, where exactly one unit has it. An entry without a name is the
total of a file, and belongs in equal parts to all units of it. Never across suites or variants.
O(units + entries).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import ExternalName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.model import CaseKey

_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_NormalizedKey = tuple[str, str, str]  # suite, variant, normalised text


def _plain(path: str) -> str:
    """A path as most programs write it; some begin it with "./"."""
    return path.replace("\\", "/").removeprefix("./")


def is_file_of(unit: str, classname: str | None, name: str | None, file: str | None) -> bool:
    """Say whether a unit is the file in which a case is: its own, or what stands as its class.

    Vitest writes the file as the class. CTest writes a test's own name there, which is no file.
    """
    files = {file, classname if classname != name else None} - {None}
    return _plain(unit) in {_plain(one) for one in files if one}


def _to_dotted(path: str) -> str:
    """A file's path as a module: without extension, dots for separators."""
    plain = _plain(path)
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

    def find(self, suite: str, variant: str, unit: str, spelling: ExternalName) -> tuple[int, ...]:
        """Positions for one entry."""
        position = self.by_id.get((suite, variant, unit))
        if position is not None:
            return (position,)
        # Our own records say in which file a unit is, and are no file's total for that.
        if spelling.name is None and spelling.file == unit:
            return tuple(self.by_file.get((suite, variant, _to_dotted(unit)), ()))
        # Go: a class with slashes is a package, and begins the unit's id as it is. Normalising both
        # would make one key of `a/b` and `a.b`, and of the slash before a subtest.
        if spelling.classname is not None and "/" in spelling.classname:
            name = f"{spelling.classname}.{spelling.name}"
            position = self.by_id.get((suite, variant, name))
            if position is not None:
                return (position,)
        for text in _texts(unit, spelling):
            found = self.by_key.get((suite, variant, text), ())
            if len(found) == 1:
                return (found[0],)
        # A framework whose units are whole files reports cases inside them; the file may stand in
        # the place of the class.
        for path in filter(None, (spelling.file, spelling.classname)):
            position = self.by_path.get((suite, variant, _plain(path)))
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


def _index(units: Sequence[InventoryUnit]) -> _Index:
    by_id: dict[_NormalizedKey, int] = {}
    by_path: dict[_NormalizedKey, int] = {}
    by_key: dict[_NormalizedKey, list[int]] = defaultdict(list)
    by_file: dict[_NormalizedKey, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        suite_key = (unit.suite, unit.variant)
        by_id.setdefault((*suite_key, unit.unit), position)
        by_path.setdefault((*suite_key, _plain(unit.unit)), position)
        text = _normalize(unit.unit)
        by_key[(*suite_key, text)].append(position)
        file = unit.file or unit.unit.partition("::")[0]
        by_file[(*suite_key, _to_dotted(file))].append(position)
    return _Index(by_id, by_path, by_key, by_file)


def match_units(
    keys: Sequence[CaseKey],
    spellings: Mapping[CaseKey, ExternalName],
    units: Sequence[InventoryUnit],
) -> list[tuple[int, ...]]:
    """Find the inventory's units for a history's keys.

    A unit that has an entry of its own is still part of its file's total: whoever
    shares a total out divides by all of the group.

    Args:
        keys: of the history (or of one foreign file).
        spellings: how other programs spell some of them.
        units: the inventory.

    Returns:
        For each key its positions in the inventory: none where it belongs nowhere, several where it
        is the total of them all.
    """
    index = _index(units)
    nothing = ExternalName()
    return [
        index.find(key.suite, key.variant, key.unit, spellings.get(key, nothing)) for key in keys
    ]
