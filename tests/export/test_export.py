"""`ciguard export`: what other tools read of a run, and that our own reader reads the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from conftest import Ciguard, made_once
from guard.fixtures import World, make_plan

from ciguard.codec.results import junit as junit_reader
from ciguard.run.frameworks.registry import framework

TESTS = r"""
import os, pathlib, pytest

class TestSums:
    @pytest.mark.parametrize("text", ["a b", "<&\"'>", "\x1b[31m", "é::[x]"], ids=str)
    def test_passes(self, text):
        assert text

def test_fails():
    assert 1 == 2, "one\ntwo"

def test_is_flaky():
    seen = pathlib.Path(os.environ["SEEN"])
    before = seen.exists()
    seen.touch()
    assert before

@pytest.mark.skip(reason="not today")
def test_is_skipped():
    pass

def test_kills_its_process():
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, ciguard_process: Ciguard
) -> tuple[Path, str]:
    """A run of two shards, one of which left nothing: its folder, and what `export` said of it."""
    folder = made_once(tmp_path_factory, "exported", lambda folder: export(folder, ciguard_process))
    return folder, (folder / "stderr.txt").read_text("utf-8")


def export(folder: Path, ciguard_process: Ciguard) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_sums.py").write_text(TESTS, "utf-8")
    (folder / "tests" / "test_zero.py").write_text("def test_zero(): pass\n", "utf-8")
    (folder / "ciguard.toml").write_text(
        "[policy]\nretries = 1\n[plan]\ngroup = 'file-strict'\n", "utf-8"
    )
    ciguard_process("plan", "--shards", "2", "--history", "none", "--artifact", "plan", cwd=folder)
    plan = json.loads((folder / "plan" / "plan.json").read_text("utf-8"))
    (first,) = [
        shard["key"]
        for shard in plan["shards"]
        if any(unit["unit"].endswith("test_fails") for unit in shard["units"])
    ]
    run = ("run", "--plan", "plan", "--shard", first, "--record", f"records/{first}")
    ciguard_process(*run, cwd=folder, expect=10, SEEN=str(folder / "seen"))
    words = ("--plan", "plan", "--records", "records", "--format", "junit")
    done = ciguard_process("export", *words, "-o", "out", cwd=folder)
    (folder / "stderr.txt").write_text(done.stderr, "utf-8")


def cases_of(folder: Path) -> list[ET.Element]:
    return ET.parse(folder / "out/junit/tests.xml").getroot().findall(".//testcase")


def by_name(folder: Path, name: str) -> ET.Element:
    (found,) = [case for case in cases_of(folder) if case.get("name") == name]
    return found


def test_each_planned_test_is_there_once(exported: tuple[Path, str]) -> None:
    folder, _ = exported
    plan = json.loads((folder / "plan" / "plan.json").read_text("utf-8"))
    planned = sum(len(shard["units"]) for shard in plan["shards"])
    root = ET.parse(folder / "out/junit/tests.xml").getroot()
    assert len(cases_of(folder)) == planned == int(root.get("tests", ""))
    names = {(case.get("classname"), case.get("name")) for case in cases_of(folder)}
    assert len(names) == planned


def test_outcomes_are_elements_of_junit(exported: tuple[Path, str]) -> None:
    folder, _ = exported
    assert by_name(folder, "test_fails").find("failure") is not None
    assert by_name(folder, "test_is_skipped").find("skipped") is not None
    killed = by_name(folder, "test_kills_its_process").find("error")
    assert killed is not None
    assert killed.get("type") == "crash"


def test_earlier_tries_are_those_of_surefire(exported: tuple[Path, str]) -> None:
    folder, _ = exported
    flaky = by_name(folder, "test_is_flaky")
    assert flaky.find("flakyFailure") is not None
    assert flaky.find("failure") is None
    assert by_name(folder, "test_fails").find("rerunFailure") is not None


def test_test_without_a_result_is_an_error(exported: tuple[Path, str]) -> None:
    folder, printed = exported
    lost = by_name(folder, "test_zero").find("error")
    assert lost is not None
    assert lost.get("type") == "ciguard:no-result"
    assert lost.get("message") == "its shard has no record"
    assert printed.startswith("INCOMPLETE: ")


def test_peak_memory_and_shard_are_tags(exported: tuple[Path, str]) -> None:
    folder, _ = exported
    properties = by_name(folder, "test_fails").find("properties")
    assert properties is not None
    tags = {one.get("name"): one.get("value") for one in properties}
    assert int(tags["dd_tags[test.memory.peak]"] or "") > 1 << 20
    assert tags["dd_tags[ci.shard]"] in ("01", "02")


def test_our_reader_gives_back_the_same_cases(exported: tuple[Path, str]) -> None:
    folder, _ = exported
    elements = {"failure": "failed", "error": "errored", "skipped": "skipped"}
    expected = Counter(
        (
            case.get("classname"),
            case.get("name"),
            next((word for tag, word in elements.items() if case.find(tag) is not None), "passed"),
        )
        for case in cases_of(folder)
    )
    with (folder / "out/junit/tests.xml").open("rb") as stream:
        results = list(junit_reader.read(stream, "tests.xml"))
    last: dict[tuple[str | None, str | None], Any] = {}
    for result in results:
        last[result.classname, result.name] = result
    found = Counter((*key, result.outcome) for key, result in last.items())
    assert found == expected


def test_drill_is_marked_in_each_name(tmp_path: Path, ciguard: Ciguard) -> None:
    plan, records = World(make_plan(drill="timeout")).write(tmp_path)
    ciguard("export", "--plan", plan, "--records", records, "-o", "out", cwd=tmp_path)
    junit = ET.parse(tmp_path / "out/junit/drill-timeout-tests.xml").getroot()
    assert junit.get("name") == "drill-timeout-tests"


def test_each_combination_has_a_file(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "m.yml").write_text("os: [a/b, 'a b', c]", "utf-8")
    plan = ("plan", "--inventory", "-", "--matrix", "m.yml", "--shards", "1", "--history", "none")
    ciguard(*plan, "-o", "plan.json", cwd=tmp_path, stdin="t.py::test_one\n")
    (tmp_path / "records").mkdir()
    words = ("--plan", "plan.json", "--records", "records", "-o", "out")
    ciguard("export", *words, cwd=tmp_path)
    found = sorted(path.name for path in (tmp_path / "out/junit").iterdir())
    assert found == ["a-b--2.xml", "a-b.xml", "c.xml"]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("tests/test_a.py::test_b", ("tests.test_a", "test_b")),
        ("test_a.py::TestC::test_d[x::y/z]", ("test_a.TestC", "test_d[x::y/z]")),
        ("a/b.py::TestC::TestD::test_e[1]", ("a.b.TestC.TestD", "test_e[1]")),
        ("docs/guide.md::guide.md", ("docs.guide.md", "guide.md")),
        ("tests/test_a.py", ("", "tests.test_a")),
    ],
)
def test_name_is_that_of_the_legacy_family(unit: str, expected: tuple[str, str]) -> None:
    assert framework("pytest").junit_name(unit) == expected
