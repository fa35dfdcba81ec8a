"""From `ciguard run` of a changed suite to the comment that says whose each failure is."""

from __future__ import annotations

import re
import subprocess
from html import unescape
from pathlib import Path

from conftest import Ciguard

TESTS = """
import os, pathlib
HERE = pathlib.Path(__file__).parent
STATE = []
def test_first(): pass
def test_leaks(): STATE.extend([1] * CHANGED)
def test_between(): pass
def test_broken(): assert 12 == 13 - (not CHANGED)
def test_order(): assert not STATE
def test_flake():
    is_first = CHANGED and not (HERE / "seen").exists()
    (HERE / "seen").touch()
    assert not is_first
def test_red(): assert 0
def test_crash():
    if CHANGED: os._exit(3)
"""


def test_comment_says_whose_each_failure_is(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text('[suite.""]\nframework = "pytest"\n')
    suite, history = tmp_path / "test_a.py", ("--history", "h")
    suite.write_text(f"CHANGED = 0\n{TESTS}")

    def run(plan: str, *words: str, **environ: str) -> None:
        ciguard("plan", *words, "--artifact", plan, "--shards", "1", cwd=tmp_path)
        done = ("--plan", plan, "--shard", "01", "--record", f"run-{plan}/01")
        ciguard("run", *done, cwd=tmp_path, expect=10, **environ)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, check=True)
        return done.stdout.decode().strip()

    run("base")
    git("init", "-q")
    for day in range(1, 15):
        git("commit", "-q", "--allow-empty", "-m", str(day))
        facts = ("--run-id", str(day), "--sha", git("rev-parse", "HEAD"), "--branch", "main")
        at = ("--at", f"2026-11-{day:02}T10:00:00Z")
        ciguard("history", "add", "run-base", *history, *facts, *at, cwd=tmp_path)
    (tmp_path / "seen").unlink()
    suite.write_text(f"CHANGED = 1\n{TESTS}")
    run("head", *history, GITHUB_ACTIONS="true", GITHUB_SHA=git("rev-parse", "HEAD"))
    words = ("report", "--plan", "head", "--records", "run-head", *history)
    text = unescape(ciguard(*words, cwd=tmp_path, expect=10).stdout).replace("<wbr>", "")
    assert text.splitlines()[0] == (
        "### :x: 5 of 8 tests failed: 2 look caused by this change · "
        "1 depends on the order of tests · 1 also fails on main · 1 is flaky"
    )
    row = r"^\| <code>test_a.py::test_(\w+)</code> \|.*\| \*\*(.*) \|.*\|$"
    rows = dict(re.findall(row, text, re.MULTILINE))
    for name in ("broken", "crash"):
        evidence = "passed in 14 runs of main, failed in 3 of 3 tries here"
        assert rows[name] == f"this change**: {evidence}"
    order = "passes alone, fails after test_a.py::test_leaks; failed in 0 of 14 runs of main"
    assert rows["order"] == f"order**: {order}"
    first = git("rev-list", "--max-parents=0", "HEAD")
    assert rows["red"].startswith(f"main**: red since {first[:7]} (13 commits, 14 runs, ")
    assert rows["flake"].startswith("flaky**: failed in 1 of ")
