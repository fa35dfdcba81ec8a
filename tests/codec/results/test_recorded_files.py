"""Files that frameworks wrote, read as results of the units that they listed."""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path

import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results import junit, playwright_json, rspec_json
from ciguard.codec.results.formats import format_of
from ciguard.codec.results.matching import units_of_cases
from ciguard.errors import InputError
from ciguard.model import OUTCOMES, Result

RECORDED = Path(__file__).parents[2] / "samples" / "recorded"


def cases_by_unit(file: str, units: list[str]) -> Counter[str | None]:
    """How many cases each unit has; None for those of no unit."""
    cases = list(junit.read(io.BytesIO((RECORDED / file).read_bytes()), file))
    inventory = [InventoryUnit(unit) for unit in units]
    return Counter(unit for unit, _ in units_of_cases(cases, inventory, ("", "")))


def test_cases_of_vitest_are_of_the_files_that_it_lists() -> None:
    units = (RECORDED / "vitest/list-files.stdout.txt").read_text("utf-8").split("\n")
    found = cases_by_unit("vitest/run-all.junit.xml", [unit for unit in units if unit])
    assert found[None] == 0
    assert len(found) == 10


@pytest.mark.parametrize("prefix", ["", "./"])
def test_cases_of_rspec_are_of_their_files_with_and_without_a_dot(prefix: str) -> None:
    names = ("broken", "crash", "deep/sums", "hook", "odd names", "sums")
    units = [f"{prefix}spec/{name}_spec.rb" for name in names]
    assert cases_by_unit("rspec/run-all.junit.xml", units)[None] == 0


def test_each_test_of_ctest_is_a_unit_of_its_name() -> None:
    name = "ctest44/run-all.junit.xml"
    listed = [
        case.name or "" for case in junit.read(io.BytesIO((RECORDED / name).read_bytes()), name)
    ]
    found = cases_by_unit(name, listed)
    assert found == Counter(dict.fromkeys(listed, 1))


@pytest.mark.parametrize(("tool", "files"), [("jest", 10), ("vitest", 10), ("playwright", 10)])
def test_absolute_names_in_json_are_of_the_files_of_the_suite(tool: str, files: int) -> None:
    name = f"{tool}/run-all.results.json"
    stream = io.BytesIO((RECORDED / name).read_bytes())
    cases = list(format_of(stream, name).read(stream, name))
    paths = {case.file or "" for case in cases}
    folder = os.path.commonpath(paths)
    assert len(paths) == files
    for root in (folder, str(Path(folder).parent)):
        inventory = [InventoryUnit(os.path.relpath(path, root)) for path in sorted(paths)]
        found = units_of_cases(cases, inventory, ("", ""))
        expected = [os.path.relpath(case.file or "", root) for case in cases]
        assert [unit for unit, _ in found] == expected


# (outcomes, results of earlier tries, what the error says) as the programs printed them.
JSON_FILES = {
    "jest/run-all.results.json": ("26 passed, 3 failed, 2 skipped", 0, ""),
    "jest/broken-and-hook.results.json": ("1 passed, 2 failed, 1 errored", 0, ""),
    "jest/crash-in-worker.results.json": (*("5 passed, 2 failed, 1 errored, 2 skipped", 0, ""),),
    "vitest/run-all.results.json": ("26 passed, 3 failed, 2 skipped", 0, ""),
    "vitest/broken-and-hook.results.json": ("2 errored, 2 skipped", 0, ""),
    "vitest/crash-forks.results.json": (
        *("5 passed, 2 failed, 2 skipped, 3 died", 0, "3 of 12 tests have no result"),
    ),
    "vitest/heap-forks.results.json": (*("2 passed, 1 died", 0, "1 of 3 tests have no result"),),
    "playwright/run-all.results.json": ("27 passed, 2 failed, 2 skipped", 3, ""),
    "playwright/crash.results.json": ("4 passed, 1 failed", 0, ""),
    "rspec/run-all.results.json": ("20 passed, 3 failed, 3 skipped", 0, ""),
    "rspec/crash-exit0.results.json": (*("1 passed, 1 died", 0, "1 of 2 tests have no result"),),
    "rspec/hang-term.results.json": (*("3 passed, 1 died", 0, "1 of 4 tests have no result"),),
    "own/jest.json": ("1 passed, 2 failed, 1 errored, 2 skipped", 0, ""),
    "own/vitest.json": ("2 passed, 2 failed, 2 skipped", 1, ""),
    "own/playwright.json": ("2 passed, 2 failed, 2 skipped", 3, ""),
}


@pytest.mark.parametrize("path", JSON_FILES)
def test_json_gives_the_counts_that_the_program_printed(path: str) -> None:
    found: list[Result] = []
    what = ""
    stream = io.BytesIO((RECORDED / path).read_bytes())
    try:
        found.extend(format_of(stream, path).read(stream, path))
    except InputError as error:
        what = error.what
    final = [
        result
        for result, after in zip(found, [*found[1:], None], strict=True)
        if after is None or after.try_number == 1  # tries follow each other
    ]
    counts = Counter(result.outcome for result in final)
    words = (f"{counts[one]} {one}" for one in OUTCOMES if counts[one])
    assert (", ".join(words), len(found) - len(final), what) == JSON_FILES[path]


def test_endings_of_recorded_json() -> None:
    expected = {
        "jest/crash-in-worker.results.json": {"crash": 1},
        "playwright/crash.results.json": {"crash": 1},
        "own/jest.json": {"timeout": 1},
        "own/vitest.json": {"timeout": 1},
        "own/playwright.json": {"timeout": 2},
    }
    for path, endings in expected.items():
        stream = io.BytesIO((RECORDED / path).read_bytes())
        results = list(format_of(stream, path).read(stream, path))
        found = Counter(result.ending for result in results if result.ending != "completed")
        assert found == endings, path


def test_projects_of_playwright_are_units_of_their_own() -> None:
    name = "playwright/run-all.results.json"
    results = list(playwright_json.read(io.BytesIO((RECORDED / name).read_bytes()), name))
    units = {result.unit for result in results}
    assert len(units) == 31
    assert {unit.partition(" › ")[0] for unit in units} == {"[a]", "[b]"}


@pytest.mark.parametrize("prefix", ["", "./"])
def test_examples_of_rspec_json_are_of_their_files_and_of_their_ids(prefix: str) -> None:
    name = "rspec/run-all.results.json"
    cases = list(rspec_json.read(io.BytesIO((RECORDED / name).read_bytes()), name))
    files = {f"{prefix}{(case.file or '').removeprefix('./')}" for case in cases}
    for units in (files, {case.unit for case in cases}):
        inventory = [InventoryUnit(unit) for unit in sorted(units)]
        found = Counter(unit for unit, _ in units_of_cases(cases, inventory, ("", "")))
        assert set(found) == units
