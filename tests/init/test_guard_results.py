"""`ciguard init --guard` as a user calls it: two jobs around a matrix that stays as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.test_workflow_files import LINTERS, run_linter

if TYPE_CHECKING:
    from conftest import Golden
    from init.conftest import Init

SAMPLES = Path(__file__).parent.parent / "samples/guard_results"
CI = ".github/workflows/ci.yml"
BEFORE = (SAMPLES / "before.yml").read_text("utf-8")
ADDRESS = "octo-org/ciguard@0123456789abcdef0123456789abcdef01234567 # v0.2.0"
CONFIGURATION = f"""\
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


@pytest.mark.parametrize("program", LINTERS)
def test_linters_find_nothing_in_what_is_added(program: str, tmp_path: Path) -> None:
    texts = {name: (SAMPLES / f"{name}.yml").read_text("utf-8") for name in ("guard", "history")}
    answer = run_linter(program, tmp_path, texts)
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
    assert "categories that its filters ask for, such as --list ./list-tests.sh" in answer.stderr
    assert (repository / CI).read_text("utf-8") == BEFORE
    (repository / CI).write_text(BEFORE.replace("&Category!=Slow", ""), "utf-8")
    answer = call(repository, "--guard", CI, "--yes", expect=2)
    assert "such as --list 'dotnet test --list-tests'" in answer.stderr


@pytest.mark.parametrize(
    "listing",
    ["a -q one && a -q two", "a; b", "a | tee list", "a # all", "a > tests.txt", "a\nb", "a &"],
)
def test_several_commands_are_refused(repository: Path, call: Init, listing: str) -> None:
    """The output of the last one alone would be the list: what the others name is lost."""
    answer = call(repository, "--guard", CI, "--list", listing, "--yes", expect=2)
    assert "put it into a script" in answer.stderr


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("dotnet test --logger", "pytest --splits 2 --group", "cannot evaluate --splits"),
        ("dotnet test", "make test", "no filters of what this step runs can be read"),
        ("(${{ matrix.shard.filter }})", "$(./filter)", "the filter of shard Tests - Cart is not"),
        (
            "- run: dotnet",
            "- working-directory: ${{ matrix.shard.name }}\n        run: dotnet",
            "the tests of each combination are in another folder",
        ),
    ],
)
def test_filters_that_the_added_job_could_not_read_are_refused(
    repository: Path, call: Init, old: str, new: str, problem: str
) -> None:
    assert old in BEFORE
    (repository / CI).write_text(BEFORE.replace(old, new), "utf-8")
    answer = call(repository, "--guard", CI, *LIST, "--yes", expect=3)
    assert problem in answer.stderr


def test_key_of_the_filter_is_handed_on(repository: Path, call: Init) -> None:
    script = BEFORE.replace(
        'dotnet test --logger trx --filter "(${{ matrix.shard.filter }})&Category!=Slow"',
        "dotnet test --filter $FILTER",
    )
    (repository / CI).write_text(script, "utf-8")
    answer = call(repository, "--guard", CI, *LIST, "--yes", expect=3)
    assert "--filter-key shard.filter" in answer.stderr
    call(repository, "--guard", CI, *LIST, "--filter-key", "shard.filter", "--yes")
    assert 'filter-key: "shard.filter"' in (repository / CI).read_text("utf-8")


SECOND = """
  integration:
    runs-on: ubuntu-latest
    strategy: {matrix: {part: [A, B]}}
    steps:
      - run: dotnet test --filter "Shop.Integration.${{ matrix.part }}"
      - uses: actions/upload-artifact@v7
        with: {name: "NAME-${{ matrix.part }}", path: "**/*.trx"}
"""


def test_second_matrix_of_a_workflow_is_refused(repository: Path, call: Init) -> None:
    (repository / CI).write_text(BEFORE + SECOND.replace("NAME", "integration"), "utf-8")
    call(repository, "--guard", f"{CI}:test", *LIST, "--yes")
    answer = call(repository, "--guard", f"{CI}:integration", *LIST, "--yes", expect=3)
    assert "there is a job ciguard-report already" in answer.stderr


def test_artifacts_of_another_job_that_cannot_be_told_apart_are_refused(
    repository: Path, call: Init
) -> None:
    (repository / CI).write_text(BEFORE + SECOND.replace("NAME", "results-int"), "utf-8")
    answer = call(repository, "--guard", f"{CI}:test", *LIST, "--yes", expect=3)
    assert "its artifacts cannot be told from those of job integration" in answer.stderr


def test_refused_retry_action_names_the_way_out(repository: Path, call: Init) -> None:
    retry = BEFORE.replace(
        '- run: dotnet test --logger trx --filter "(${{ matrix.shard.filter }})&Category!=Slow"',
        "- uses: nick-fields/retry@v3\n        with: {command: dotnet test, max_attempts: 2}",
    )
    (repository / CI).write_text(retry, "utf-8")
    for target in (CI, f"{CI}:test"):
        answer = call(repository, "--guard", target, *LIST, "--yes", expect=3)
        assert (repository / CI).read_text("utf-8") == retry
        assert "no step before the upload of its results runs a command" in answer.stderr
