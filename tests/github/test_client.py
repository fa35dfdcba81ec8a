from __future__ import annotations

import time
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from fakegithub.fake_clock import noting
from fakegithub.server import serving
from fakegithub.state import (
    PRIMARY_LIMIT,
    READ_ONLY,
    SECONDARY_LIMIT,
    Fault,
    Login,
)
from pydantic import SecretStr

from ciguard.errors import ExitCode, RemoteError, UsageError
from ciguard.github.api_errors import BodyTooLong, Forbidden, GitHubError, MaybeDone
from ciguard.github.client import GitHub
from ciguard.github.models import Account, Text
from ciguard.github.retry import RetryPolicy

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub

TOKEN = "ghs_TheTokenThatMustStaySecret"
THREAD = "/repos/octo-org/shop/issues/7/comments"
FIRST = "/repos/octo-org/shop/issues/comments/1"
ROBOT = Login()


def fill(server: FakeGitHub, count: int) -> None:
    for number in range(1, count + 1):
        server.add_comment("octo-org/shop", 7, ROBOT, f"comment {number}")


def test_every_request_says_who_asks_and_which_api_is_meant(
    server: FakeGitHub, github: GitHub
) -> None:
    github.items(Text, THREAD)
    sent = server.exchanges[0].request.headers
    assert sent["accept"] == "application/vnd.github+json"
    assert sent["x-github-api-version"] == "2022-11-28"
    assert sent["authorization"] == f"Bearer {TOKEN}"
    assert sent["user-agent"] == "ciguard"


@pytest.mark.parametrize(("count", "calls"), [(0, 1), (100, 1), (101, 2), (250, 3)])
def test_a_list_is_read_to_its_end_in_the_fewest_calls(
    server: FakeGitHub, github: GitHub, count: int, calls: int
) -> None:
    fill(server, count)
    found = github.items(Text, THREAD)
    assert [one.body for one in found] == [f"comment {n}" for n in range(1, count + 1)]
    assert server.request_log() == [f"GET {THREAD}"] * calls


def test_an_enterprise_server_has_its_api_under_a_path() -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = ROBOT
        fill(server, 101)
        assert server.address.endswith("/api/v3")
        with GitHub(server.address + "/", SecretStr(TOKEN)) as github:
            assert len(github.items(Text, THREAD)) == 101


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_passing_server_fault_is_not_seen(
    server: FakeGitHub, github: GitHub, status: int
) -> None:
    fill(server, 1)
    server.faults.append(Fault(status=status, text="<html>", times=3))
    assert github.item(Text, FIRST).body == "comment 1"
    assert len(server.exchanges) == 4


def test_a_lasting_server_fault_is_told(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(status=502, text="<html>bad gateway</html>", times=99))
    with pytest.raises(GitHubError, match="answered 502: Bad Gateway") as caught:
        github.items(Text, THREAD)
    assert len(server.exchanges) == 4
    assert caught.value.exit_code is ExitCode.REMOTE
    assert caught.value.where == f"GET {THREAD}"
    assert "status page" in caught.value.fix


def test_a_broken_connection_is_tried_again(server: FakeGitHub, github: GitHub) -> None:
    fill(server, 1)
    server.faults.append(Fault(status=0, times=2))
    assert github.item(Text, FIRST).id == 1
    assert len(server.exchanges) == 3


@pytest.mark.parametrize("status", [0, 502])
@pytest.mark.parametrize("done", [True, False])
def test_a_post_is_never_repeated_blindly(
    server: FakeGitHub, github: GitHub, status: int, done: bool
) -> None:
    server.faults.append(Fault(method="POST", status=status, done=done))
    with pytest.raises(MaybeDone):
        github.post(Text, THREAD, {"body": "hello"})
    assert server.request_log() == [f"POST {THREAD}"]
    assert server.bodies() == (["hello"] if done else [])


@pytest.mark.parametrize("status", [0, 500])
def test_what_gives_the_same_twice_is_repeated(
    server: FakeGitHub, github: GitHub, status: int
) -> None:
    fill(server, 1)
    server.faults.append(Fault(method="PATCH", status=status, done=True))
    assert github.patch(Text, FIRST, {"body": "new"}).body == "new"
    assert server.request_log() == [f"PATCH {FIRST}"] * 2


def test_nobody_there(waits: list[float]) -> None:
    with serving() as server:
        address = server.address
    retry_policy = RetryPolicy(attempts=2, first_s=0.0)
    with (
        GitHub(address, SecretStr(TOKEN), retry_policy=retry_policy, sleep=noting(waits)) as github,
        pytest.raises(GitHubError, match="no answer: ConnectError") as caught,
    ):
        github.post(Text, THREAD, {"body": "hello"})
    assert not isinstance(caught.value, MaybeDone)  # nothing left this machine
    assert "GITHUB_API_URL" in caught.value.fix


def test_an_answer_that_does_not_come_is_not_waited_for(server: FakeGitHub) -> None:
    server.faults.append(Fault(status=200, delay_s=60.0))
    retry_policy = RetryPolicy(attempts=1)
    with (
        GitHub(
            server.address, SecretStr(TOKEN), retry_policy=retry_policy, timeout_s=0.2
        ) as github,
        pytest.raises(GitHubError, match="no answer: ReadTimeout"),
    ):
        github.items(Text, THREAD)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_rate_limit_is_waited_out(
    server: FakeGitHub, github: GitHub, waits: list[float], method: str
) -> None:
    named = Fault(status=403, message=SECONDARY_LIMIT, headers={"Retry-After": "17"})
    server.faults += [named, Fault(status=429, message=SECONDARY_LIMIT)]
    if method == "GET":
        github.items(Text, THREAD)
    else:
        github.post(Text, THREAD, {"body": "hello"})
        assert server.bodies() == ["hello"]
    assert waits == [17.0, 120.0]
    assert server.request_log() == [f"{method} {THREAD}"] * 3


def test_a_spent_quota_is_waited_for_until_its_reset(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    quota = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0"}
    quota["X-RateLimit-Reset"] = str(int(time.time()) + 200)
    server.faults.append(Fault(status=403, message=PRIMARY_LIMIT, headers=quota))
    github.items(Text, THREAD)
    assert len(waits) == 1
    assert 0.0 < waits[0] <= 200.0


def test_patience_ends_before_the_wait_not_after_it(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    limit = Fault(status=429, message=SECONDARY_LIMIT, headers={"Retry-After": "200"}, times=9)
    server.faults.append(limit)
    with pytest.raises(GitHubError, match="answered 429: You have exceeded") as caught:
        github.items(Text, THREAD)
    assert waits == [200.0]  # a second one would pass 300 s
    assert "wait 200 s" in caught.value.fix
    assert not isinstance(caught.value, Forbidden)


def test_patience_counts_attempts_too(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    server.faults.append(Fault(status=429, headers={"Retry-After": "0"}, times=9))
    with pytest.raises(GitHubError, match="answered 429"):
        github.items(Text, THREAD)
    assert len(server.exchanges) == 4
    assert waits == [0.0] * 3


@pytest.mark.parametrize("ahead_s", [-7200, 0, 7200])
def test_a_limit_is_waited_out_by_the_clock_of_the_server(
    server: FakeGitHub, github: GitHub, waits: list[float], ahead_s: int
) -> None:
    now_s = int(time.time()) + ahead_s
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(now_s + 40),
        "Date": formatdate(now_s, usegmt=True),
    }
    server.faults.append(Fault(status=403, message=PRIMARY_LIMIT, headers=headers))
    github.items(Text, THREAD)
    assert waits == [40.0]


def test_a_read_only_token_is_told_from_other_refusals(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    server.tokens[TOKEN] = Login(may_write=False)
    with pytest.raises(Forbidden, match=READ_ONLY) as caught:
        github.post(Text, THREAD, {"body": "hello"})
    error = caught.value
    assert str(error).startswith(f"POST {THREAD}: answered 403: {READ_ONLY}\n  fix: ")
    assert "issues: write or pull-requests: write" in error.fix
    assert isinstance(error, RemoteError)
    assert waits == []


def test_the_permission_is_named_even_if_github_does_not(
    server: FakeGitHub, github: GitHub
) -> None:
    server.faults.append(Fault(status=403, message=READ_ONLY))
    with pytest.raises(Forbidden) as caught:
        github.items(Text, THREAD)
    assert "pull-requests: write" in caught.value.fix


def test_what_is_not_there_is_named(server: FakeGitHub, github: GitHub) -> None:
    other_shard = "/repos/octo-org/shop/issues/8/comments"
    with pytest.raises(GitHubError, match="answered 404: Not Found") as caught:
        github.items(Text, other_shard)
    assert caught.value.status == 404
    assert caught.value.where == f"GET {other_shard}"
    assert "private" in caught.value.fix


def test_a_wrong_token_is_not_shown(server: FakeGitHub) -> None:
    with (
        GitHub(server.address, SecretStr("ghs_other")) as github,
        pytest.raises(GitHubError, match="answered 401: Bad credentials") as caught,
    ):
        github.items(Text, THREAD)
    assert "ghs_other" not in str(caught.value)
    assert "github.token" in caught.value.fix


def test_too_long_a_text_is_its_own_error(server: FakeGitHub, github: GitHub) -> None:
    with pytest.raises(BodyTooLong, match=r"Body is too long \(maximum is 65536 characters\)"):
        github.post(Text, THREAD, {"body": "x" * 65_537})


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=200, text="<html>Log in</html>"), "expected"),
        (Fault(status=200, text='{"id": ', content_type="application/json"), "JSONDecodeError"),
        (Fault(status=200, text="null", content_type="application/json"), "expected"),
        (Fault(status=200, text='[{"id": 1}]', content_type="application/json"), "html_url"),
        (Fault(status=200, text="x", content_type="text/x; charset=none"), "LookupError"),
        (Fault(status=422, text="{}", content_type="application/json"), "KeyError"),
        (Fault(status=422, text="[]", content_type="application/json"), "answered 422"),
        (Fault(status=460, text="odd"), "460"),
    ],
)
def test_what_is_not_github_s_answer_is_an_error(
    server: FakeGitHub, github: GitHub, fault: Fault, words: str
) -> None:
    server.faults.append(replace(fault))
    with pytest.raises(GitHubError, match=words) as caught:
        github.items(Text, THREAD)
    assert caught.value.exit_code is ExitCode.REMOTE


def test_a_redirect_elsewhere_is_followed_without_the_token(
    server: FakeGitHub, github: GitHub
) -> None:
    with serving() as storage:
        storage.tokens[""] = Login(name="anybody", may_read_user=True)
        server.faults.append(Fault(status=302, headers={"Location": f"{storage.address}/user"}))
        assert github.item(Account, FIRST).login == "anybody"
        assert "authorization" in server.exchanges[0].request.headers
        assert "authorization" not in storage.exchanges[0].request.headers


def test_a_next_page_elsewhere_is_read_without_the_token(
    server: FakeGitHub, github: GitHub
) -> None:
    with serving() as other:
        other.tokens[""] = Login()
        other.add_comment("octo-org/shop", 7, ROBOT, "elsewhere")
        link = f'<{other.address}{THREAD}>; rel="next"'
        server.faults.append(Fault(status=200, headers={"Link": link}))
        assert [one.body for one in github.items(Text, THREAD)] == ["elsewhere"]
        assert "authorization" not in other.exchanges[0].request.headers


def test_a_write_is_not_redirected(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(status=307, headers={"Location": f"{server.address}{THREAD}"}))
    with pytest.raises(GitHubError, match="answered 307") as caught:
        github.post(Text, THREAD, {"body": "hello"})
    assert "moved" in caught.value.fix
    assert server.bodies() == []


def test_the_token_is_in_no_text(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(status=400, message=f"cannot parse Bearer {TOKEN}"))
    server.faults.append(Fault(status=502, message=f"upstream saw {TOKEN}", times=4))
    texts = [repr(github), str(vars(github)["_connection"].__dict__)]
    for words in ("cannot parse", "upstream saw"):
        with pytest.raises(GitHubError, match=words) as caught:
            github.items(Text, THREAD)
        texts += [str(caught.value), repr(caught.value)]
    assert all(TOKEN not in text for text in texts)
    assert "Bearer ***" in texts[2]


@pytest.mark.parametrize("token", ["", "ghs_x\n", "ghs x", "ghs_é", "ghs_\x00"])
def test_a_token_that_cannot_be_one_is_refused_unseen(token: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_TOKEN") as caught:
        GitHub("https://api.github.com", SecretStr(token))
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("address", ["", "api.github.com", "ftp://x", "https://", "http://[::1"])
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_API_URL"):
        GitHub(address, SecretStr(TOKEN))
