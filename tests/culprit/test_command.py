"""Searches in a real repository: worktrees, set-up, processes, a kill at any moment."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, run_of
from conftest import Ciguard, clean_environment
from history.git_servers import git

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.json import json_text
from ciguard.culprit.answer import read_answer

BROKEN = 3  # a commit whose set-up fails, and with it every try
SETUP = f"grep -q 'N = {BROKEN}$' table.py && exit 1 || true"
TABLE = """
N = {number}
HELD = {held}
FAILS = {fails}
"""
TESTS = """
import os, table
with open(os.environ.get("LOG_OF_TESTS", os.devnull), "a") as log: log.write(f"{table.N}\\n")
def test_fails(): assert not table.FAILS
def test_holds(): assert bytearray(table.HELD << 20)
def test_steady(): pass
"""
FIRST_FAILING, FIRST_LARGE, COMMITS = 5, 2, 7


def make_repository(folder: Path, commits: int = COMMITS) -> list[str]:
    """Commit a good state and the commits after it; return their SHAs, the oldest first."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "ciguard.toml").write_text(f'[experiment]\nsetup = "{SETUP}"\n')
    (folder / "test_it.py").write_text(TESTS)
    shas = []
    for number in range(commits + 1):
        held, fails = 40 if number >= FIRST_LARGE else 20, number >= FIRST_FAILING
        (folder / "table.py").write_text(TABLE.format(number=number, held=held, fails=fails))
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"change {number}")
        shas.append(git(folder, "rev-parse", "HEAD"))
    return shas


def unit(name: str) -> str:
    return f"test_it.py::test_{name}"


SAMPLE = ("culprit", unit("fails"), "--good")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def nothing_left(folder: Path) -> None:
    assert len(git(folder, "worktree", "list").splitlines()) == 1


@pytest.mark.soak
def test_failure_and_memory_are_searched_together(project: Path, ciguard: Ciguard) -> None:
    """As the job of a red base run does it: both commits and the tests are the comparison's."""
    shas = make_repository(project)

    def run(mib: float, outcome: Any, number: int, sha: str) -> Any:
        cases = [case(unit("fails"), outcome=outcome), case(unit("holds"), 0.1, mib)]
        return run_of({"01": cases}, f"run {number}", run_id=number, head_sha=sha)

    past = [run(20 + n / 1e3, "passed", n, shas[0]) for n in range(1, 13)]
    previous = run(40, "failed", 20, shas[-1])
    compared = compare_run(run(40, "failed", 21, shas[-1]), None, past, previous=previous)
    (project / "compared.json").write_text(json_text(compared))
    words = ("culprit", "--comparison", "compared.json", "--format", "json", "-o", "found.json")
    ciguard(*words, cwd=project)
    answer = read_answer((project / "found.json").read_bytes(), "found.json")
    named = {test.measure: test.candidates[0].sha for test in answer.tests}
    assert named == {"failure": shas[FIRST_FAILING], "memory": shas[FIRST_LARGE]}
    nothing_left(project)


def test_text_names_the_commit_and_what_was_tried(project: Path, ciguard: Ciguard) -> None:
    shas = make_repository(project)
    done = ciguard(*SAMPLE, shas[0], cwd=project)
    assert done.stdout.startswith(f"since {shas[FIRST_FAILING]:.10} (")
    assert "change 5): failed in" in " ".join(done.stdout.split())
    tried = {line.split()[0]: line for line in done.stdout.splitlines() if "tries" in line}
    assert f"{shas[FIRST_FAILING - 1]:.10}" in tried, "its predecessor passed"
    assert "warning: searched without past rates of failure" in done.stderr
    nothing_left(project)


@pytest.mark.soak
def test_commits_that_do_not_build_are_no_evidence(project: Path, ciguard: Ciguard) -> None:
    shas = make_repository(project, BROKEN + 1)
    words = ("culprit", unit("holds"), "--measure", "memory", "--format", "json")
    found = json.loads(ciguard(*words, "--good", shas[0], "--bad", "main", cwd=project).stdout)
    assert found["tests"][0]["candidates"][0]["sha"] == shas[FIRST_LARGE]


@pytest.mark.soak
def test_budget_ends_a_search_that_goes_on_later(project: Path, ciguard: Ciguard) -> None:
    shas = make_repository(project)
    done = ciguard(*SAMPLE, shas[0], "--budget", "0.001s", cwd=project)
    assert "the budget was spent" in done.stdout
    done = ciguard(*SAMPLE, shas[0], cwd=project)
    assert done.stdout.startswith(f"since {shas[FIRST_FAILING]:.10}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no test"),
        ((unit("fails"), "--bad", "HEAD"), "--bad without --good"),
        ((unit("fails"), "--good", "HEAD", "--bad", "HEAD~1"), "is no ancestor"),
        ((unit("fails"), "--good", "HEAD", "--comparison", "x"), "pass one of them"),
        ((unit("fails"), "--good", "HEAD~1", "--budget", "-1s"), "--budget"),
        ((unit("fails"), "--good", "HEAD"), "the range has no commit"),
        (("[other/py312] " + unit("fails"), "--good", "HEAD~1"), "no suite 'other'"),
    ],
)
def test_invalid_options(
    words: tuple[str, ...], said: str, project: Path, ciguard: Ciguard
) -> None:
    make_repository(project, 1)
    code = 4 if "ancestor" in said else 3 if "suite" in said else 2
    assert said in ciguard("culprit", *words, cwd=project, expect=code).stderr


def test_commit_beside_the_line_of_first_parents_is_refused(
    project: Path, ciguard: Ciguard
) -> None:
    """The commits before the merge of a release branch do not have its fix: they are no range."""
    make_repository(project, 1)
    git(project, "checkout", "-q", "-b", "release", "HEAD~1")
    git(project, "commit", "-q", "--allow-empty", "-m", "fix")
    git(project, "checkout", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "-m", "merge", "release")
    done = ciguard(*SAMPLE, "release", cwd=project, expect=4)
    assert "is not on the line of first parents" in done.stderr


def executions(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


def start(project: Path, shas: list[str], log: Path) -> subprocess.Popen[str]:
    environ = clean_environment(LOG_OF_TESTS=str(log), TMPDIR=str(project.parent))
    words = [sys.executable, "-m", "ciguard", *SAMPLE, shas[0]]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=project, env=environ, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.soak
def test_interrupted_search_goes_on(project: Path) -> None:
    shas, log = make_repository(project), project.parent / "log"
    running = start(project, shas, log)
    assert running.stderr is not None
    while "failed in" not in running.stderr.readline():
        pass
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "incomplete: interrupted" in output
    before = executions(log)
    output, _ = start(project, shas, log).communicate(timeout=60)
    assert output.startswith(f"since {shas[FIRST_FAILING]:.10}")
    assert executions(log)[: len(before)] == before
    nothing_left(project)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_kills_repeat_only_the_commit_of_the_kill(project: Path) -> None:
    shas, choose = make_repository(project), random.Random(47)
    log, kills = project.parent / "log", 0
    while kills < 30:
        running = start(project, shas, log)
        time.sleep(choose.uniform(0.3, 3.0))
        if running.poll() is None:
            os.kill(running.pid, signal.SIGKILL)
            kills += 1
        output, _ = running.communicate(timeout=60)
        folders = [*project.parent.glob("ciguard-culprit-*")]
        if output:  # a kill after the answer interrupts the removal of the folder
            assert output.startswith(f"since {shas[FIRST_FAILING]:.10}")
            for folder in folders:
                shutil.rmtree(folder)
            log.unlink(missing_ok=True)
            continue
        journals = (folder / "journal.jsonl" for folder in folders)
        lines = [
            line for path in journals if path.exists() for line in path.read_text().splitlines()
        ]
        tried = [json.loads(line) for line in lines if line.endswith("}")]
        known = Counter(shas.index(one["commit"]) for one in tried if one["state"] == "tried")
        extra = Counter(executions(log)) - known
        assert sum(extra.values()) <= kills, "each kill repeats the try that it was in, at most"
        assert not known - Counter(executions(log))
