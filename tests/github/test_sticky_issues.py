"""The issue of a red base branch, over real HTTP."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakegithub.issues_and_checks import issue_json
from fakegithub.state import TOKEN, FakeGitHub, Login, Request
from pydantic import SecretStr

from ciguard.github.client import GitHub
from ciguard.report.publish import StickyText, upsert_issue, with_marker

REPOSITORY = "octo-org/shop"
LIST = f"/repos/{REPOSITORY}/issues"


def upsert(
    github: GitHub, body: str, *, red: bool = True, run: int = 1, key: str = "tests.yml"
) -> StickyText:
    title = f"{key} is red on main"
    return upsert_issue(
        github, REPOSITORY, key=key, title=title, body=body, is_red=red, run=(run, 1)
    )


def states(server: FakeGitHub) -> list[str]:
    return [one["state"] for _, one in sorted(server.issues.items())]


def test_issue_lifecycle(server: FakeGitHub, github: GitHub) -> None:
    assert upsert(github, "all well", red=False).action == "not_needed"
    assert server.issues == {}
    assert upsert(github, "3 failed").action == "created"
    assert upsert(github, "3 failed").action == "unchanged"
    assert upsert(github, "4 failed", run=2).action == "updated"
    closed = upsert(github, "mended", red=False, run=3)
    assert closed == StickyText("closed", f"https://github.com/{REPOSITORY}/issues/100")
    (issue,) = server.issues.values()
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert upsert(github, "still well", red=False, run=4).action == "not_needed"
    assert issue["body"] == with_marker("tests.yml", "mended", (3, 1))
    assert upsert(github, "broken again", run=5).action == "reopened"
    assert states(server) == ["open"]


def test_older_run_does_not_change_the_issue(server: FakeGitHub, github: GitHub) -> None:
    upsert(github, "red", run=11)
    upsert(github, "green", run=12, red=False)
    assert upsert(github, "red", run=11).action == "superseded"
    assert states(server) == ["closed"]


def test_issues_of_other_authors_are_not_changed(server: FakeGitHub, github: GitHub) -> None:
    body = with_marker("tests.yml", "forged")
    for number, login in enumerate([Login(name="x", type="User"), Login(name="other[bot]")]):
        server.issues[number] = {**issue_json(server, REPOSITORY, number, login), "body": body}
    pull = {**issue_json(server, REPOSITORY, 2, Login()), "body": body, "pull_request": {"url": ""}}
    server.issues[2] = pull
    assert upsert(github, "red").action == "created"
    assert [one["body"] for one in server.issues.values()][:3] == [body] * 3


@pytest.mark.parametrize("runs", [(11, 12), (12, 11)])
def test_concurrent_runs_leave_one_open_issue(server: FakeGitHub, runs: tuple[int, int]) -> None:
    both = threading.Barrier(2, timeout=20)

    def gate(request: Request) -> None:
        if request.method == "POST":
            both.wait()

    server.gate = gate

    def write(run: int) -> StickyText:
        with GitHub(server.address, SecretStr(TOKEN), timeout_s=20.0) as github:
            return upsert(github, f"of run {run}", run=run)

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, runs))
    assert states(server) == ["open", "closed"]
    assert server.issues[100]["body"] == with_marker("tests.yml", "of run 12", (12, 1))
