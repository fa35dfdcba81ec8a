"""A leg's results against the framework's own words for the same suite, run without ciguard."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, clean_environ, no_survivor, plan_of, start_shard

from ciguard.model import PlannedUnit, Variant

if TYPE_CHECKING:
    from pathlib import Path

SUITE = {
    "conftest.py": """
import pytest
@pytest.fixture
def broken():
    raise RuntimeError("no set-up")
""",
    "test_plain.py": """
import os
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2
def test_errors(broken): pass
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
@pytest.mark.xfail(reason="known")
def test_known(): assert 0
@pytest.mark.parametrize("text", ["a b", "x/y::z", "[", "\\u00e9"])
def test_texts(text): pass
def test_environment():
    assert os.environ["FROM_POOL"] == "yes"
    assert os.environ["FROM_SUITE"] == "suite"
    assert os.environ["FROM_VARIANT"] == "variant"
""",
    "sub/test_classes.py": """
import unittest
class TestA:
    def test_one(self): pass
    class TestInner:
        def test_two(self): assert 0
class Old(unittest.TestCase):
    def test_three(self): pass
    @unittest.skip("old")
    def test_four(self): pass
""",
}
ADDED = {"FROM_POOL": "yes", "FROM_SUITE": "suite", "FROM_VARIANT": "variant"}


def lay_out(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def run_alone(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = clean_environ(**ADDED)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def collected(folder: Path) -> list[str]:
    lines = run_alone(folder, "--collect-only", "-q").stdout.splitlines()
    return [line for line in lines if "::" in line]


def as_junit_names_it(unit: str) -> tuple[str, str]:
    """JUnit XML has dotted paths, and no brackets before a parameter."""
    path, _, rest = unit.partition("::")
    function, bracket, parameters = rest.partition("[")
    *classes, name = function.split("::")
    dotted = ".".join([path.removesuffix(".py").replace("/", "."), *classes])
    return dotted, name + bracket + parameters


def from_junit(folder: Path) -> dict[tuple[str, str], str]:
    run_alone(folder, "--junitxml", "junit.xml")
    words = {"failure": "failed", "error": "errored", "skipped": "skipped"}
    found = {}
    for case in ET.parse(folder / "junit.xml").getroot().iter("testcase"):
        key = case.attrib["classname"], case.attrib["name"]
        found[key] = next((words[child.tag] for child in case if child.tag in words), "passed")
    return found


@pytest.mark.parametrize(
    ("processes", "words"),
    [(2, ()), pytest.param(1, ("-n", "2"), marks=pytest.mark.soak)],
    ids=["2", "xdist"],
)
def test_outcomes_match_a_run_without_ciguard(
    tmp_path: Path, processes: int, words: tuple[str, ...]
) -> None:
    lay_out(tmp_path, SUITE)
    expected = from_junit(tmp_path)
    units = collected(tmp_path)
    assert len(units) == 14
    suite = replace(
        PYTEST,
        args=words,
        env={"FROM_SUITE": "suite", "FROM_VARIANT": "suite"},
        variants={"v": Variant(env={"FROM_VARIANT": "variant"})},
    )
    planned = [PlannedUnit(unit, variant="v") for unit in units]
    leg = start_shard(tmp_path, plan_of(planned, suites={"": suite}, processes=processes)).wait(10)

    found = {as_junit_names_it(case): outcome for case, outcome in leg.outcomes().items()}
    assert found == expected
    record = leg.record()
    assert record.damage == ()
    assert {start.unit for start in record.starts} == set(units)
    assert {result.variant for result in record.results} == {"v"}
    assert record.end is not None
    assert record.end.exit_code == 10
    assert sum(record.end.counts.values()) == 14
    no_survivor(leg)
