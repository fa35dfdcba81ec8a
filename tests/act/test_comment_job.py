"""The job of eight lines of docs/how-to/comment.md in a workflow with a matrix, run by act."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from act.conftest import open_github
from act.fake_machine import COMMIT, OURS, PUSH, ROOT, GitHub, Run
from act.test_actions import shown

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
CI = ".github/workflows/ci.yml"
FORKS = ".github/workflows/comment.yml"
PAGE = (ROOT / "docs" / "how-to" / "comment.md").read_text("utf-8")
UPLOAD, JOB, HISTORY, COMMENT = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
TESTS = """\
name: tests
on: [push, pull_request]
permissions: {}
jobs:
  test:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    strategy:
      fail-fast: false
      matrix:
        part: [cart, order]
    steps:
      - uses: actions/checkout@v7
      - run: python -m pytest tests/test_${{ matrix.part }}.py --junitxml=results.xml
      - if: always()
        uses: OWNER/ciguard@COMMIT
        id: ours
        with:
          results: results.xml
      - if: matrix.part == 'order'
        run: python -m pytest -o addopts= --collect-only -q > "all tests.txt"
      - if: matrix.part == 'order'
        uses: actions/upload-artifact@v7
        with:
          name: lists
          path: all tests.txt
          overwrite: true
UPLOAD
      - if: always()
        run: echo verdict=${{ steps.ours.outputs.verdict }}
"""
LISTED = """\
  listed:
    needs: [test]
    if: always()
    runs-on: ubuntu-latest
    permissions: { actions: read, contents: read }
    steps:
      - uses: OWNER/ciguard@COMMIT
        with:
          artifacts: true
          results: results-*/*.xml
          tests: lists/all tests.txt
          comment: false
"""
FILES = {
    "tests/test_cart.py": "def test_adds(): pass\n\ndef test_breaks(): assert 0\n",
    "tests/test_order.py": "def test_pays(): pass\n\ndef test_ships(): pass\n",
}
CHANGE = {
    "tests/test_cart.py": "".join(f"def test_{n}(): pass\n\n" for n in ("adds", "breaks", "new")),
    "tests/test_order.py": "import os\n\ndef test_ships(): pass\n\ndef test_pays():\n"
    "    assert os.environ['GITHUB_RUN_ATTEMPT'] != '1'\n",
}


def pinned(text: str) -> str:
    return text.replace("OWNER/ciguard@COMMIT", f"{OURS}@{COMMIT}")


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
    with open_github(tmp_path_factory.mktemp("comment")) as made:
        shutil.copy(ROOT / "action.yml", made.actions)
        # act has one `strategy.job-index` for all jobs of a matrix.
        upload = UPLOAD.replace("strategy.job-index", "matrix.part")
        files = {
            CI: pinned(f"{TESTS.replace('UPLOAD', upload)}\n{JOB}\n{HISTORY}\n{LISTED}"),
            FORKS: pinned(COMMENT),
            **FILES,
        }
        made.commit("a shop", files)
        made.git("push", "--quiet", "origin", "main")
        yield made


def execute(
    github: GitHub, event: str, payload: dict[str, Any], run_id: int, *, attempt: int = 1
) -> Run:
    jobs = [
        {"run_id": run, "name": f"test ({part})", "attempt": number}
        for run, attempts in ({201: 1, 202: 2} | {run_id: attempt}).items()
        for part in ("cart", "order")
        for number in range(1, attempts + 1)
    ]
    (github.folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    file = FORKS if event == "workflow_run" else CI
    return github.execute(file, event, payload, run_id=run_id, attempt=attempt)


def comment(github: GitHub) -> str:
    (found,) = github.comments()
    return html.unescape(found["body"]).replace("<wbr>", "")


@pytest.fixture(scope="module")
def pushed(github: GitHub) -> Run:
    """A push without any past run, with a test that fails."""
    return execute(github, "push", PUSH, 201)


@pytest.fixture(scope="module")
def proposed(github: GitHub, pushed: Run) -> tuple[Run, str]:
    """A pull request: a test fails at first, one is fixed, one is new; without a history yet."""
    github.git("push", "--quiet", "origin", "--delete", "ciguard-history")
    past = {"path": ".github/workflows/tests", "created_at": "2026-11-20T10:00:00Z"}
    (github.folder / "runs.json").write_text(json.dumps({"201": past}), "utf-8")
    run = execute(github, "pull_request", github.propose("change", CHANGE), 202)
    return run, comment(github)


def test_test_job_gets_a_summary_and_no_token(pushed: Run) -> None:
    assert sorted(shown(pushed.job("test-1"), "verdict")) == ["failed"]
    assert shown(pushed.job("test-2"), "verdict") == ["passed"]
    assert "results of 2 tests in 1 shard; no list of planned" in pushed.job("test-2").printed


def test_push_is_judged_and_recorded(pushed: Run) -> None:
    assert "1 of 4 tests failed" in pushed.job("ciguard").printed
    assert pushed.job("history").result == "success"
    assert "4 values of 1 run added" in pushed.job("history").printed


def test_pull_request_is_compared_with_the_artifacts_of_the_base(proposed: tuple[Run, str]) -> None:
    run, body = proposed
    assert "history" not in run.jobs
    assert run.job("ciguard").result == "failure"
    assert "### :x: 1 of 5 tests failed" in body
    assert "test_pays" in body
    assert "1 fixed" in body
    assert "1 new" in body
    assert "comparison begins after 3 runs of main; 1 so far" in body


@pytest.fixture(scope="module")
def repeated(github: GitHub, proposed: tuple[Run, str]) -> tuple[Run, str]:
    run = execute(github, "pull_request", github.propose("change", CHANGE), 202, attempt=2)
    return run, comment(github)


def test_comment_is_updated_by_the_second_attempt(repeated: tuple[Run, str]) -> None:
    run, body = repeated
    assert run.green, run.talk
    assert "### :white_check_mark: PASSED: results of 5 tests in 2 of 2 expected" in body
    assert "PASSED: results of all 5 tests of the list in 2 shards" in run.job("listed").printed


def test_lost_artifact_is_named(github: GitHub, repeated: tuple[Run, str]) -> None:
    crash = {"tests/test_order.py": "import os\n\ndef test_pays(): os._exit(0)\n"}
    run = execute(github, "pull_request", github.propose("change", crash), 203)
    assert run.job("ciguard").result == "failure"
    body = comment(github)
    assert "INCOMPLETE: 1 of 2 expected shards have results" in body
    assert "no results of results-test-order, which run 201 of the base had" in body


def test_run_of_a_fork_is_reported_by_the_second_workflow(
    github: GitHub, repeated: tuple[Run, str]
) -> None:
    event = github.propose("change", CHANGE)
    fork = {"full_name": "fork/shop", "id": 9}
    subject = {"id": 202, "run_attempt": 2, "event": "pull_request", "head_branch": "change"}
    subject |= {"head_sha": event["pull_request"]["head"]["sha"], "head_repository": fork}
    subject["path"] = ".github/workflows/tests"
    github.git("switch", "--quiet", "main")
    payload = {"workflow_run": subject, "repository": event["repository"]}
    run = execute(github, "workflow_run", payload, 204)
    assert run.green, run.talk
    assert "results of 5 tests in 2 of 2 expected shards" in run.job("ciguard").printed
    assert "check created" in run.job("ciguard").printed


def test_pull_request_target_is_refused(github: GitHub, pushed: Run) -> None:
    event = github.propose("change", CHANGE)
    text = (github.checkout / CI).read_text("utf-8")
    (github.checkout / CI).write_text(
        text.replace("pull_request]", "pull_request_target]"), "utf-8"
    )
    run = execute(github, "pull_request_target", event, 205)
    assert run.job("ciguard").result == "failure"
    assert run.job("ciguard").printed == "", "nothing was installed"
