"""The question of `ciguard init` which of several test steps to move."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import CI, OWN, commit

from ciguard.config.file import Config
from ciguard.init.candidates import find_candidates, with_used_actions

if TYPE_CHECKING:
    from init.conftest import Init, Terminal

SUITE = "  {}:\n    runs-on: a\n    steps:\n      - run: pytest {}\n"
NAME = "All tests of the shop, with coverage"
REASON = "cannot be moved: its shards would cancel each other: they have one concurrency group"
TWO = "on: push\njobs:\n" + SUITE.format("unit", "a") + SUITE.format("lint", "b")


@pytest.fixture
def many(repository: Path) -> Path:
    """A repository with 35 test steps, of which some cannot be moved."""
    jobs = "".join(SUITE.format(f"part-{number}", number) for number in range(30))
    matrix = "    strategy: {matrix: {os: [a, b]}}\n    steps"
    groups = "    concurrency: one\n    steps"
    files = {
        "nightly.yml": "on: schedule\njobs:\n" + jobs,
        "ci.yml": TWO
        + SUITE.format("tests", f"a_folder_of_tests\n        name: {NAME}").replace(
            "    steps", matrix
        ),
        "docs.yml": "on: push\njobs:\n" + SUITE.format("docs", "--doctest"),
        "busy.yml": "on: push\njobs:\n" + SUITE.format("suite", "").replace("    steps", groups),
    }
    for name, text in files.items():
        (repository / ".github/workflows" / name).write_text(text, "utf-8")
    commit(repository)
    return repository


def test_likeliest_of_many_steps_are_commands_that_work(many: Path, call: Init) -> None:
    answer = call(many, "--yes", expect=3)
    assert answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert lines[0] == "ciguard init: 35 steps run tests"
    assert sum(1 + len(line) // 80 for line in lines) <= 24, "a screen"
    assert lines[2] == '1. job tests, step "All tests of the shop, with coverage": pytest ...'
    commands = [line.strip() for line in lines if line.startswith("   ciguard init ")]
    assert commands[:2] == [
        f"ciguard init --into {CI} --job tests --step 1",
        f"ciguard init --into {CI} --job unit --step 1",
    ]
    assert lines[-9:-6] == ["job suite: pytest", f"   {REASON}", "29 more, the first 6:"]
    assert len(commands) == 6 + 6
    assert not (many / OWN).exists()
    for command in commands:
        assert "would c" in call(many, *shlex.split(command)[2:]).stdout


def test_steps_of_a_named_workflow_and_job_are_asked_for(many: Path, call: Init) -> None:
    answer = call(many, "--into", CI, expect=3)
    assert "ciguard init: 3 steps run tests\n" in answer.stderr
    assert "nightly" not in answer.stderr
    assert "pytest b" in call(many, "--into", CI, "--job", "lint").stdout


@pytest.mark.parametrize(("answers", "changed"), [(b"\ny\ny\n", CI), (b"3\ny\ny\n", OWN)])
def test_terminal_asks_once_which_step_to_move(
    answers: bytes, changed: str, repository: Path, terminal: Terminal
) -> None:
    (repository / CI).write_text(TWO, "utf-8")
    commit(repository)
    output = terminal(repository, answers)
    assert output.count("Which one gets ciguard's shards? [1]") == 1
    git = ["git", "-C", str(repository), "status", "--porcelain", "-uall"]
    assert changed in subprocess.run(git, capture_output=True, text=True, check=True).stdout
    shown = output.index(f"would change {CI}" if changed == CI else f"would create {OWN}")
    assert shown < output.index(f"{changed}? [y/N]")


def test_only_movable_step_is_moved_without_a_question(repository: Path, call: Init) -> None:
    grouped = SUITE.format("tests", "").replace("    steps", "    concurrency: one\n    steps")
    text = TWO.replace(SUITE.format("lint", "b"), grouped)
    (repository / CI).write_text(text, "utf-8")
    commit(repository)
    lines = call(repository, "--yes").stderr.splitlines()
    assert lines[:2] == ["job tests: pytest", f"   {REASON}"]
    assert f"{CI}:6: job unit runs the tests: pytest a" in lines[2]


def test_single_test_file_comes_last(repository: Path, call: Init) -> None:
    scripts = {"all": 'run x "<rootDir>/test/*.spec.js"', "one": "run x --match test/a.spec.js"}
    base = {"x": "deno -A node_modules/jest-cli/bin/jest.js"}
    scripts = {name: text.replace("run", "yarn") for name, text in scripts.items()}
    (repository / "package.json").write_text(json.dumps({"scripts": scripts | base}), "utf-8")
    (repository / "test").mkdir()
    (repository / "test/a.spec.js").touch()
    jobs = SUITE.format("tests", "").replace("pytest", "yarn one --ci")
    jobs += SUITE.format("a", "").replace("pytest", "yarn all --ci")
    (repository / CI).write_text(f"on: push\njobs:\n{jobs}", "utf-8")
    commit(repository)
    assert [candidate.job for candidate in find_candidates(repository)[1]] == ["a", "tests"]
    answer = call(repository, "--into", CI, "--job", "a", expect=3)
    assert "jobs.a: ciguard has no adapter for jest in deno: yarn all --ci" in answer.stderr


@pytest.mark.parametrize(
    ("likelier", "other"),
    [
        ("on: push\n|test|", "on: schedule\n|test|"),
        ("on: workflow_call\n|test|", "on: [release, workflow_dispatch]\n|test|"),
        ("on: push\n|test|", "on: push\n|lint|"),
        ("on: push\n|a|    strategy: {matrix: {a: [1]}}\n", "on: push\n|test|"),
        ("on: push\n|unit|", "on: push\n|a|"),
    ],
)
def test_likelier_suite_comes_first(likelier: str, other: str, repository: Path) -> None:
    (repository / CI).unlink()
    for name, text in (("b.yml", likelier), ("a.yml", other)):
        head, job, keys = text.split("|")
        step = SUITE.format(job, "x").replace("    steps", f"{keys}    steps")
        (repository / f".github/workflows/{name}").write_text(f"{head}jobs:\n{step}", "utf-8")
    path, candidates = find_candidates(repository)
    assert path == ""
    assert [candidate.path[-5:] for candidate in candidates] == ["b.yml", "a.yml"]


def test_separate_workflow_names_the_job_beside_it(repository: Path, call: Init) -> None:
    job = "on: push\njobs: {unit: {steps: [{run: pytest}]}}\n"
    (repository / "test_a.py").write_text("def test_a(): pass\n", "utf-8")
    (repository / CI).write_text(job, "utf-8")
    commit(repository)
    said = call(repository, "--new", "--yes").stderr
    assert f"job unit of {CI} still runs its tests, until you" in said
    assert max(map(len, said.splitlines())) <= 80
    assert "still runs" not in call(repository, "--new", "--yes").stderr


def test_address_is_that_of_a_step_with_a_commit(repository: Path) -> None:
    commit_, file = "0123" * 10, repository / CI
    said: list[str] = []
    for text, address in (
        (f"# uses: evil/ciguard@{commit_}\njobs: {{}}\n", ""),
        ("jobs: {a: {steps: [{run: 'uses: evil/ciguard@main'}]}}", ""),
        ("jobs: {a: {steps: [{uses: evil/ciguard@main}]}}", ""),
        (f"jobs: {{a: {{steps: [{{uses: o/ciguard@{commit_}}}]}}}}", f"o/ciguard@{commit_}"),
    ):
        file.write_text(text, "utf-8")
        assert with_used_actions(repository, Config(), said.append).actions == address
    assert said == [f"actions: o/ciguard@{commit_}, as in {CI}"]
