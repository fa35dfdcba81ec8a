from __future__ import annotations

import time
from dataclasses import replace
from email.utils import formatdate

import pytest
from fakegithub.conformance import mistakes
from fakegithub.fake_clock import noting
from fakegithub.server import serving
from fakegithub.state import (
    PRIMARY_LIMIT,
    READ_ONLY,
    SECONDARY_LIMIT,
    TOKEN,
    FakeGitHub,
    Fault,
    Login,
)
from pydantic import SecretStr

from ciguard.errors import ExitCode, RemoteError, UsageError
from ciguard.github.api_errors import Forbidden, GitHubError, MaybeDone
from ciguard.github.client import GitHub
from ciguard.github.models import Account, Text
from ciguard.github.retry import RetryPolicy

THREAD = "/repos/octo-org/shop/issues/7/comments"
FIRST = "/repos/octo-org/shop/issues/comments/1"
ROBOT = Login()


def fill(server: FakeGitHub, count: int) -> None:
    for number in range(1, count + 1):
        server.add_comment("octo-org/shop", 7, ROBOT, f"comment {number}")


def test_every_request_has_user_agent_and_api_version(server: FakeGitHub, github: GitHub) -> None:
    github.items(Text, THREAD)
    sent = server.exchanges[0].request.headers
    assert sent["accept"] == "application/vnd.github+json"
    assert sent["x-github-api-version"] == "2022-11-28"
    assert sent["authorization"] == f"Bearer {TOKEN}"
    assert sent["user-agent"] == "ciguard"


@pytest.mark.parametrize(("count", "calls"), [(0, 1), (100, 1), (101, 2), (250, 3)])
def test_list_is_read_completely_in_the_fewest_calls(
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


@pytest.mark.parametrize("status", [0, 500, 502, 503])  # 0: the connection breaks
def test_temporary_server_error_is_retried(server: FakeGitHub, github: GitHub, status: int) -> None:
    fill(server, 1)
    server.faults.append(Fault(status=status, text="<html>", times=3))
    assert github.item(Text, FIRST).body == "comment 1"
    assert len(server.exchanges) == 4


def test_persistent_server_error_is_raised(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(status=502, text="<html>bad gateway</html>", times=99))
    with pytest.raises(GitHubError, match="answered 502: Bad Gateway") as caught:
        github.items(Text, THREAD)
    assert len(server.exchanges) == 4
    assert caught.value.exit_code is ExitCode.REMOTE
    assert caught.value.where == f"GET {THREAD}"
    assert "status page" in caught.value.fix


@pytest.mark.parametrize("status", [0, 502])
@pytest.mark.parametrize("done", [True, False])
def test_post_is_not_retried_after_an_unknown_result(
    server: FakeGitHub, github: GitHub, status: int, done: bool
) -> None:
    server.faults.append(Fault(method="POST", status=status, done=done))
    with pytest.raises(MaybeDone):
        github.post(Text, THREAD, {"body": "hello"})
    assert server.request_log() == [f"POST {THREAD}"]
    assert server.bodies() == (["hello"] if done else [])


@pytest.mark.parametrize("status", [0, 500])
def test_idempotent_request_is_retried(server: FakeGitHub, github: GitHub, status: int) -> None:
    fill(server, 1)
    server.faults.append(Fault(method="PATCH", status=status, done=True))
    assert github.patch(Text, FIRST, {"body": "new"}).body == "new"
    assert server.request_log() == [f"PATCH {FIRST}"] * 2


def test_unreachable_server_is_an_error(waits: list[float]) -> None:
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


def test_slow_response_times_out(server: FakeGitHub) -> None:
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
def test_client_waits_for_the_rate_limit(
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


def test_client_waits_until_the_quota_reset(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    quota = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0"}
    quota["X-RateLimit-Reset"] = str(int(time.time()) + 200)
    server.faults.append(Fault(status=403, message=PRIMARY_LIMIT, headers=quota))
    github.items(Text, THREAD)
    assert len(waits) == 1
    assert 0.0 < waits[0] <= 200.0


def test_wait_over_the_time_limit_is_refused_beforehand(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    limit = Fault(status=429, message=SECONDARY_LIMIT, headers={"Retry-After": "200"}, times=9)
    server.faults.append(limit)
    with pytest.raises(GitHubError, match="answered 429: You have exceeded") as caught:
        github.items(Text, THREAD)
    assert waits == [200.0]  # a second one would pass 300 s
    assert "wait 200 s" in caught.value.fix
    assert not isinstance(caught.value, Forbidden)


def test_number_of_attempts_is_limited(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    server.faults.append(Fault(status=429, headers={"Retry-After": "0"}, times=9))
    with pytest.raises(GitHubError, match="answered 429"):
        github.items(Text, THREAD)
    assert len(server.exchanges) == 4
    assert waits == [0.0] * 3


@pytest.mark.parametrize("ahead_s", [-7200, 0, 7200])
def test_rate_limit_wait_uses_the_server_clock(
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


def test_read_only_token_error_names_the_permission(
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


def test_permission_is_named_without_a_header_from_github(
    server: FakeGitHub, github: GitHub
) -> None:
    server.faults.append(Fault(status=403, message=READ_ONLY))
    with pytest.raises(Forbidden) as caught:
        github.items(Text, THREAD)
    assert "pull-requests: write" in caught.value.fix


def test_missing_resource_error_has_its_path(server: FakeGitHub, github: GitHub) -> None:
    other_shard = "/repos/octo-org/shop/issues/8/comments"
    with pytest.raises(GitHubError, match="answered 404: Not Found") as caught:
        github.items(Text, other_shard)
    assert caught.value.status == 404
    assert caught.value.where == f"GET {other_shard}"
    assert "private" in caught.value.fix


def test_wrong_token_is_not_printed(server: FakeGitHub) -> None:
    with (
        GitHub(server.address, SecretStr("ghs_other")) as github,
        pytest.raises(GitHubError, match="answered 401: Bad credentials") as caught,
    ):
        github.items(Text, THREAD)
    assert "ghs_other" not in str(caught.value)
    assert "github.token" in caught.value.fix


def test_body_over_the_limit_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    with pytest.raises(GitHubError, match=r"Body is too long \(maximum is 65536 characters\)"):
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
def test_unexpected_response_is_an_error(
    server: FakeGitHub, github: GitHub, fault: Fault, words: str
) -> None:
    server.faults.append(replace(fault))
    with pytest.raises(GitHubError, match=words) as caught:
        github.items(Text, THREAD)
    assert caught.value.exit_code is ExitCode.REMOTE


def test_redirect_to_another_host_omits_the_token(server: FakeGitHub, github: GitHub) -> None:
    with serving() as storage:
        storage.tokens[""] = Login(name="anybody", may_read_user=True)
        server.faults.append(Fault(status=302, headers={"Location": f"{storage.address}/user"}))
        assert github.item(Account, FIRST).login == "anybody"
        assert "authorization" in server.exchanges[0].request.headers
        assert "authorization" not in storage.exchanges[0].request.headers


def test_next_page_on_another_host_omits_the_token(server: FakeGitHub, github: GitHub) -> None:
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


def test_token_is_in_no_message(server: FakeGitHub, github: GitHub) -> None:
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
def test_invalid_token_is_rejected_without_printing(token: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_TOKEN") as caught:
        GitHub("https://api.github.com", SecretStr(token))
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("address", ["", "api.github.com", "ftp://x", "https://", "http://[::1"])
def test_invalid_api_url_is_rejected(address: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_API_URL"):
        GitHub(address, SecretStr(TOKEN))


def test_nonconforming_exchanges_are_detected(server: FakeGitHub, github: GitHub) -> None:
    github.post(Text, "/repos/octo-org/shop/issues/7/comments", {"body": "one"})
    exchange = server.exchanges[0]
    comment = {**exchange.answer.value, "user": {"login": "incomplete"}}
    invalid = [
        replace(exchange, answer=replace(exchange.answer, value=comment)),
        replace(exchange, answer=replace(exchange.answer, status=418)),
        replace(exchange, request=replace(exchange.request, body=b'{"text": "one"}')),
        replace(exchange, request=replace(exchange.request, path="/repos/octo-org/shop/comments")),
    ]
    for one in invalid:
        assert mistakes([one]), one
