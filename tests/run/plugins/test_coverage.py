"""Every process of a leg keeps what it covered, with real pytest-cov."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from run.leg_runner import PYTEST, clean_environ, plan_of, start_shard

from ciguard.model import Suite

MODULE = """
def one():
    return 1
def two():
    return 2
def three():
    return 3
def four():
    return 4
"""
TESTS = """
import os, subprocess, sys, mod
def test_one(): assert mod.one() == 1
def test_two(): assert mod.two() == 2
def test_dies(): os._exit(3)
def test_three(): assert mod.three() == 3
def test_four(): assert mod.four() == 4
def test_program():
    words = (sys.executable, "-m", "coverage", "run", "-p", "--include=mod.py", "program.py")
    assert subprocess.run(words).returncode == 0
def test_half():
    folder = os.path.dirname(os.environ["CIGUARD_RECORD_FILE"])
    for number, content in ((2, b""), (3, b"SQLite format 3\\0")):
        with open(os.path.join(folder, f"process-00{number}.coverage"), "wb") as stream:
            stream.write(content)
def test_environment(): assert os.environ.get("COVERAGE_FILE") == os.environ.get("EXPECTED")
"""
ALL = ("one", "two", "three", "four", "environment")


def leg(
    folder: Path, names: tuple[str, ...], words: tuple[str, ...], processes: int, **environ: str
) -> str:
    """Run a shard of these tests under pytest-cov; all but `dies` pass."""
    (folder / "mod.py").write_text(MODULE)
    (folder / "test_mod.py").write_text(TESTS)
    (folder / "program.py").write_text("import mod\nmod.four()\n")
    suite = Suite("pytest", (*PYTEST.command, "-p", "no:randomly", "--cov=mod", *words))
    units = [f"test_mod.py::test_{name}" for name in names]
    plan = plan_of(units, suites={"": suite}, processes=processes)
    return start_shard(folder, plan, **environ).wait(10 if "dies" in names else 0).printed


def coverage(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coverage", *words]
    environ = {**clean_environ(), **environ}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def missing(folder: Path) -> list[int]:
    """Lines of the module that no process covered, after what the docs say was done."""
    files = sorted((folder / "record").glob("process-*.coverage"))
    done = coverage(folder, "combine", *map(str, files))
    assert done.returncode == 0, done.stdout
    return missing_lines(folder)


def missing_lines(folder: Path, **environ: str) -> list[int]:
    """The same, of the data file as it is."""
    done = coverage(folder, "json", "-q", "-o", "-", **environ)
    found: list[int] = json.loads(done.stdout)["files"]["mod.py"]["missing_lines"]
    return found


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        pytest.param((), 1, marks=pytest.mark.soak, id="one"),
        pytest.param((), 2, id="two"),
        pytest.param(("-n", "2"), 1, marks=pytest.mark.soak, id="xdist"),
    ],
)
def test_coverage_of_all_processes_can_be_combined(
    tmp_path: Path, words: tuple[str, ...], processes: int
) -> None:
    leg(tmp_path, ALL, words, processes)
    assert [path.name for path in tmp_path.glob(".coverage*")] == [".coverage"]
    assert missing_lines(tmp_path) == [], "in the file that pytest-cov alone would have written"
    assert len(list((tmp_path / "record").glob("*.coverage*"))) == processes
    assert missing(tmp_path) == []
    done = coverage(tmp_path, "report", "--fail-under=100")
    assert done.returncode == 0, done.stdout


@pytest.mark.soak
def test_only_coverage_of_a_dead_process_is_missing(tmp_path: Path) -> None:
    leg(tmp_path, ("one", "dies", "two", "three", "four"), (), 1)
    assert missing_lines(tmp_path) == [3]
    assert missing(tmp_path) == [3]


def test_data_of_programs_is_combined_as_pytest_cov_does(tmp_path: Path) -> None:
    (tmp_path / ".coverage.old").write_bytes(b"of an earlier step")
    leg(tmp_path, ("one", "program"), (), 1)
    assert missing_lines(tmp_path) == [5, 7]
    assert missing(tmp_path) == [5, 7]
    assert [path.name for path in tmp_path.glob(".coverage.*")] == [".coverage.old"]


def test_data_that_is_not_whole_yet_is_left_out(tmp_path: Path) -> None:
    """Of a process that has begun to write its file, or was killed at it."""
    leg(tmp_path, ("one", "half", "two"), (), 1)
    assert missing_lines(tmp_path) == [7, 9]


@pytest.mark.soak
def test_coverage_file_set_by_the_user_has_the_data_of_all_processes(tmp_path: Path) -> None:
    file = str(tmp_path / "own")
    names = ("one", "two", "environment", "dies", "three", "four")
    leg(tmp_path, names, (), 1, COVERAGE_FILE=file, EXPECTED=file)
    assert missing_lines(tmp_path, COVERAGE_FILE=file) == [3, 5]
    assert not (tmp_path / ".coverage").exists()


@pytest.mark.soak
def test_data_of_an_earlier_step_stays_if_told_so(tmp_path: Path) -> None:
    leg(tmp_path, ("one", "two"), (), 1)
    (tmp_path / "record").rename(tmp_path / "record-of-another-step")
    leg(tmp_path, ("three",), ("--cov-append",), 1)
    assert missing_lines(tmp_path) == [9]
    (tmp_path / "record").rename(tmp_path / "record-of-a-third")
    leg(tmp_path, ("four",), (), 1)
    assert missing_lines(tmp_path) == [3, 5, 7]
