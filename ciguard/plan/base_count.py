"""Tests that the base branch had: their number, and files that have lost all of them. Pure."""

from __future__ import annotations

from dataclasses import replace
from posixpath import join, normpath, splitext
from typing import TYPE_CHECKING

from ciguard.history.query import BaseQuery, BaseUnitCount, base_unit_count, cases_of_run
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.history.file import History
    from ciguard.model import InventorySummary, Suite


def base_count_with_files(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseUnitCount | None:
    """Return the counts and files of the base's newest run before the planned one, if known.

    Args:
        suites: by name; ids of units name files relative to the suite's working folder.
    """
    count = base_unit_count(history, query, suites)
    if count is None:
        return None
    keys = cases_of_run(history, count.position)
    files = {
        _file_or_class(suites[suite], unit)
        for suite, unit in {(key.suite, key.unit) for key in keys}
        if suite in suites
    }
    return replace(count, files=frozenset(files))


def _file_or_class(suite: Suite, unit: str) -> str:
    head, separator, _ = unit.partition("::")
    file = framework(suite.framework).file_of(unit) or (head if separator else "")
    return normpath(join(suite.cwd, file)) if file else unit


def _names(file: str) -> set[str]:
    """Return the file's path, and the possible names of a Java class in it."""
    parts = splitext(file)[0].split("/")
    return {file, *(".".join(parts[count:]) for count in range(len(parts)))}


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
