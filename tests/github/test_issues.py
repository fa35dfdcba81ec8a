"""The issue of a red base branch, over real HTTP."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from fakegithub.state import Fault, Login
from fakegithub.telling import issue_json
from pydantic import SecretStr

from ciguard.github.client import GitHub
from ciguard.github.issues import KeptIssue, keep_issue
from ciguard.github.marks import with_marker
from ciguard.github.refusals import Forbidden

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub, Request

TOKEN = "ghs_TheTokenThatMustStaySecret"
REPOSITORY = "octo-org/shop"
LIST = f"/repos/{REPOSITORY}/issues"


def keep(
    github: GitHub, body: str, *, red: bool = True, run: int = 1, key: str = "tests.yml"
) -> KeptIssue:
    title = f"{key} is red on main"
    return keep_issue(github, REPOSITORY, key=key, title=title, body=body, is_red=red, run=(run, 1))


def states(server: FakeGitHub) -> list[str]:
    return [one["state"] for _, one in sorted(server.issues.items())]


def test_an_issue_s_life(server: FakeGitHub, github: GitHub) -> None:
    assert keep(github, "all well", red=False).action == "not needed"
    assert server.issues == {}
    assert keep(github, "3 failed").action == "opened"
    assert keep(github, "3 failed").action == "unchanged"
    assert keep(github, "4 failed", run=2).action == "updated"
    closed = keep(github, "mended", red=False, run=3)
    assert closed == KeptIssue("closed", f"https://github.com/{REPOSITORY}/issues/100")
    (issue,) = server.issues.values()
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert keep(github, "still well", red=False, run=4).action == "not needed"
    assert issue["body"] == with_marker("tests.yml", "mended", (3, 1))
    assert keep(github, "broken again", run=5).action == "reopened"
    assert states(server) == ["open"]


def test_each_workflow_has_its_own(server: FakeGitHub, github: GitHub) -> None:
    keep(github, "unit", key="tests.yml")
    keep(github, "nightly", key="nightly.yml")
    keep(github, "fine", key="tests.yml", red=False, run=2)
    assert states(server) == ["closed", "open"]


def test_a_late_run_says_nothing(server: FakeGitHub, github: GitHub) -> None:
    keep(github, "red", run=11)
    keep(github, "green", run=12, red=False)
    assert keep(github, "red", run=11).action == "left to a newer run"
    assert states(server) == ["closed"]


def test_what_others_wrote_is_left_alone(server: FakeGitHub, github: GitHub) -> None:
    body = with_marker("tests.yml", "forged")
    for number, login in enumerate([Login(name="x", type="User"), Login(name="other[bot]")]):
        server.issues[number] = {**issue_json(server, REPOSITORY, number, login), "body": body}
    pull = {**issue_json(server, REPOSITORY, 2, Login()), "body": body, "pull_request": {"url": ""}}
    server.issues[2] = pull
    assert keep(github, "red").action == "opened"
    assert [one["body"] for one in server.issues.values()][:3] == [body] * 3


@pytest.mark.parametrize("runs", [(11, 12), (12, 11)])
def test_two_runs_at_the_same_moment_leave_one_open(
    server: FakeGitHub, runs: tuple[int, int]
) -> None:
    both = threading.Barrier(2, timeout=20)

    def gate(request: Request) -> None:
        if request.method == "POST":
            both.wait()

    server.gate = gate

    def write(run: int) -> KeptIssue:
        with GitHub(server.address, SecretStr(TOKEN), timeout_s=20.0) as github:
            return keep(github, f"of run {run}", run=run)

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, runs))
    assert states(server) == ["open", "closed"]
    assert server.issues[100]["body"] == with_marker("tests.yml", "of run 12", (12, 1))


@pytest.mark.parametrize("status", [0, 502])
def test_a_lost_answer_opens_no_second_issue(
    server: FakeGitHub, github: GitHub, status: int
) -> None:
    server.faults.append(Fault(method="POST", status=status, done=True))
    assert keep(github, "red").action == "opened"
    assert len(server.issues) == 1


def test_a_token_that_may_not(server: FakeGitHub, github: GitHub) -> None:
    server.tokens[TOKEN] = Login(may_write=False)
    with pytest.raises(Forbidden, match="Resource not accessible"):
        keep(github, "red")
