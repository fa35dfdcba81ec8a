"""`report --run ID --results PATTERN` without a plan: the job of eight lines, on a fake GitHub."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, cast

import pytest
from act.events import pull_request_event
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, TIP, add_artifact, add_job, add_run
from fakegithub.state import FakeGitHub, Fault
from report.test_run import Call

SAMPLES = Path(__file__).parents[1] / "samples"

FAILURE = '<failure message="assert 1 == 2"/>'
BASE = ("cart.adds", "cart.removes", "order.pays", "order.ships")


def junit(tests: Mapping[str, float], bad: Sequence[str] = ()) -> bytes:
    """A file of tests with their seconds; a bad one fails."""
    cases = "".join(
        f'<testcase classname="{name.split(".")[0]}" name="{name.split(".")[1]}" time="{time_s}">'
        f"{FAILURE if name in bad else ''}</testcase>"
        for name, time_s in tests.items()
    )
    return f'<testsuite tests="{len(tests)}">{cases}</testsuite>'.encode()


def upload(
    server: FakeGitHub, run: int, *, bad: Sequence[str] = (), without: Sequence[str] = ()
) -> None:
    """Two artifacts of results, one of coverage, and one of our own."""
    for name in ("cart", "order"):
        tests = {test: 1.0 + run / 100 for test in BASE if test.startswith(name)}
        tests = {test: time_s for test, time_s in tests.items() if test not in without}
        if tests:
            files = {"junit.xml": junit(tests, bad), "coverage.xml": b"<coverage/>"}
            add_artifact(server, f"results-{name}", files, run)
    add_artifact(server, f"ciguard-report-{run}-1", {"page.xml": b"<html/>"}, run)


def merged(folder: Path) -> tuple[str, str, str]:
    """Make the checkout of a pull request, whose origin has no history: base, head and merge."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=Shop", "-c", "user.email=shop@example.org")
        done = subprocess.run(
            ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("init", "-q", "--bare", "origin.git")
    git("remote", "add", "origin", "origin.git")
    git("commit", "-q", "--allow-empty", "-m", "base")
    git("switch", "-q", "-c", "crash")
    git("commit", "-q", "--allow-empty", "-m", "head")
    git("switch", "-q", "--detach", "main")
    git("merge", "-q", "--no-ff", "-m", "merge", "crash")
    return git("rev-parse", "main"), git("rev-parse", "crash"), git("rev-parse", "HEAD")


@pytest.fixture
def call(tmp_path: Path, ciguard: Ciguard, server: FakeGitHub, environ: dict[str, str]) -> Call:
    """`ciguard report` in the job of pull request 7, whose run has number 70."""
    for run in range(60, 67):
        add_run(server, run, created_at=f"2026-11-{run - 50}T10:00:00Z", head_sha=f"{run:040x}")
        upload(server, run)
        add_job(server, "test", run=run)
    next(run for run in server.runs if run["id"] == 65)["conclusion"] = "cancelled"
    base, head, merge = merged(tmp_path)
    event = pull_request_event(head, base)
    (tmp_path / "event.json").write_text(json.dumps(event), "utf-8")
    server.pulls.add((REPOSITORY, 7))
    variables = {
        **environ,
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "70",
        "GITHUB_SHA": merge,
        "GITHUB_HEAD_REF": "crash",
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/tests.yml@refs/pull/7/merge",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    add_job(server, "test", run=70)

    def call(*words: str, expect: int = 0) -> Any:
        given = ("report", "--run", "70", "--results", "**/*.xml", "--github", "--comment", *words)
        return ciguard(*given, cwd=tmp_path, expect=expect, **cast("Any", variables))

    return call


GREEN = json.dumps({"test": {"result": "success"}})
NO_PAST = "comparison begins after 3 runs of main; 0 so far"


def first_line(text: str) -> str:
    return unescape(text.partition("\n")[0]).removeprefix("### ")


def test_comment_compares_with_the_artifacts_of_the_base(call: Call, server: FakeGitHub) -> None:
    """Of the newest run, one job ran again, and uploaded its artifact again."""
    (newest,) = (run for run in server.runs if run["id"] == 66)
    newest["run_attempt"] = 2
    second = "2026-11-21T11:00:00Z"
    add_job(server, "test (order)", run=66, attempt=2, started_at=second, completed_at=second)
    again = {"junit.xml": junit({"order.pays": 1.66, "order.ships": 1.66})}
    add_artifact(server, "results-order", again, 66, created_at=second)
    upload(server, 70, bad=("order.ships",))
    done = call("--needs", json.dumps({"test": {"result": "failure"}}), expect=10)
    (comment,) = server.comments.values()
    assert comment["body"].endswith(done.stdout.split("\n", 1)[1])
    assert first_line(done.stdout) == ":x: 1 of 4 tests failed: 1 has an unknown cause"
    assert "passed in only 5 runs of main, failed here" in done.stdout
    assert "history yet: compared with the results of 5 runs of main" in unescape(done.stdout)
    assert "base: [run 66/2, 0000000, main, 4 tests]" in done.stdout
    assert "not read as test results: results-cart/coverage.xml" in done.stderr
    downloads = [one for one in server.request_log() if one.endswith("/zip")]
    assert len(downloads) == 2 + 5 * 2 + 1, "of five complete runs, and no artifact of ciguard's"


@pytest.mark.parametrize(
    ("case", "line"),
    [
        (((), (), 0), "PASSED: results of 4 tests in 2 shards; no list of planned tests"),
        (
            ((), ("--expect", "2"), 0),
            "PASSED: results of 4 tests in 2 of 2 expected shards; no list",
        ),
        (((), ("--tests", "list"), 0), "PASSED: results of all 4 tests of the list in 2 shards"),
        (
            (("cart.adds",), ("--tests", "list"), 13),
            "INCOMPLETE: 1 listed test without a result; shard results-cart: 1 missing",
        ),
        (
            (BASE[:2], ("--expect", "2"), 13),
            "INCOMPLETE: 1 of 2 expected shards have results; 2 tes",
        ),
        (
            (BASE[:2], (), 13),
            "-50.0 %, run 66 of main); no results of results-cart, which run 66 of",
        ),
        ((BASE, (), 13), "INCOMPLETE: no test has a result: --results"),
        (((), ("--expect", "3"), 13), "INCOMPLETE: 2 of 3 expected shards have results"),
    ],
)
def test_first_line_claims_what_was_proved(
    call: Call,
    server: FakeGitHub,
    tmp_path: Path,
    case: tuple[Sequence[str], Sequence[str], int],
    line: str,
) -> None:
    without, words, code = case
    listed = "\n".join(name.replace(".", "::") for name in BASE)
    (tmp_path / "list").write_text(f"{listed}\n", "utf-8")
    upload(server, 70, without=without)
    done = call("--needs", GREEN, *words, expect=code)
    assert line in first_line(done.stdout)
    outputs = (tmp_path / "output").read_text("utf-8")
    assert f"planned<<ciguard_end\n{'4' if 'list' in words else ''}\n" in outputs


def test_needed_job_without_failed_test_is_incomplete(call: Call, server: FakeGitHub) -> None:
    upload(server, 70)
    for result in ("cancelled", "failure"):
        done = call("--needs", json.dumps({"test": {"result": result}}), expect=13)
        assert first_line(done.stdout).startswith(":warning: INCOMPLETE: job test")


def test_job_that_github_stopped_is_named_with_the_reason(call: Call, server: FakeGitHub) -> None:
    upload(server, 70)
    limit = "The job has exceeded the maximum execution time of 45m0s"
    add_job(server, "test (5)", "cancelled", run=70, annotations=[limit])
    exited, timeout = "Process completed with exit code 1.", "panic: test timed out after 1m0s\n"
    add_job(server, "lint", "failure", run=70, annotations=[exited], log=9 * timeout)
    needs = ("--needs", json.dumps({"test": {"result": "cancelled"}}))
    done = call(*needs, expect=13)
    line = ":warning: INCOMPLETE: job test is 'cancelled'"
    assert first_line(done.stdout) == f"{line}; job test (5): timeout"
    assert limit in done.stdout
    assert "job lint: timeouts 9, out of memory 0 in its log." in done.stdout
    server.faults.append(Fault(path="/annotations", status=403, message="Resource not accessible"))
    assert first_line(call(*needs, expect=13).stdout) == line


def test_test_in_several_shards_is_compared_within_each(call: Call, server: FakeGitHub) -> None:
    """It failed with one Python before, and now fails with the other: no failure hides behind."""
    upload(server, 70)
    for run, failing in ((66, "3.11"), (70, "3.12")):
        for python in ("3.11", "3.12"):
            content = junit({"web.loads": 1}, ["web.loads"] if python == failing else [])
            add_artifact(server, f"python-{python}", {"junit.xml": content}, run)
    done = call(expect=10)
    (fixed,) = [line for line in done.stdout.splitlines() if "| fixed |" in line]
    assert "[python-3.11] web::loads" in unescape(fixed).replace("<wbr>", "")
    assert "1 of 6 tests failed" in done.stdout
    assert "likely this change" in done.stdout or "unknown" in done.stdout


def test_without_a_complete_run_of_the_base_the_comment_says_so(
    call: Call, server: FakeGitHub
) -> None:
    upload(server, 70)
    for number in server.facts:
        if server.run_of_artifact[number] != 70:
            server.facts[number]["expired"] = True
    assert NO_PAST in call("--needs", GREEN).stdout
    server.runs.clear()
    assert NO_PAST in call("--needs", GREEN).stdout


def test_file_without_a_test_is_no_result(call: Call, server: FakeGitHub) -> None:
    """As pytest writes one after a wrong path, whose exit code a script can swallow."""
    upload(server, 70)
    add_artifact(server, "results-empty", {"junit.xml": junit({})}, 70)
    lost = call("--needs", GREEN, expect=13).stdout
    assert "INCOMPLETE: 2 of 3 expected shards have results" in lost
    assert "the upload needs `if: always()`" in unescape(lost)
    assert "PASSED: results of 4 tests in 2 of 2" in call("--needs", GREEN, "--expect", "2").stdout


def test_run_of_a_tag_that_is_named_as_the_base_is_no_baseline(
    call: Call, server: FakeGitHub
) -> None:
    upload(server, 70)
    server.merge_bases[f"{TIP}...{66:040x}"] = "0" * 40
    server.behind_by[f"{TIP}...{64:040x}"] = 9  # of an old commit
    assert "compared with [run 63]" in call("--needs", GREEN).stdout
    asked = [one for one in server.request_log() if f"/compare/{TIP}" in one]
    assert len(asked) == 6, "a call for each listed run that ended"
    server.faults.append(Fault(path="/compare/", status=403, message="Resource not accessible"))
    refused = call("--needs", GREEN).stdout
    assert "not compared: the runs of main cannot be read: answered 403" in refused
    assert "contents: read" in refused


def test_large_artifact_that_no_pattern_names_is_left_out(call: Call, server: FakeGitHub) -> None:
    upload(server, 70)
    add_artifact(server, "build", b"", 70, size_in_bytes=1 << 30)
    assert "not read as test results: build, results-cart/coverage.xml" in call().stderr


@pytest.mark.parametrize("tests", [(), ("--tests", "list")])
def test_run_is_added_to_a_history_by_its_artifacts(
    call: Call,
    server: FakeGitHub,
    tmp_path: Path,
    ciguard: Ciguard,
    environ: dict[str, str],
    *,
    tests: Sequence[str],
) -> None:
    """A list names the tests otherwise than their files, in all of the runs."""
    (tmp_path / "list").write_text("\n".join(BASE).replace(".", ".py::") + "\n", "utf-8")
    words = ("history", "add", "--run", "66", "--results", "**/*.xml")
    named = {**environ, "GITHUB_REPOSITORY": REPOSITORY}
    facts = ("--sha", "6" * 40, "--branch", "main", "--event", "push")
    given = (*words, *tests, "--history", "past", *facts)
    done = ciguard(*given, "--expect", "3", cwd=tmp_path, expect=3, **cast("Any", named))
    assert "2 of 3 expected artifacts have results" in done.stderr
    done = ciguard(*given, "--expect", "2", cwd=tmp_path, **cast("Any", named))
    assert "4 values of 1 run added" in done.stdout
    upload(server, 70)
    assert "no history yet: compared with the results of 5 runs of main" in call(*tests).stdout
    done = call("--history", "past", *tests)
    assert "comparison begins after 3 runs of main; 1 so far" in done.stdout
    assert "renamed" not in done.stdout
    assert "run 66 of the history" in done.stdout


@pytest.mark.parametrize(
    ("sample", "line"),
    [
        ("junit/outcomes/input.xml", ":x: 7 of 12 tests failed"),
        ("trx/endings/input.trx", ":x: 8 of 8 tests failed"),
        ("jest-json/outcomes/input.json", ":x: 5 of 11 tests failed"),
    ],
)
def test_job_reports_files_of_its_workspace(
    ciguard: Ciguard, tmp_path: Path, sample: str, line: str
) -> None:
    (tmp_path / "out").mkdir()
    content = (SAMPLES / sample).read_bytes()
    (tmp_path / "out" / f"results{Path(sample).suffix}").write_bytes(content)
    done = ciguard("report", "--results", "out/**/*", "--history", "none", cwd=tmp_path, expect=10)
    assert first_line(done.stdout) == line
    assert "ciguard run --plan" not in done.stdout, "no command needs a plan"


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("**/*.xml", "3 of 3 tests failed"),  # as `download-artifact` puts them
        ("./python-*/*.xml", "in 2 of 2 variants"),
        ("**/*.xml", "in 2 of 2 variants"),  # the other test has no variant
        ("*.xml", "1 of 1 test failed"),
    ],
)
def test_folders_of_a_download_are_jobs(
    ciguard: Ciguard, tmp_path: Path, pattern: str, line: str
) -> None:
    for path, test in (("python-1/a", "web.bad"), ("python-2/a", "web.bad"), ("b", "web.too")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / f"{path}.xml").write_bytes(junit({test: 1}, [test]))
    words = ("report", "--results", pattern, "--history", "none")
    assert line in ciguard(*words, cwd=tmp_path, expect=10).stdout


def test_names_count_once_and_from_the_checkout(ciguard: Ciguard, tmp_path: Path) -> None:
    statuses = (("a", "passed"), ("a", "failed"), ("b", "pending"), ("c", "passed"))
    tests = [
        {"ancestorTitles": [], "title": name, "status": status, "failureMessages": []}
        for name, status in statuses
    ]
    file = {"name": f"{tmp_path}/src/cart.test.js", "status": "failed", "assertionResults": tests}
    counts = {"numTotalTestSuites": 1, "numTotalTests": 4, "numFailedTests": 1}
    report = {**counts, "wasInterrupted": False, "testResults": [file]}
    (tmp_path / "out.json").write_text(json.dumps(report), "utf-8")
    done = ciguard("report", "--results", "*.json", "--history", "none", cwd=tmp_path, expect=10)
    text = unescape(done.stdout).replace("<wbr>", "")
    assert "<code>src/cart.test.js::a #2</code>" in text
    assert "3 tests with 4 results · 1 skipped" in text


def test_run_whose_tests_were_all_skipped_ran_nothing(ciguard: Ciguard, tmp_path: Path) -> None:
    case = '<testcase classname="a" name="t"><skipped/></testcase>'
    for name, cases in (("a", case), ("b", case.replace("<skipped/>", ""))):
        (tmp_path / f"{name}.xml").write_text(f"<testsuite>{cases}</testsuite>", "utf-8")
    done = ciguard("guard", "--results", "a.xml", cwd=tmp_path, expect=13)
    assert "NOTHING RAN" in done.stdout
    done = ciguard("guard", "--results", "{shard}.xml", cwd=tmp_path)
    assert done.stdout.startswith("PASSED: results of 2 tests in 2 shards, 1 skipped; no list")
