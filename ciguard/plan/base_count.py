"""How many units the base has, and which files have none any more. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from posixpath import join, normpath, splitext
from typing import TYPE_CHECKING

from ciguard.history.query import cases_of_run, units_planned
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.history.file import History
    from ciguard.history.query import BaseQuery
    from ciguard.model import InventorySummary, Suite, UnitCount


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
