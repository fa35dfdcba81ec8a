"""Two commits of a real repository, their tests run in turn in two worktrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from compare.compare_factories import case, run_of
from conftest import Ciguard
from experiment.test_command import SIGNALS, interrupt
from history.git_servers import git

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison
from ciguard.compare.confirmation import apply_confirmation, read_confirmation
from ciguard.compare.json import as_json, read_comparison
from ciguard.compare.wording import headline
from ciguard.errors import UsageError
from ciguard.experiment.command import compares_commits

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"
TESTS = """
import pathlib, sys
import time
TABLE = pathlib.Path("table.txt").read_text()
def test_steady(): time.sleep(0.1)
def test_sleeps(): time.sleep({sleeps})
def test_holds(): assert bytearray({holds})
def test_breaks(): assert {passes}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose tests need what its set-up makes; the head is worse in three of them."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    setup = "mkdir -p .venv/bin; echo 1 > table.txt; : > .venv/bin/own; chmod +x .venv/bin/own"
    (folder / "ciguard.toml").write_text(f'[experiment]\nsetup = "{setup}"\n')
    for sleeps, holds, passes in ((0.1, 20_000_000, True), (0.25, 40_000_000, False)):
        text = TESTS.format(sleeps=sleeps, holds=holds, passes=passes)
        (folder / "test_it.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "x")
    return folder


def no_worktree(folder: Path) -> None:
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert list((folder / ".git").glob("worktrees/*")) == []


def unit(name: str) -> str:
    return f"test_it.py::test_{name}"


def suspected() -> Comparison:
    """What one run on another machine made of it."""

    def results(sleeps: float, mib: float) -> list[Any]:
        steady = 0.1 if sleeps < 0.2 else 0.4
        return [
            case(unit("steady"), steady, 1),
            case(unit("sleeps"), sleeps, 1),
            case(unit("holds"), 0.1, mib),
        ]

    past = [
        run_of({"01": results(0.1 + n / 1e4, 20 + n / 1e3)}, f"run {n}", run_id=n)
        for n in range(1, 13)
    ]
    return compare_run(run_of({"01": results(0.25, 40)}, "head", run_id=20), None, past)


@pytest.mark.soak
def test_suspects_are_confirmed_or_not(project: Path, ciguard: Ciguard) -> None:
    before = suspected()
    assert [len(one.of_tier("suspect")) for one in (before.durations, before.memory)] == [2, 1]
    (project / "comparison.json").write_text(json.dumps(as_json(before)))
    done = ciguard(
        *("experiment", "--base", "HEAD~1", "--head", "main", "--units", "suspects"),
        *("--comparison", "comparison.json", "--runs", "3", "--warmup", "0"),
        *("--format", "json", "-o", "answer.json"),
        cwd=project,
    )
    answer = json.loads((project / "answer.json").read_text())
    jsonschema.validate(answer, json.loads((DOCS / "experiment.schema.json").read_text("utf-8")))
    assert done.stdout == "slower\n"
    reported = {(row["key"]["unit"], row["measure"]): row["verdict"] for row in answer["rows"]}
    assert reported == {
        (unit("sleeps"), "wall_s"): "slower",
        (unit("holds"), "peak_delta_bytes"): "more memory",
        (unit("steady"), "wall_s"): "-",
    }
    assert answer["base"] == git(project, "rev-parse", "HEAD~1")
    now = read_comparison((project / "comparison.json").read_bytes(), "x")
    assert [(one.key.unit, one.tier) for one in now.durations.losses] == [
        (unit("sleeps"), "confirmed"),
        (unit("steady"), "not confirmed"),
    ]
    assert [one.tier for one in now.memory.losses] == ["confirmed"]
    assert now.state == "worse"
    assert headline(now) == (
        "WORSE: 3 tests that passed in both runs took 0.75 s, 0.30 s before; "
        "peak memory: 1 confirmed regression (3 tests judged, n=12); "
        "duration: 1 confirmed regression (3 tests judged, n=12)"
    )
    assert (now.notes[-1].count, now.notes[-1].total) == (2, 3)
    by_its_json = read_confirmation((project / "answer.json").read_bytes(), "x")
    assert apply_confirmation(before, by_its_json) == now, "as a report takes it"
    assert replace(now, state=before.state) != before
    no_worktree(project)


def test_failing_or_missing_units_are_not_judged(project: Path, ciguard: Ciguard) -> None:
    listed = "\n".join(map(unit, ("breaks", "steady", "gone")))
    done = ciguard(
        *("experiment", "--base", "HEAD~1", "--head", "HEAD", "--units", "-"),
        *("--runs", "1", "--warmup", "0"),
        cwd=project,
        stdin=listed,
    )
    lines = done.stdout.splitlines()
    assert f"- {unit('breaks')}: failed on head" in done.stdout
    assert f"- {unit('gone')}: no result on base\n" in done.stdout
    assert max(map(len, lines)) <= 80
    assert "base, run 1: " in done.stderr
    assert "not committed" not in done.stderr
    assert lines[-1] == "not enough data", "one pair is too few"
    no_worktree(project)


def test_uncommitted_changes_are_not_measured_and_noted(project: Path, ciguard: Ciguard) -> None:
    with (project / "test_it.py").open("a") as stream:
        stream.write("def test_new(): pass\n")
    done = ciguard(
        *("experiment", "--base", "HEAD~1", "--head", "HEAD", "--units", "-"),
        *("--runs", "1", "--warmup", "0"),
        cwd=project,
        stdin=unit("new"),
        expect=10,
    )
    assert "base, run 1: ended: " in done.stdout
    assert git(project, "status", "--porcelain", "--untracked-files=no") == "M test_it.py"


def test_comparison_of_another_commit_is_a_warning(project: Path, ciguard: Ciguard) -> None:
    head = replace(suspected().candidate, sha="c" * 40)
    reported = replace(suspected(), candidate=head)
    (project / "comparison.json").write_text(json.dumps(as_json(reported)))
    (project / "ciguard.toml").write_text('[experiment]\nsetup = "exit 7"\n')
    done = ciguard(
        *("experiment", "--base", "HEAD~1", "--head", "HEAD", "--units", "suspects"),
        *("--comparison", "comparison.json"),
        cwd=project,
        expect=3,
    )
    now = git(project, "rev-parse", "HEAD")
    assert f"warning: the comparison is of cccccccccc, and run is {now[:10]}\n" in done.stderr


@pytest.mark.parametrize(
    ("commands", "commits", "comparison", "words", "reported"),
    [
        ((None, None), ("a", "b", None), None, (), "missing or wrong options"),
        ((None, None), ("a", None, "u"), None, (), "missing or wrong options"),
        ((None, None), (None, None, None), "c", (), "missing or wrong options"),
        (("x", None), ("a", "b", "u"), None, (), "missing or wrong options"),
        ((None, None), ("a", "b", "u"), None, ("n=1",), "missing or wrong options"),
        ((None, None), ("a", "b", "suspects"), None, (), "need each other"),
        ((None, None), ("a", "b", "u"), "c", (), "need each other"),
    ],
)
def test_contradictory_options_are_usage_errors(
    commands: tuple[str | None, ...],
    commits: tuple[str | None, ...],
    comparison: str | None,
    words: tuple[str, ...],
    reported: str,
) -> None:
    with pytest.raises(UsageError, match=reported):
        compares_commits(commands, commits, comparison, words)


def test_unknown_commit_suite_or_no_unit_is_an_error(project: Path, ciguard: Ciguard) -> None:
    both = ("experiment", "--base", "HEAD", "--head")
    done = ciguard(*both, "no-such", "--units", "-", cwd=project, stdin="x", expect=3)
    assert "git: no commit 'no-such'" in done.stderr
    done = ciguard(*both, "HEAD", "--units", "-", cwd=project, expect=5)
    assert "no test is listed" in done.stderr
    other = '[{"unit": "x", "suite": "other"}]'
    done = ciguard(*both, "HEAD", "--units", "-", cwd=project, stdin=other, expect=3)
    assert "no suite 'other'" in done.stderr
    no_worktree(project)


def test_only_suite_is_the_default(project: Path, ciguard: Ciguard) -> None:
    suite = '[suite.unit]\nframework = "pytest"\n[experiment]\n'
    (project / "ciguard.toml").write_text(suite + 'setup = "echo got that far; exit 7"\n')
    both = ("experiment", "--base", "HEAD~1", "--head", "HEAD", "--units", "-")
    done = ciguard(*both, cwd=project, stdin=unit("steady"), expect=3)
    assert "got that far" in done.stderr
    (project / "ciguard.toml").write_text('[suite.other]\nframework = "pytest"\n' + suite)
    done = ciguard(*both, cwd=project, stdin=unit("steady"), expect=3)
    assert "no suite ''" in done.stderr
    assert "fix: there are 'other', 'unit'" in done.stderr
    no_worktree(project)


def test_failing_setup_is_reported_with_its_last_output(project: Path, ciguard: Ciguard) -> None:
    (project / "ciguard.toml").write_text('[experiment]\nsetup = "echo no network; exit 7"\n')
    done = ciguard(
        *("experiment", "--base", "HEAD~1", "--head", "HEAD", "--units", "-"),
        cwd=project,
        stdin=unit("steady"),
        expect=3,
    )
    assert "the set-up of base ended with exit code 7\n    no network\n" in done.stderr
    no_worktree(project)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_worktrees_are_removed_after_a_signal(number: int, code: int, project: Path) -> None:
    (project / "ciguard.toml").write_text('[experiment]\nsetup = "echo $PWD; sleep 600"\n')
    (project / "units").write_text(unit("steady"))
    both = ("--base", "HEAD~1", "--head", "HEAD", "--units", "units")
    interrupt(project, both, "base: echo $PWD; sleep 600", number, code)
    no_worktree(project)
