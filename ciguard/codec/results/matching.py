"""Other programs' spellings -> the units of an inventory. Pure.

First by unit id; else by a normalised key that makes `pkg/mod.py::Class::t[x]` and the pair
(`pkg.mod.Class`, `t[x]`) the same, where exactly one unit has it. An entry without a name is the
total of a file, and belongs in equal parts to all units of it. Never across suites or variants.
Jest, Vitest, Playwright, PHPUnit and GoogleTest name files by absolute paths, and nothing in their
files names the suite's folder: it is the one below which most units lie.
O(units + entries).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import UNSPELLED, ExternalName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.model import CaseKey, Result

_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
SuiteKey = tuple[str, str]
_NormalizedKey = tuple[str, str, str]  # suite, variant, normalised text
_ROW: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_PROJECT: Final = re.compile(r"\[[^\]]*\] ")  # of Playwright, before the path
_FIRST: Final = ("/", "\\", "[")
_ABSOLUTE: Final = re.compile(rf"({_PROJECT.pattern})?((?:[A-Za-z]:)?/.*)", re.DOTALL)


def is_file_of(unit: str, classname: str | None, name: str | None, file: str | None) -> bool:
    """Return whether a unit is the file in which a case is: its own, or what stands as its class.

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
    folders: Mapping[SuiteKey, Collection[str]]  # on runners

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
) -> dict[SuiteKey, frozenset[str]]:
    names: dict[SuiteKey, list[ExternalName]] = defaultdict(list)
    for key in keys:
        if key in spellings:
            names[key.suite, key.variant].append(spellings[key])
    inventories: dict[SuiteKey, list[InventoryUnit]] = defaultdict(list)
    for unit in units if names else ():
        inventories[unit.suite, unit.variant].append(unit)
    return {key: suite_folders(found, inventories[key]) for key, found in names.items()}


def _index(units: Sequence[InventoryUnit], folders: Mapping[SuiteKey, Collection[str]]) -> _Index:
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
) -> list[tuple[int, ...]]:
    """Find the inventory's units for a history's keys.

    A unit that has an entry of its own is still part of its file's total: a total is divided by
    all of the group.

    Args:
        spellings: how other programs spell some of the keys.
        units: the inventory.

    Returns:
        For each key its positions in the inventory: none where it belongs nowhere, several where it
        is the total of them all.
    """
    index = _index(units, _folders(keys, spellings, units))
    return [
        index.find(key.suite, key.variant, key.unit, spellings.get(key, UNSPELLED)) for key in keys
    ]


def spelling(case: Result) -> ExternalName:
    """Return how the program spells a case."""
    return ExternalName(case.classname, case.name, case.file)


def units_of_cases(
    cases: Sequence[Result],
    inventory: Sequence[InventoryUnit],
    suite_key: SuiteKey,
    folders: Collection[str] | None = None,
) -> Iterator[tuple[str | None, bool]]:
    """Yield for each case its unit, and whether that has its name; (None, False) without a unit.

    A name that no unit has may be a row: `t[1]`, `t(x: 1)` are rows of a unit `t`.

    Args:
        folders: of the suite on the runners; None to conclude them from these cases and units.
    """
    if folders is None:
        folders = suite_folders(map(spelling, cases), inventory)
    index = _index(inventory, {suite_key: folders})
    for case in cases:
        classname, name, file = spelling(case)
        target = index.find(*suite_key, case.unit, spelling(case))
        if len(target) == 1:
            unit = inventory[target[0]].unit
            yield unit, not is_file_of(unit, classname, name, file)
            continue
        row = ExternalName(classname, _ROW.sub("", name) or name if name else name, file)
        target = index.find(*suite_key, _ROW.sub("", case.unit), row)
        yield inventory[target[0]].unit if len(target) == 1 else None, False


def owners_of_cases(
    cases: Sequence[Result],
    scopes: Iterable[tuple[str | None, str | None]],
    inventories: Mapping[SuiteKey, Sequence[InventoryUnit]],
    folders: Mapping[SuiteKey, Collection[str]] | None = None,
) -> list[list[tuple[SuiteKey, str, bool]]]:
    """Return for each case the units that it may be of, by suite and variant, as `units_of_cases`.

    Args:
        scopes: of each case its suite and its variant; None where that is not known.
        folders: of each suite on the runners; None to conclude them.
    """
    known = list(scopes)
    owners: list[list[tuple[SuiteKey, str, bool]]] = [[] for _ in cases]
    for suite_key, inventory in sorted(inventories.items()):
        tried = [
            at
            for at, (suite, variant) in enumerate(known)
            if suite in (None, suite_key[0]) and variant in (None, suite_key[1])
        ]
        own_folders = None if folders is None else folders[suite_key]
        units = units_of_cases([cases[at] for at in tried], inventory, suite_key, own_folders)
        for at, (unit, by_name) in zip(tried, units, strict=True):
            if unit is not None:
                owners[at].append((suite_key, unit, by_name))
    return owners


def with_unit(case: Result, suite_key: SuiteKey, unit: str, by_name: bool) -> Result:
    """Return the case as one of this unit, and its file as the suite names it."""
    name, (suite, variant) = case.case or (unit if by_name else case.unit), suite_key
    file = file_of_unit(unit, case.file)
    return replace(case, suite=suite, variant=variant, unit=unit, case=name, file=file)


def plain_path(path: str) -> str:
    """A path as most programs write it; some begin it with "./"."""
    return path.replace("\\", "/").removeprefix("./")


def is_absolute(path: str) -> bool:
    """Return whether a path, or that behind a project, begins with a root or a drive."""
    # Called for each case: most paths need no pattern.
    if path[:1] not in _FIRST and path[1:2] != ":":
        return False
    return _ABSOLUTE.fullmatch(plain_path(path)) is not None


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Each folder of an absolute path, the outermost first, and the path from there."""
    found = _ABSOLUTE.fullmatch(plain_path(path))
    if found is not None:
        prefix, rest = found[1] or "", found[2]
        for slash in re.finditer("/", rest):
            yield rest[: slash.start()], prefix + rest[slash.end() :]


def find_suite_folders(paths: Iterable[str], units: Collection[str]) -> frozenset[str]:
    """The folders of a suite on all runners: none of them is inside of another.

    Of two that are, as for `/w/test/a.js` with the units `a.js` and `test/a.js`, that of more paths
    is meant; of equal ones the outer, or `test/a.js` of `/w/test` would be `/w/test/test/a.js`.

    Args:
        paths: distinct; those that are not absolute say nothing.
        units: with slashes, as `plain_path` gives them.
    """
    count = Counter(folder for path in paths for folder, rest in _splits(path) if rest in units)
    lost = set()
    for folder in count:
        for outer, _ in _splits(f"{folder}/"):
            if outer != folder and outer in count:
                lost.add(folder if count[outer] >= count[folder] else outer)
    return frozenset(count) - lost


def path_from_suite(path: str, folders: Collection[str]) -> str:
    """A path from the suite's folder; as it is where it is in none of them."""
    if not folders or not is_absolute(path):
        return plain_path(path)
    return next((rest for folder, rest in _splits(path) if folder in folders), plain_path(path))


def is_path_of(unit: str, path: str) -> bool:
    """Say whether a unit may be this file, of which an absolute path names the runner's folder."""
    plain = plain_path(unit)
    if not is_absolute(path):
        return plain == plain_path(path)
    return plain == plain_path(path) or any(plain == rest for _, rest in _splits(path))


def file_of_unit(unit: str, file: str | None) -> str | None:
    """A case's file as the suite names it: an absolute one that is the unit loses its folder."""
    if file is None or not is_absolute(file):
        return file
    path = _PROJECT.sub("", plain_path(unit), count=1)
    return path if is_path_of(path, file) else file
