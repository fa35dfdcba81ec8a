"""`ciguard init --guard` as a user calls it: two jobs around a matrix that stays as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.test_workflow_files import run_linter

if TYPE_CHECKING:
    from conftest import Golden
    from init.conftest import Init

SAMPLES = Path(__file__).parent.parent / "samples/guard_results"
CI = ".github/workflows/ci.yml"
BEFORE = (SAMPLES / "before.yml").read_text("utf-8")
ADDRESS = "octo-org/ciguard@0123456789abcdef0123456789abcdef01234567 # v0.2.0"
CONFIGURATION = f"""\
[init]
actions = "{ADDRESS}"
[suite.shop]
framework = "command"
list = ["true"]
command = ["true"]
"""
LIST = ("--list", "./list-tests.sh --json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    (folder / CI).parent.mkdir(parents=True)
    (folder / CI).write_text(BEFORE, "utf-8")
    (folder / "ciguard.toml").write_text(CONFIGURATION, "utf-8")
    return folder


def test_first_the_guard_then_the_history(repository: Path, call: Init, golden: Golden) -> None:
    shown = call(repository, "--guard", CI, *LIST)
    assert "+  ciguard-report:" in shown.stdout
    assert (repository / CI).read_text("utf-8") == BEFORE
    call(repository, "--guard", CI, *LIST, "--yes")
    golden((repository / CI).read_text("utf-8"), SAMPLES / "guard.yml")
    call(repository, "--guard", f"{CI}:test", "--yes")
    golden((repository / CI).read_text("utf-8"), SAMPLES / "history.yml")
    answer = call(repository, "--guard", CI, "--yes")
    assert answer.stdout == (
        f"{CI} guards its results already; the next step is ciguard init --into {CI}\n"
    )


def test_out_takes_the_jobs_out_again(repository: Path, call: Init) -> None:
    for _ in ("guard", "history"):
        call(repository, "--guard", CI, *LIST, "--yes")
    call(repository, "--out", CI, "--yes")
    always = BEFORE.replace(
        "- uses: actions/upload", "- if: always()\n        uses: actions/upload"
    )
    assert (repository / CI).read_text("utf-8") == always
    own = always.replace("  build:", "  ciguard-report:").replace("needs: build", "needs: []")
    (repository / CI).write_text(own, "utf-8")
    answer = call(repository, "--out", CI, "--yes")
    assert answer.stdout == f"{CI} does not use ciguard's actions\n"


@pytest.mark.parametrize("name", ["guard", "history"])
def test_linters_find_nothing_in_what_is_added(name: str, tmp_path: Path) -> None:
    text = (SAMPLES / f"{name}.yml").read_text("utf-8")
    for program, options in (("actionlint", ["-shellcheck="]), ("zizmor", ["--offline"])):
        folder = tmp_path / program
        folder.mkdir()
        answer = run_linter(program, folder, text, *options)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BEFORE.replace("**/*.trx", "*.log"), "no step uploads test results"),
        (BEFORE + BEFORE.partition("jobs:")[2].replace("test:", "more:"), "name one: --guard"),
        ("jobs: {}\n", "no workflow: it has no jobs"),
    ],
)
def test_workflow_that_cannot_be_guarded_stays(
    repository: Path, call: Init, content: str, problem: str
) -> None:
    (repository / CI).write_text(content, "utf-8")
    answer = call(repository, "--guard", CI, *LIST, "--yes", expect=3)
    assert problem in answer.stderr
    assert (repository / CI).read_text("utf-8") == content


def test_command_that_lists_the_tests_is_asked_for(repository: Path, call: Init) -> None:
    answer = call(repository, "--guard", CI, "--yes", expect=2)
    assert "such as --list 'dotnet test --list-tests'" in answer.stderr
    assert (repository / CI).read_text("utf-8") == BEFORE
