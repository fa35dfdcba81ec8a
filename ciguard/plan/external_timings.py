"""Times that other programs measured, for a first plan: from the repository, or from a base run.

Each file, or artifact of the base run, counts as one past run on an unknown machine. Their tests
are of no suite: each variant of a suite takes the times of the names that match its tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from posixpath import relpath
from typing import Final

import numpy as np

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.base import ExternalName
from ciguard.codec.results.matching import match_units
from ciguard.errors import CiguardError
from ciguard.history.file import History
from ciguard.history.merge import merge
from ciguard.history.stores import COPY, TIMINGS, LoadedHistory, load_optional
from ciguard.model import CaseKey, Suite
from ciguard.run.frameworks.base import Framework
from ciguard.run.frameworks.registry import framework
from ciguard.sources import local

# Files with times of tests that repositories keep: of tools that split tests, results of runs.
TIMING_FILES: Final = (
    *(".test_durations", "knapsack_*_report.json", "junit.xml"),
    *("test-results/results.json", "test-results/*.xml", "test-results/*/*.xml"),
)


def external_timings(
    location: str, folder: Path, environ: Mapping[str, str], suites: Mapping[str, Suite]
) -> LoadedHistory:
    """Read the files with times in the repository, otherwise the times beside a copied history.

    The files are in a suite's folder or at the top; an unusable one is left out, or is the problem
    if there is no other. The runs are not of the base.
    """
    histories, names, unusable = list[History](), list[str](), LoadedHistory(None)
    for name, suite in suites.items():
        roots = {folder / suite.cwd, folder}
        files = {path for root in roots for text in TIMING_FILES for path in root.glob(text)}
        for path in sorted(files):
            # Imported here: the formats of results take 0.05 s, and most plans need none.
            from ciguard.history.ingest import RunMetadata, history_of_file  # noqa: PLC0415

            names.append(path.relative_to(folder).as_posix())
            run = RunMetadata(len(names), event="pull_request")
            try:
                with local.opened(path) as file:
                    history, _ = history_of_file(file, names[-1], run)
                histories.append(_in_suite(history, name, suite))
            except CiguardError as error:
                unusable = LoadedHistory(None, names.pop(), error.what, error.fix)
    source = ", ".join(dict.fromkeys(names))
    if not histories and location.startswith(f"{COPY}:"):
        copied = load_optional(f"{location}/{TIMINGS}", folder, environ)
        if copied.history is not None:
            source = copied.location
            histories = [_in_suite(copied.history, *each) for each in suites.items()]
    return LoadedHistory(reduce(merge, histories), source, is_new=True) if histories else unusable


def _in_suite(history: History, name: str, suite: Suite) -> History:
    """Return the history with its values in each variant of a suite."""
    variants, values = sorted(suite.variants), history.values
    keys = [CaseKey(name, variant, *key[2:]) for variant in variants for key in history.keys]
    spellings = [history.external_names.get(key) for key in history.keys] * len(variants)
    columns = {column: np.tile(rows, len(variants)) for column, rows in values.columns().items()}
    offsets = np.arange(len(variants), dtype=np.int32) * len(history.keys)
    columns["key"] += offsets.repeat(len(values))
    return replace(
        history,
        values=replace(values, **columns),
        keys=tuple(keys),
        external_names={key: each for key, each in zip(keys, spellings, strict=True) if each},
        older=None,  # numbers of runs, which no estimate uses
    )


def timed_units(
    history: History, suites: Mapping[str, Suite], files: Mapping[str, Sequence[str]]
) -> tuple[InventoryUnit, ...]:
    """Return the tests with times, by the ids that the frameworks of their suites give them.

    Jobs that list the tests run those without a time, too.

    Args:
        files: existing test files, by suite; relative to the repository.
    """
    units = []
    for name, suite in suites.items():
        row, first = framework(suite.framework), min(suite.variants)
        paths = [relpath(file, suite.cwd or ".") for file in files[name]]
        keys = [key for key in history.keys if key[:2] == (name, first)]
        if row.unit == "file":
            listed = [InventoryUnit(path, name, first) for path in paths]
            targets = match_units(keys, history.external_names, listed)
            ids = {listed[position].unit for target in targets for position in target}
        else:
            path_of_class = {row.junit_name(f"{path}::")[0]: path for path in paths}
            names = ((key.unit, history.external_names.get(key)) for key in keys)
            ids = {test for each in names for test in _ids(*each, row, path_of_class)}
        # A subtest (Go's `TestA/b`) is a part of its test.
        tests = sorted(each for each in ids if each.rpartition("/")[0] not in ids)
        units += [InventoryUnit(test, name, each) for each in suite.variants for test in tests]
    return tuple(units)


def _ids(
    unit: str, spelling: ExternalName | None, row: Framework, path_of_class: Mapping[str, str]
) -> Iterator[str]:
    """Yield the id that the framework gives to a test with these names in JUnit XML."""
    if spelling is None:  # durations by id, in the form of ids that begin with a file
        yield from [unit] if row.file_of(unit) else []
        return
    names = classname, name = spelling.classname or "", spelling.name or ""
    candidates = [classname, name, f"{classname}.{name}", f"{classname} {name}"]
    parts = classname.split(".")
    for count in range(1, len(parts) + 1):
        path = path_of_class.get(".".join(parts[:count]))
        candidates += ["::".join((path, *parts[count:], name))] if path else []
    for candidate in filter(None, candidates):
        if row.junit_name(candidate) in (names, (classname, "")):  # a test of Maven is a class
            yield candidate
