"""An answer in the issue of the base branch: one comment of each run, at a fake GitHub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakegithub.actions import REPOSITORY
from fakegithub.issues_and_checks import issue_json
from fakegithub.state import FakeGitHub, Login
from guard.fake_jobs import environ_of

from ciguard.document import Paragraph
from ciguard.report.publish import publish_culprits, with_marker

RED = with_marker("tests.yml", "### :x: 1 of 8 tests failed", (7, 1))
ANSWER = (Paragraph("a1b2c3d made it fail"),)


@pytest.fixture
def environ(tmp_path: Path, server: FakeGitHub) -> dict[str, str]:
    """The environment of a job after a push to the base branch."""
    event = {"repository": {"full_name": REPOSITORY, "default_branch": "main"}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    return {**environ_of(tmp_path, server), "GITHUB_REF_NAME": "main"}


def open_issue(server: FakeGitHub, number: int, body: str = RED, **changes: object) -> None:
    login = changes.pop("login", next(iter(server.tokens.values())))
    assert isinstance(login, Login)
    text = {**issue_json(server, REPOSITORY, number, login), "body": body}
    server.issues[number] = {**text, **changes}


def commented(server: FakeGitHub) -> list[int]:
    """The number of the issue of each comment."""
    return [int(one["issue_url"].rpartition("/")[2]) for one in server.comments.values()]


def test_each_run_has_one_comment_on_the_open_issue(
    environ: dict[str, str], server: FakeGitHub
) -> None:
    open_issue(server, 100, state="closed")
    open_issue(server, 101)
    assert publish_culprits(environ, ANSWER).startswith("comment created: http")
    assert commented(server) == [101]
    (body,) = server.bodies()
    marker = "<!-- ciguard:tests.yml culprit 7 -->\n<!-- ciguard-run:7/1 -->\n"
    assert body == f"{marker}a1b2c3d made it fail\n"
    assert publish_culprits(environ, ANSWER).startswith("comment unchanged: http")
    environ["GITHUB_RUN_ATTEMPT"] = "2"
    assert publish_culprits(environ, (Paragraph("before"),)).startswith("comment updated: http")
    (body,) = server.bodies()
    assert body.endswith("ciguard-run:7/2 -->\nbefore\n")
    assert publish_culprits({**environ, "GITHUB_RUN_ID": "8"}, ANSWER).startswith("comment created")
    assert commented(server) == [101, 101]
    assert server.issues[101]["body"] == RED


@pytest.mark.parametrize(
    "issue",
    [
        None,
        {"state": "closed"},
        {"body": RED.replace("tests.yml", "nightly.yml")},
        {"login": Login("mallory", "User")},
        {"pull_request": {"url": "https://api.github.com"}},
    ],
)
def test_nothing_is_written_unless_an_issue_of_ours_is_open(
    environ: dict[str, str], server: FakeGitHub, issue: dict[str, object] | None
) -> None:
    if issue is not None:
        open_issue(server, 100, **issue)  # type: ignore[arg-type]
    done = publish_culprits(environ, ANSWER)
    assert done == "nothing is published: ciguard has no open issue for tests.yml"
    assert server.comments == {}


@pytest.mark.parametrize(
    ("event", "branch"), [("pull_request", "main"), ("push", "topic"), ("workflow_run", "main")]
)
def test_only_a_run_of_the_base_branch_publishes(
    environ: dict[str, str], server: FakeGitHub, event: str, branch: str
) -> None:
    open_issue(server, 100)
    environ |= {"GITHUB_EVENT_NAME": event, "GITHUB_REF_NAME": branch}
    assert publish_culprits(environ, ANSWER) == (
        "nothing is published: this is not a run of the base branch"
    )
    assert server.request_log() == []
