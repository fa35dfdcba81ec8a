"""Files that frameworks wrote, read as results of the units that they listed."""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path

import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results import junit
from ciguard.codec.results.attach import units_of_cases

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("CIGUARD_SHARED_DATA", ROOT.parent / "shared" / "data")) / "frameworks"

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no recorded files at {SHARED}; CIGUARD_SHARED_DATA says where"
)


def cases_by_unit(file: str, units: list[str]) -> Counter[str | None]:
    """How many cases each unit has; None for those of no unit."""
    cases = list(junit.read(io.BytesIO((SHARED / file).read_bytes()), file))
    inventory = [InventoryUnit(unit) for unit in units]
    return Counter(unit for unit, _ in units_of_cases(cases, inventory, ("", "")))


def test_cases_of_vitest_are_of_the_files_that_it_lists() -> None:
    units = (SHARED / "vitest/list-files.stdout.txt").read_text("utf-8").split("\n")
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
        case.name or "" for case in junit.read(io.BytesIO((SHARED / name).read_bytes()), name)
    ]
    found = cases_by_unit(name, listed)
    assert found == Counter(dict.fromkeys(listed, 1))
