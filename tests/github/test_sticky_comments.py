from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakegithub.state import TOKEN, FakeGitHub, Fault, Login, Request
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import SecretStr

from ciguard.github.api_errors import Forbidden, GitHubError, MaybeDone
from ciguard.github.client import GitHub
from ciguard.report.publish import MAX_CHARS, StickyText, upsert_comment, with_marker

REPOSITORY = "octo-org/shop"
THREAD = f"/repos/{REPOSITORY}/issues/7/comments"
ONE = f"/repos/{REPOSITORY}/issues/comments"
ROBOT = Login()
REVIEWER = Login(name="reviewer", type="User", may_read_user=True)


def upsert(
    github: GitHub, body: str, key: str = "tests.yml", run: tuple[int, int] | None = None
) -> StickyText:
    return upsert_comment(github, REPOSITORY, 7, key=key, body=body, run=run)


def link(comment_id: int) -> str:
    return f"https://github.com/{REPOSITORY}/pull/7#issuecomment-{comment_id}"


def test_a_first_comment_is_created(server: FakeGitHub, github: GitHub) -> None:
    assert upsert(github, "# 3 tests died") == StickyText("created", link(1))
    assert server.bodies() == ["<!-- ciguard:tests.yml -->\n# 3 tests died"]
    assert server.request_log() == [f"GET {THREAD}", f"POST {THREAD}", f"GET {THREAD}"]


def test_next_run_updates_the_comment(server: FakeGitHub, github: GitHub) -> None:
    upsert(github, "red")
    assert upsert(github, "green") == StickyText("updated", link(1))
    assert server.bodies() == [with_marker("tests.yml", "green")]
    assert server.request_log()[-1] == f"PATCH {ONE}/1"


@pytest.mark.parametrize("stored", ["same\n\nbody", "same\r\n\r\nbody\r\n"])
def test_unchanged_comment_is_not_written(server: FakeGitHub, github: GitHub, stored: str) -> None:
    server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", stored))
    assert upsert(github, "same\n\nbody\n") == StickyText("unchanged", link(1))
    assert server.request_log() == [f"GET {THREAD}"]


def test_each_workflow_has_a_separate_comment(server: FakeGitHub, github: GitHub) -> None:
    upsert(github, "unit", key="tests")
    upsert(github, "nightly", key="tests.yml")
    assert upsert(github, "unit 2", key="tests").action == "updated"
    assert server.bodies() == [with_marker("tests", "unit 2"), with_marker("tests.yml", "nightly")]


def test_comment_is_found_after_hundreds_of_others(server: FakeGitHub, github: GitHub) -> None:
    for number in range(130):
        server.add_comment(REPOSITORY, 7, REVIEWER, f"remark {number}")
    server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", "red"))
    assert upsert(github, "green") == StickyText("updated", link(131))


@pytest.mark.parametrize(
    ("login", "body"),
    [
        (REVIEWER, with_marker("tests.yml", "forged")),
        (Login(name="github-actions[bot]", type="User"), with_marker("tests.yml", "forged")),
        (Login(name="other[bot]"), with_marker("tests.yml", "forged")),
        (ROBOT, "> " + with_marker("tests.yml", "quoted")),
        (ROBOT, "said:\n" + with_marker("tests.yml", "quoted")),
    ],
)
def test_comments_of_other_authors_are_not_changed(
    server: FakeGitHub, github: GitHub, login: Login, body: str
) -> None:
    server.add_comment(REPOSITORY, 7, login, body)
    assert upsert(github, "green").action == "created"
    assert server.bodies() == [body, with_marker("tests.yml", "green")]


def test_comment_of_a_deleted_account_is_not_changed(server: FakeGitHub, github: GitHub) -> None:
    server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", "red"))["user"] = None
    assert upsert(github, "green").action == "created"


@pytest.mark.parametrize(
    ("login", "retained"),
    [(REVIEWER, StickyText("created", link(2))), (ROBOT, StickyText("updated", link(1)))],
)
def test_user_of_a_personal_token_is_queried(
    server: FakeGitHub, login: Login, retained: StickyText
) -> None:
    """One of an app may not ask; another that may not either is taken for the workflow's."""
    server.tokens["ghp_another"] = login
    server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", "the workflow's own"))
    with GitHub(server.address, SecretStr("ghp_another")) as github:
        assert upsert(github, "red") == retained
        assert upsert(github, "green") == StickyText("updated", retained.html_url)
    assert server.request_log()[0] == "GET /user"


def test_duplicate_comments_except_the_oldest_are_deleted(
    server: FakeGitHub, github: GitHub
) -> None:
    for text in ("first", "second", "third"):
        server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", text))
    server.faults.append(Fault(method="DELETE", path="/3", status=404, message="Not Found"))
    assert upsert(github, "first") == StickyText("unchanged", link(1))
    assert server.request_log()[1:] == [f"DELETE {ONE}/2", f"DELETE {ONE}/3"]
    assert 2 not in server.comments


def test_refused_delete_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    for text in ("first", "second"):
        server.add_comment(REPOSITORY, 7, ROBOT, with_marker("tests.yml", text))
    server.faults.append(Fault(method="DELETE", status=401, message="Bad credentials"))
    with pytest.raises(GitHubError, match="answered 401"):
        upsert(github, "green")


@pytest.mark.parametrize("status", [0, 502])
def test_lost_response_creates_no_second_comment(
    server: FakeGitHub, github: GitHub, status: int
) -> None:
    server.faults.append(Fault(method="POST", status=status, done=True))
    assert upsert(github, "green") == StickyText("created", link(1))
    assert len(server.comments) == 1


@pytest.mark.parametrize("status", [0, 502])
def test_lost_request_is_retried_once(server: FakeGitHub, github: GitHub, status: int) -> None:
    server.faults.append(Fault(method="POST", status=status))
    assert upsert(github, "green") == StickyText("created", link(1))
    assert server.request_log()[1:4] == [f"POST {THREAD}", f"GET {THREAD}", f"POST {THREAD}"]


def test_request_lost_twice_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(method="POST", status=502, times=2))
    with pytest.raises(MaybeDone, match="answered 502"):
        upsert(github, "green")
    assert server.comments == {}


def test_token_of_a_fork_cannot_write(server: FakeGitHub, github: GitHub) -> None:
    server.tokens[TOKEN] = Login(may_write=False)
    with pytest.raises(Forbidden, match="Resource not accessible by integration"):
        upsert(github, "green")


def test_longest_comment_is_created(server: FakeGitHub, github: GitHub) -> None:
    room = MAX_CHARS - len(with_marker("tests.yml", ""))
    assert upsert(github, "é" * room).action == "created"


def test_older_run_does_not_overwrite_a_newer_comment(server: FakeGitHub, github: GitHub) -> None:
    assert upsert(github, "of run 12", run=(12, 1)).action == "created"
    assert upsert(github, "of run 11", run=(11, 3)) == StickyText("superseded", link(1))
    assert upsert(github, "of its second attempt", run=(12, 2)).action == "updated"
    assert upsert(github, "of its first attempt", run=(12, 1)).action == "superseded"
    assert server.bodies() == [with_marker("tests.yml", "of its second attempt", (12, 2))]


@pytest.mark.parametrize("runs", [(11, 12), (12, 11), (12, 12)])
def test_concurrent_writers_leave_one_comment(server: FakeGitHub, runs: tuple[int, int]) -> None:
    both = threading.Barrier(2, timeout=20)

    def gate(request: Request) -> None:
        if request.method == "POST":
            both.wait()  # so that each has read an empty thread before either writes

    server.gate = gate

    def write(run: int) -> StickyText:
        with GitHub(server.address, SecretStr(TOKEN), timeout_s=20.0) as github:
            return upsert(github, f"of run {run}", run=(run, 1))

    with ThreadPoolExecutor(2) as writers:
        done = list(writers.map(write, runs))
    assert server.request_log().count(f"POST {THREAD}") == 2
    assert server.bodies() == [with_marker("tests.yml", "of run 12", (12, 1))]
    assert {one.action for one in done} <= {"created", "updated", "unchanged", "superseded"}


def test_comment_deleted_during_the_update_is_searched_again(
    server: FakeGitHub, github: GitHub
) -> None:
    upsert(github, "of run 11", run=(11, 1))
    server.faults.append(Fault(method="PATCH", status=404, message="Not Found"))
    assert upsert(github, "of run 12", run=(12, 1)) == StickyText("updated", link(1))


@given(st.text(), st.text())
def test_no_key_closes_the_html_comment(key: str, other: str) -> None:
    marker = with_marker(key, "").removesuffix("\n")
    assert re.fullmatch(r"<!-- ciguard:[^<>\r\n]* -->", marker)
    assert MarkdownIt().render(marker).strip() == marker  # hidden: raw HTML, one block
    assert (with_marker(other, "") == with_marker(key, "")) == (other == key)
