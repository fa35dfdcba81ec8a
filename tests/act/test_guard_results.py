"""A matrix written by hand, judged as it is: audited, guarded and recorded, executed by act."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pytest
from act.events import pull_request_event
from act.fake_machine import COMMIT, OURS
from act.test_workflow_run import push_event

if TYPE_CHECKING:
    from act.fake_machine import GitHub, Run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
CI = ".github/workflows/ci.yml"
WORKFLOW = """\
name: tests
on: [push, pull_request]
permissions:
  contents: read
jobs:
  test:
    name: Tests - ${{ matrix.part.name }}
    runs-on: ubuntu-latest
    timeout-minutes: 45
    strategy:
      fail-fast: false
      matrix:
        part:
          - { name: Cart, id: cart, path: tests/test_cart.py }
          - { name: Orders / A-M, id: orders, path: tests/test_order.py }
    steps:
      - uses: actions/checkout@v7
      - run: python -m pytest ${{ matrix.part.path }} --junitxml=out/junit.xml
      - uses: actions/upload-artifact@v7
        with:
          name: results-${{ matrix.part.id }} # act has no strategy.job-index
          path: out/junit.xml
"""
LIST = "python -m pytest --collect-only -q -p no:cacheprovider"
CONFIGURATION = f'actions = "{OURS}@{COMMIT} # v0.2.0"\n'
ACKNOWLEDGED = f"{CONFIGURATION}[guard]\norphans = 1\n"
FILES = {
    CI: WORKFLOW,
    "ciguard.toml": CONFIGURATION,
    "tests/test_cart.py": "def test_adds(): pass\n\ndef test_removes(): pass\n",
    "tests/test_order.py": "def test_pays(): pass\n\ndef test_ships(): pass\n",
    "tests/test_user.py": "def test_logs_in(): pass\n",
}
# It looks like success to whatever runs pytest, and leaves no result file.
CRASH = "import os\n\ndef test_pays(): os._exit(0)\n\ndef test_ships(): pass\n"


def execute(github: GitHub, event: str, payload: dict[str, object], run_id: int) -> Run:
    github.set_jobs(run_id, dict.fromkeys(("Tests - Cart", "Tests - Orders / A-M"), 1))
    return github.execute(CI, event, payload, run_id=run_id)


@pytest.fixture(scope="module")
def guarded(github: GitHub) -> None:
    """The workflow with the steps that list the tests, and the two jobs."""
    github.commit("a shop", FILES)
    for _ in ("guard", "history"):
        answer = github.ciguard("init", "--guard", CI, "--list", LIST, "--yes")
        assert answer.stdout == f"{CI}: changed\n", answer.stderr
    github.commit("guard", {})
    github.git("push", "--quiet", "origin", "main")


@pytest.fixture(scope="module")
def pushed(github: GitHub, guarded: None) -> Run:
    """A push whose orphan nobody acknowledged."""
    return execute(github, "push", push_event(), 201)


@pytest.fixture(scope="module")
def acknowledged(github: GitHub, pushed: Run) -> Run:
    assert not pushed.green
    github.commit("know the orphan", {"ciguard.toml": ACKNOWLEDGED})
    github.git("push", "--quiet", "origin", "main")
    return execute(github, "push", push_event(), 202)


@pytest.fixture(scope="module")
def proposed(github: GitHub, acknowledged: Run) -> Run:
    """A pull request whose second shard crashes."""
    assert acknowledged.green, acknowledged.talk
    return propose(github, {"tests/test_order.py": CRASH}, 203)


@pytest.fixture(scope="module")
def extended(github: GitHub, proposed: Run) -> Run:
    """A pull request with a new test that no shard selects."""
    return propose(github, {"tests/test_gift.py": "def test_wraps(): pass\n"}, 204)


def propose(github: GitHub, change: dict[str, str], run_id: int) -> Run:
    base = github.git("rev-parse", "main")
    github.git("switch", "--quiet", "--create", f"change-{run_id}", "main")
    head = github.commit("change", change)
    github.git("switch", "--quiet", "--detach", "main")
    github.git("merge", "--quiet", "--no-ff", "--message", "merge", f"change-{run_id}")
    return execute(github, "pull_request", pull_request_event(head, base), run_id)


def test_orphan_makes_the_run_incomplete(pushed: Run) -> None:
    assert pushed.job("ciguard").result == "failure"
    assert "tests/test_user.py::test_logs_in" in pushed.job("ciguard").printed
    assert {job.result for job in pushed.legs(r"Tests - ")} == {"success"}


def test_orphan_that_is_acknowledged_is_named_in_a_green_run(acknowledged: Run) -> None:
    assert acknowledged.green, acknowledged.talk
    assert "PASSED: all 4 tests of 2 shards" in acknowledged.job("ciguard").printed
    assert "1 in no shard (acknowledged)" in acknowledged.job("ciguard").printed


def test_push_is_recorded(github: GitHub, acknowledged: Run) -> None:
    assert acknowledged.green, acknowledged.talk
    shown = github.ciguard("history", "show", "--history", "branch:ciguard-history")
    assert shown.returncode == 0, shown.stderr
    assert "202" in shown.stdout


def test_shard_without_results_is_named(github: GitHub, proposed: Run) -> None:
    assert not proposed.green
    (comment,) = github.comments()
    body = html.unescape(comment["body"]).replace("<wbr>", "")
    assert "shard results-orders of 2 has no record" in body
    assert "2 tests" in body


def test_new_test_that_no_shard_selects_is_named(github: GitHub, extended: Run) -> None:
    assert not extended.green
    assert {job.result for job in extended.legs(r"Tests - ")} == {"success"}
    (comment,) = github.comments()
    body = html.unescape(comment["body"]).replace("<wbr>", "")
    assert "INCOMPLETE: 2 tests in no shard, 1 acknowledged" in body
    assert "test_wraps" in body
