"""The pytest PYTEST: its command lines, and what it reads of pytest's answers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.frameworks.test_registry import batch
from run.leg_runner import clean_environ

from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import Invocation, ListedUnit, Listing, environment
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.pytest import PYTEST
from ciguard.run.plugin_files import extract_plugins

SUITE = Suite("pytest", ("python", "-m", "pytest"), args=("-x",), variants={"v": Variant(("-q",))})


def test_command_of_the_user_gets_options_and_no_path() -> None:
    invocation = PYTEST.execution(SUITE, "v", batch())
    assert invocation == Invocation(
        argv=(
            *("python", "-m", "pytest", "-x", "-q"),
            *("-p", "ciguard_pytest", "-p", "ciguard_coverage"),
            "--continue-on-collection-errors",
        ),
        env={
            "CIGUARD_UNITS_FILE": "/p/units.json",
            "CIGUARD_RECORD_FILE": "/r/process-001.jsonl",
            "CIGUARD_STOP_FILE": "/p/stop",
            "CIGUARD_STACKS_FILE": "/p/stacks",
            "CIGUARD_SUITE": "s",
            "CIGUARD_VARIANT": "v",
            "CIGUARD_PROCESS": "1",
            "CIGUARD_TRIES_FILE": "/p/tries.json",
            "CIGUARD_ORIGIN_S": "12.5",
            "CIGUARD_PEAK_RESET_BY": "self",
        },
        paths={"PYTHONPATH": "/p/inside"},
    )


def listed(folder: Path, suite: Suite, variant: str = "") -> Listing:
    answer = folder / "answer.jsonl"
    inside = extract_plugins(str(folder / "private"))
    invocation = PYTEST.listing(suite, variant, str(answer), inside)
    done = subprocess.run(
        invocation.argv,
        cwd=folder / suite.cwd,
        env=environment(clean_environ(), suite, variant, invocation),
        capture_output=True,
        check=False,
    )
    content = answer.read_bytes() if answer.exists() else b""
    answer.unlink(missing_ok=True)
    return PYTEST.read_listing(suite, content, done.stdout + done.stderr, done.returncode)


def real(cwd: str = ".") -> Suite:
    return Suite("pytest", (sys.executable, "-m", "pytest", "-p", "no:cacheprovider"), cwd=cwd)


def test_units_of_a_real_suite(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "sub" / "test_a.py").write_text("""
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("x", ["::", "/"])
def test_a(x): pass
""")
    expected = (
        ListedUnit("sub/test_a.py::test_a[::]", "sub/test_a.py"),
        ListedUnit("sub/test_a.py::test_a[/]", "sub/test_a.py"),
    )
    assert listed(tmp_path, real()).units == expected
    below = listed(tmp_path, real("sub"))
    assert below.errors == ()
    assert below.units == expected, "the rootdir is the repository, wherever pytest is started"


def test_suite_with_a_separate_rootdir(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "sub" / "test_a.py").write_text("def test_a(): pass\n")
    assert listed(tmp_path, real("sub")).units == (
        ListedUnit("test_a.py::test_a", "sub/test_a.py"),
    )


@pytest.mark.parametrize("cwd", [".", "web"])
def test_rootdir_below_the_folder_where_pytest_starts(tmp_path: Path, cwd: str) -> None:
    """A `pytest.ini` in `tests` shortens the ids; files are named from the repository."""
    tests = tmp_path / cwd / "tests"
    tests.mkdir(parents=True)
    (tests / "pytest.ini").write_text("[pytest]\n")
    (tests / "test_a.py").write_text("def test_a(): pass\n")
    file = "tests/test_a.py" if cwd == "." else "web/tests/test_a.py"
    found = listed(tmp_path, replace(real(cwd), args=("tests",)))
    assert found.units == (ListedUnit("test_a.py::test_a", file),)


def test_a_broken_file_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_b.py").write_text("import no_such_module\n")
    listing = listed(tmp_path, real())
    assert [unit.unit for unit in listing.units] == ["test_a.py::test_a"]
    (error,) = listing.errors
    assert error.startswith("test_b.py: ")
    assert "No module named 'no_such_module'" in error


def test_missing_pytest_is_an_error_that_quotes_the_interpreter(tmp_path: Path) -> None:
    listing = listed(tmp_path, Suite("pytest", (sys.executable, "-I", "-S", "-m", "pytest")))
    (error,) = listing.errors
    assert "exit code 1" in error
    assert "No module named pytest" in error


TWO_PROCESSES = """#!/bin/sh
{python} -m pytest a "$@"
{python} -m pytest b "$@"
"""
TWO_SESSIONS = """#!{python}
import sys
import pytest
for folder in "ab":
    pytest.main([folder, *sys.argv[1:]])
"""


@pytest.mark.parametrize("script", [TWO_PROCESSES, TWO_SESSIONS], ids=["processes", "sessions"])
def test_two_sessions_in_one_listing_are_an_error(tmp_path: Path, script: str) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text("def test_one(): pass\n")
    (tmp_path / "test.sh").write_text(script.format(python=sys.executable))
    (tmp_path / "test.sh").chmod(0o755)
    (error,) = listed(tmp_path, Suite("pytest", ("./test.sh",))).errors
    assert "2 pytest sessions" in error


def test_truncated_listing_is_an_error() -> None:
    answer = json.dumps({"unit": "a.py::a"}).encode() + b'\n{"unit": "a.py::b'
    listing = PYTEST.read_listing(SUITE, answer, b"", 137)
    assert [unit.unit for unit in listing.units] == ["a.py::a"]
    assert listing.errors == (
        "collecting ended with exit code 137 and no inventory:\nit printed nothing",
    )


@pytest.mark.parametrize(
    ("code", "output", "timed_out"),
    [
        (1, "a stack\n+++++++ Timeout +++++++\n", True),
        (0, "+++++++ Timeout +++++++", False),
        (-9, "+++++++ Timeout +++++++", False),
        (1, "+++++++ Timeout +++++++\nanother line", False),
        (1, "", False),
    ],
)
def test_pytest_timeout_output_is_recognised(code: int, output: str, timed_out: bool) -> None:
    assert PYTEST.hit_own_timeout(code, output) is timed_out


def test_listing_without_the_plugin_names_the_blocking_option(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    suite = Suite("pytest", (sys.executable, "-I", "-m", "pytest"))
    assert "Remove -I or -E" in listing_errors(tmp_path, suite)


def test_oversized_id_is_a_listing_error(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("""
import pytest
@pytest.mark.parametrize("n", [1], ids=["x" * 600_000])
def test_a(n): pass
""")
    text = listing_errors(tmp_path, real())
    assert "has 600019 characters, too many for a line of the record" in text
    assert len(text) < 1000


def listing_errors(folder: Path, suite: Suite) -> str:
    """What `plan` is told of a suite in this folder."""
    private, inside = folder / "private", extract_plugins(str(folder / "inside"))
    private.mkdir()
    listing = list_units(
        PYTEST,
        suite,
        "",
        folder=str(folder),
        private=str(private),
        inside=inside,
        environ=clean_environ(),
    )
    return "\n".join(listing.errors)
