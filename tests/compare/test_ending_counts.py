"""One line with the timeouts and out of memory of both runs, from results or job logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compare.compare_factories import case, died, files_of, run_of
from compare.test_jobs import ALLOCATOR, END, START, WORDS
from fakegithub.actions import add_artifact, add_job
from fakegithub.state import Fault
from report.test_run import environ, server

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard
    from fakegithub.state import FakeGitHub

    from ciguard.model import Result

__all__ = ["environ", "server"]
TIMEOUT = "panic: test timed out after 1m0s\n"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([case("a")], [case("a")], ""),
        ([died("a", "timeout")], [case("a")], "timeouts 1 -> 0 (results of tests)"),
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


def test_job_logs_count_where_no_result_does(
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path
) -> None:
    """Run 5 has a timeout in its record and its log, and two out of memory in its log alone."""
    first = {5: died("a", "timeout"), 7: case("a")}
    for run, log in ((5, TIMEOUT + 2 * ALLOCATOR), (7, "ok\n")):
        files = files_of({"01": [first[run], case("b")]}, run_id=run, job="tests (01)")
        add_artifact(server, "ciguard-record-p-01-1", files, run=run)
        add_job(server, "tests (01)", run=run, log=START + log + END)
    shown = ciguard(*WORDS, cwd=tmp_path, **environ).stdout
    line = "timeouts 1 -> 0 (results of tests), out of memory 2 -> 0 (texts in logs)"
    assert line in " ".join(shown.split())
    server.logs.clear()
    assert "timeouts 1 -> 0 (results of tests)\n" in ciguard(*WORDS, cwd=tmp_path, **environ).stdout


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
