"""One line with the timeouts and out of memory of both runs, from results or job logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, died, files_of, run_of
from compare.test_jobs import ALLOCATOR, END, START, WORDS
from conftest import Ciguard
from fakegithub.actions import add_artifact, add_job
from fakegithub.state import FakeGitHub, Fault

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.model import Result

TIMEOUT = "panic: test timed out after 1m0s\n"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([case("a")], [case("a")], ""),
        ([died("a", "timeout")], [died("a", "timeout")], "timeouts 1 -> 1 (results of tests)"),
        ([case("a")], [died("a", "timeout")], "timeouts 0 -> 1 (results of tests)"),
        (
            [died("a", "memory_guard"), died("b", "out_of_memory")],
            [died("b", "timeout")],
            "timeouts 0 -> 1 (results of tests), out of memory 2 -> 0 (results of tests)",
        ),
    ],
)
def test_results_of_tests_count(before: list[Result], after: list[Result], words: str) -> None:
    base, head = run_of({"01": before}), run_of({"01": after}, run_id=2)
    text = FORMATS["text"](compare_run(head, bases=[base]))
    assert words in " ".join(text.split())
    assert bool(words) == ("(results of tests)" in text)


CUT = "num_allocs: 1\n" * 50_000 + f"{70_000 * 'x'}\n"  # more values than are read of a log
FIXED = "timeouts 1 -> 0 (results of tests)"


@pytest.mark.parametrize(
    ("first", "logs", "state", "words", "code"),
    [
        (died("a", "timeout"), (TIMEOUT + 2 * ALLOCATOR, "ok\n"), "BETTER",
         f"{FIXED} and 1 -> 0 (texts in logs), out of memory 2 -> 0 (texts in logs) ", 0),
        (died("a", "timeout"), (None, None), "BETTER",
         f"{FIXED}; a log of the base is missing on GitHub; a log of the candidate is missing", 0),
        (died("a", "timeout"), ("", 50 * TIMEOUT), "MIXED: 1 fixed; timeout more often in the logs",
         f"{FIXED} and 0 -> 50 (texts in logs) ", 10),
        (case("a"), (3 * TIMEOUT, 50 * TIMEOUT + 9 * ALLOCATOR), "WORSE: timeout more often",
         "timeouts 3 -> 50 (texts in logs), out of memory 0 -> 9 (texts in logs) ", 10),
        (case("a"), (2 * ALLOCATOR, CUT + 5 * ALLOCATOR), "INCONCLUSIVE",
         "out of memory 2 -> at least 0 (texts in logs); the candidate log is cut ", 0),
        (case("a"), (CUT + 5 * ALLOCATOR, 2 * ALLOCATOR), "INCONCLUSIVE",
         "out of memory at least 0 -> 2 (texts in logs); the base log is cut ", 0),
    ],
)  # fmt: skip
def test_job_logs_count_beside_results(  # noqa: PLR0917
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path,
    first: Result, logs: tuple[str | None, str | None], state: str, words: str, code: int,
) -> None:  # fmt: skip
    for run, log, of_test in zip((5, 7), logs, (first, case("a")), strict=True):
        files = files_of({"01": [of_test]}, run_id=run, job="tests (01)")
        add_artifact(server, "ciguard-record-p-01-1", files, run=run)
        add_job(server, "tests (01)", run=run, log=None if log is None else START + log + END)
    done = ciguard(*WORDS, "--fail-on", "timeout,oom", cwd=tmp_path, expect=code, **environ)
    assert done.stdout.startswith(state)
    assert words in " ".join(done.stdout.split())


def test_texts_of_a_job_that_the_candidate_skipped_do_not_count(
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path
) -> None:
    for run, steps in ((5, [("Run", "success")]), (7, [])):
        add_job(server, "lint", run=run, log=START + END)
        add_job(server, "gpu", run=run, steps=steps, log=START + ALLOCATOR + END)
    shown = " ".join(ciguard(*WORDS, cwd=tmp_path, **environ).stdout.split())
    assert "logs: the candidate has no log of job gpu; the logs have no value in common; " in shown


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        (403, "NO DIFFERENCE", "only jobs are"),
        (410, "INCONCLUSIVE", "a log of the base is missing"),
    ],
)
def test_logs_that_github_refuses_or_has_deleted(  # noqa: PLR0917
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path,
    status: int, state: str, words: str,
) -> None:  # fmt: skip
    for run, how in ((5, "success" if status == 403 else "failure"), (7, "success")):
        add_job(server, "lint", how, run=run, log=START + END)
    server.faults.append(Fault(path="/logs", status=status, times=9))
    code = 13 * (status == 410)
    done = ciguard(*WORDS, "--fail-on", "incomplete", cwd=tmp_path, expect=code, **environ)
    assert done.stdout.startswith(f"{state}: ")
    assert words in done.stdout.replace("\n", " ")
    assert ("warning: the logs of the jobs are not compared: " in done.stderr) == (status == 403)
