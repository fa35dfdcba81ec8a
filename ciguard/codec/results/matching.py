"""Matching of test names of other programs with the units of an inventory. Pure.

A name matches a unit by its id; otherwise by a normalised key, in which `pkg/mod.py::Class::t[x]`
equals the pair (`pkg.mod.Class`, `t[x]`), if exactly one unit has this key. An entry without a name
is the total of a file, and belongs in equal parts to all units of the file. Suites and variants are
never mixed. Jest, Vitest, Playwright, PHPUnit and GoogleTest name files by absolute paths without
the suite's folder: the folder is concluded as the one below which most units lie. O(units +
entries).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.base import ExternalName
from ciguard.model import CaseKey, Result, UnitKey

_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
SuiteKey = tuple[str, str]
_NormalizedKey = tuple[str, str, str]  # suite, variant, normalised text
_ROW: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_PROJECT: Final = re.compile(r"\[[^\]]*\] ")  # of Playwright, before the path
_FIRST: Final = ("/", "\\", "[")
_ABSOLUTE: Final = re.compile(rf"({_PROJECT.pattern})?((?:[A-Za-z]:)?/.*)", re.DOTALL)


def is_file_of(unit: str, classname: str | None, name: str | None, file: str | None) -> bool:
    """Return whether a unit is the file of a case, which may also be written as the class.

    Vitest writes the file as the class. CTest writes the test's name there, which is no file.
    """
    files = {file, classname if classname != name else None} - {None}
    return any(is_path_of(unit, path) for path in files if path)


def _to_dotted(path: str) -> str:
    """Convert a file's path to a module: without extension, dots for separators."""
    plain = plain_path(path)
    return _EXTENSION.sub("", plain).replace("/", ".").strip(".")


def _normalize(unit: str) -> str:
    """Normalise an id: `a/b.py::C::t[x/y.z]` -> `a.b.C.t[x/y.z]`; parameters stay unchanged."""
    head, bracket, parameters = unit.partition("[")
    file, *names = head.split("::")
    return ".".join((_to_dotted(file) if names else file, *names)) + bracket + parameters


@dataclass(frozen=True, slots=True)
class _Index:
    """Index of an inventory by id and by normalised texts; positions ascending."""

    by_id: Mapping[_NormalizedKey, int]
    by_path: Mapping[_NormalizedKey, int]
    by_key: Mapping[_NormalizedKey, list[int]]
    by_file: Mapping[_NormalizedKey, list[int]]
    folders: Mapping[SuiteKey, Collection[str]]  # on runners

    def find(self, suite: str, variant: str, unit: str, spelling: ExternalName) -> tuple[int, ...]:
        """Return the positions of the units that an entry matches."""
        position = self.by_id.get((suite, variant, unit))
        if position is not None:
            return (position,)
        # In a record, an entry without a name may have a file, and is the total of the file only if
        # its unit is the file.
        if spelling.name is None and spelling.file == unit:
            return tuple(self.by_file.get((suite, variant, _to_dotted(unit)), ()))
        # Ids without normalisation: Go's package with a dot, nextest's binary with a space. A
        # normalised key would not distinguish `a/b` from `a.b`, nor the slash before a subtest.
        for separator in (".", " ") if spelling.classname is not None else ():
            name = f"{spelling.classname}{separator}{spelling.name}"
            position = self.by_id.get((suite, variant, name))
            if position is not None:
                return (position,)
        for text in _texts(unit, spelling):
            positions = self.by_key.get((suite, variant, text), ())
            if len(positions) == 1:
                return (positions[0],)
        # A framework whose units are whole files reports cases inside them; the class may be the
        # file.
        folders = self.folders.get((suite, variant), ())
        for path in _paths(spelling):
            text = path_from_suite(path, folders)
            position = self.by_path.get((suite, variant, text))
            if position is not None:
                return (position,)
        return ()


def _texts(unit: str, spelling: ExternalName) -> tuple[str, ...]:
    """Return the normalised keys that an entry may match, the likeliest first."""
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
    """Yield the texts of an entry that may be its file."""
    return filter(None, (spelling.file, spelling.classname))


def suite_folders(
    spellings: Iterable[ExternalName], units: Sequence[InventoryUnit]
) -> frozenset[str]:
    """Return the folders of a suite on the runners, by all names of its run."""
    paths = {path for external in spellings for path in _paths(external)}
    absolute = list(filter(is_absolute, paths))
    unit_paths = {plain_path(unit.unit) for unit in units} if absolute else ()
    return find_suite_folders(absolute, unit_paths)


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
    return {key: suite_folders(externals, inventories[key]) for key, externals in names.items()}


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

    A unit with an entry is still part of its file's total, which is divided by all units of the
    file.

    Args:
        spellings: names of keys in other programs.
        units: the inventory.

    Returns:
        For each key its positions in the inventory: none without a match, several for the total of
        these units.
    """
    index = _index(units, _folders(keys, spellings, units))
    return [
        index.find(key.suite, key.variant, key.unit, spellings.get(key, ExternalName()))
        for key in keys
    ]


def spelling(case: Result) -> ExternalName:
    return ExternalName(case.classname, case.name, case.file)


def units_by_suite(keys: Iterable[UnitKey]) -> dict[SuiteKey, list[InventoryUnit]]:
    """Group units by suite and variant, sorted."""
    inventories: dict[SuiteKey, list[InventoryUnit]] = defaultdict(list)
    for key in sorted(keys):
        inventories[key.suite, key.variant].append(InventoryUnit(key.unit, key.suite, key.variant))
    return inventories


def units_of_cases(
    cases: Sequence[Result],
    inventory: Sequence[InventoryUnit],
    suite_key: SuiteKey,
    folders: Collection[str] | None = None,
) -> Iterator[tuple[str | None, bool]]:
    """Yield for each case its unit, and whether the unit has its name; (None, False) for no unit.

    A name without a unit may be a row: `t[1]` and `t(x: 1)` are rows of a unit `t`.

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
    """Return for each case its possible units, by suite and variant, as in `units_of_cases`.

    Args:
        scopes: suite and variant of each case; None if not known.
        folders: of each suite on the runners; None to conclude them.
    """
    all_scopes = list(scopes)
    owners: list[list[tuple[SuiteKey, str, bool]]] = [[] for _ in cases]
    for suite_key, inventory in sorted(inventories.items()):
        candidates = [
            at
            for at, (suite, variant) in enumerate(all_scopes)
            if suite in (None, suite_key[0]) and variant in (None, suite_key[1])
        ]
        own_folders = None if folders is None else folders[suite_key]
        units = units_of_cases([cases[at] for at in candidates], inventory, suite_key, own_folders)
        for at, (unit, by_name) in zip(candidates, units, strict=True):
            if unit is not None:
                owners[at].append((suite_key, unit, by_name))
    return owners


def with_unit(case: Result, suite_key: SuiteKey, unit: str, by_name: bool) -> Result:
    """Return the case with this unit, and with its file as the suite names it."""
    name, (suite, variant) = case.case or (unit if by_name else case.unit), suite_key
    file = file_of_unit(unit, case.file)
    return replace(case, suite=suite, variant=variant, unit=unit, case=name, file=file)


def plain_path(path: str) -> str:
    """Return a path with slashes and without "./" at its beginning."""
    return path.replace("\\", "/").removeprefix("./")


def is_absolute(path: str) -> bool:
    """Return whether a path, also after a project in brackets, begins with a root or a drive."""
    # Called for each case: most paths need no pattern.
    if path[:1] not in _FIRST and path[1:2] != ":":
        return False
    return _ABSOLUTE.fullmatch(plain_path(path)) is not None


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Yield (folder, path from there) for each folder of an absolute path, the outermost first."""
    match = _ABSOLUTE.fullmatch(plain_path(path))
    if match is not None:
        prefix, absolute = match[1] or "", match[2]
        for slash in re.finditer("/", absolute):
            yield absolute[: slash.start()], prefix + absolute[slash.end() :]


def find_suite_folders(paths: Iterable[str], units: Collection[str]) -> frozenset[str]:
    """Return the folders of a suite on all runners, of which none is inside another.

    For `/w/test/a.js` with the units `a.js` and `test/a.js`, the folder with more paths is chosen;
    of equal ones the outer, as `test/a.js` of `/w/test` would be `/w/test/test/a.js`.

    Args:
        paths: distinct; paths that are not absolute are ignored.
        units: with slashes, as in `plain_path`.
    """
    count = Counter(folder for path in paths for folder, inner in _splits(path) if inner in units)
    rejected = set()
    for folder in count:
        for outer, _ in _splits(f"{folder}/"):
            if outer != folder and outer in count:
                rejected.add(folder if count[outer] >= count[folder] else outer)
    return frozenset(count) - rejected


def path_from_suite(path: str, folders: Collection[str]) -> str:
    """Return a path from the suite's folder; unchanged if it is in none of the folders."""
    if not folders or not is_absolute(path):
        return plain_path(path)
    return next((inner for folder, inner in _splits(path) if folder in folders), plain_path(path))


def is_path_of(unit: str, path: str) -> bool:
    """Return whether a unit may be a file, whose absolute path begins with a folder of a runner."""
    plain = plain_path(unit)
    if not is_absolute(path):
        return plain == plain_path(path)
    return plain == plain_path(path) or any(plain == inner for _, inner in _splits(path))


def file_of_unit(unit: str, file: str | None) -> str | None:
    """Return a case's file as the suite names it: without the runner's folder if it is the unit."""
    if file is None or not is_absolute(file):
        return file
    path = _PROJECT.sub("", plain_path(unit), count=1)
    return path if is_path_of(path, file) else file
