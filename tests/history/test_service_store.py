"""A history behind an address, read from real servers on this machine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from history.git_servers import one
from loopback import answering, serving
from plan.plan_requests import plan_of
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ciguard.errors import InputError, RemoteError
from ciguard.history import file as history_codec
from ciguard.history import service_credentials, service_store
from ciguard.history.service_credentials import credentials, origin_of
from ciguard.history.stores import load_or_explain, open_store
from ciguard.model.service_address import is_safe

PATH = "/api/v1/repos/o/r/history"
HISTORY = history_codec.encode(one(7))
SECRET = "cgs_0123456789abcdef"


@dataclass(frozen=True)
class Service:
    """What a test says is answered, and what was asked."""

    answers: dict[str, Response] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        self.asked.append((str(request.url.query), request.headers.get("authorization", "")))
        return self.answers.get(path, Response(HISTORY))


SERVICE = Service()


ANSWER_S = service_store.ANSWER_S


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are enough for a service, and not for a machine that runs all tests at once."""
    monkeypatch.setattr(service_store, "ANSWER_S", 30.0)
    monkeypatch.setattr(service_credentials, "REQUEST_S", 30.0)


@pytest.fixture
def service() -> Service:
    SERVICE.answers.clear()
    SERVICE.asked.clear()
    return SERVICE


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Starlette(routes=[Route("/{path:path}", SERVICE.answer)])) as base:
        yield base


def read(address: str, environ: Mapping[str, str] = {}) -> bytes | None:  # never changed
    return open_store(address, None, environ).read().content  # type: ignore[arg-type]  # no folder


def plan_with(ciguard: Ciguard, folder: Path, history: str, **environ: Any) -> dict[str, Any]:
    (folder / "units.txt").write_text("test_a.py::test_1\n")
    words = ("plan", "--inventory", "units.txt", "--shards", "1", "--format", "json")
    done = ciguard(*words, "--history", history, cwd=folder, **environ)
    assert SECRET not in done.stdout + done.stderr
    return plan_of(done.stdout)


def test_plan_is_made_of_the_history_of_a_service(
    service: Service, address: str, tmp_path: Path, ciguard: Ciguard
) -> None:
    def plan() -> dict[str, Any]:
        return plan_with(ciguard, tmp_path, address + PATH, CIGUARD_HISTORY_TOKEN=SECRET)

    assert plan()["history"]["runs"] == 1
    assert service.asked == [("", f"Bearer {SECRET}")]
    service.answers[PATH] = Response(status_code=204)
    assert plan()["warnings"][0]["kind"] == "history_missing"
    service.answers[PATH] = JSONResponse({"detail": "none"}, 503)
    assert plan()["warnings"][0]["kind"] == "history_unusable"
    service.answers[PATH] = Response(HISTORY[:-1])
    assert "ciguard serve check --repair" in str(plan()["warnings"])


def test_copy_of_a_history_says_what_the_original_did(
    service: Service, address: str, tmp_path: Path, ciguard: Ciguard
) -> None:
    """The plan has no token, and yet the history, or the reason why there is none."""
    token: Any = {"CIGUARD_HISTORY_TOKEN": SECRET}

    def plan() -> dict[str, Any]:
        words = ("fetch", "copy", "--history", address + PATH)
        ciguard("history", *words, cwd=tmp_path, **token)
        asked = len(service.asked)
        direct = plan_with(ciguard, tmp_path, address + PATH, **token)
        again = len(service.asked)
        copied = plan_with(ciguard, tmp_path, "copy:copy")
        assert asked < again == len(service.asked), "of the copy nobody is asked"
        assert SECRET.encode() not in b"".join(one.read_bytes() for one in tmp_path.rglob("*.*"))
        assert copied == direct
        return copied

    assert plan()["history"]["runs"] == 1
    service.answers[PATH] = Response(HISTORY[:-1])
    assert "ciguard serve check --repair" in str(plan()["warnings"])
    service.answers[PATH] = JSONResponse({"detail": "none"}, 503)
    assert plan()["warnings"][0]["kind"] == "history_unusable"
    service.answers[PATH] = Response(status_code=204)
    assert plan()["warnings"][0]["kind"] == "history_missing"
    never = plan_with(ciguard, tmp_path, "copy:never")
    assert "nothing was copied there" in str(never["warnings"])


def test_token_goes_with_the_request_and_into_no_error(service: Service, address: str) -> None:
    environ = {"CIGUARD_HISTORY_TOKEN": f"{SECRET}\n"}
    assert read(address + PATH, environ) == HISTORY
    assert service.asked == [("", f"Bearer {SECRET}")]
    detail = f"the token {SECRET} is revoked"
    for status, expected in ((401, "refuses the token (the token *** is revoked)"), (500, "500")):
        service.answers[PATH] = JSONResponse({"detail": detail}, status)
        with pytest.raises(RemoteError) as raised:
            read(address + PATH, environ)
        assert expected in str(raised.value)
        assert SECRET not in str(raised.value) + repr(open_store(address, None, environ))  # type: ignore[arg-type]


def test_oidc_token_of_the_job_comes_first_and_is_for_the_service(
    service: Service, address: str
) -> None:
    service.answers["/token"] = JSONResponse({"value": "header.claims.signature", "count": 1})
    environ = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{address}/token?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
        "CIGUARD_HISTORY_TOKEN": SECRET,
    }
    assert read(address + PATH, environ) == HISTORY
    quoted = address.replace(":", "%3A").replace("/", "%2F")
    assert service.asked[0] == (f"api-version=2.0&audience={quoted}", "Bearer runner")
    assert service.asked[1] == ("", "Bearer header.claims.signature")


@pytest.mark.parametrize(
    "answer",
    [
        Response("no", 500),
        Response("no JSON"),
        JSONResponse({"count": 0}),
        JSONResponse([]),
        JSONResponse({"value": 5}),
        JSONResponse({"value": "two lines\n"}),
    ],
)
def test_without_an_oidc_token_the_next_one_is_used(
    service: Service, address: str, answer: Response
) -> None:
    service.answers["/token"] = answer
    service.answers[PATH] = JSONResponse({"detail": "?"}, 404)
    environ = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{address}/token?secret=1",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
        "CIGUARD_HISTORY_TOKEN": SECRET,
    }
    with pytest.raises(RemoteError, match="GitHub gave no OIDC token") as raised:
        read(address + PATH, environ)
    assert service.asked[1] == ("", f"Bearer {SECRET}")
    assert not {"runner", "secret=1", SECRET} & set(str(raised.value).split())


def test_answer_of_too_many_bytes_is_given_up(
    service: Service, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_store, "MAX_BYTES", 1 << 20)
    service.answers[PATH] = Response(bytes((1 << 20) + 1))
    with pytest.raises(RemoteError, match="more than 1 MiB"):
        read(address + PATH)


@pytest.mark.parametrize(
    "token", ["sec\nret", "secr\u00e9t", "sec ret", "secret\0", "\udcffsecret"]
)
def test_text_that_is_no_token_is_not_sent_and_not_shown(
    service: Service, address: str, token: str
) -> None:
    assert read(address + PATH, {"CIGUARD_HISTORY_TOKEN": token}) == HISTORY
    assert service.asked == [("", "")]
    service.answers[PATH] = Response(status_code=404)
    with pytest.raises(RemoteError, match="CIGUARD_HISTORY_TOKEN is not a token") as raised:
        read(address + PATH, {"CIGUARD_HISTORY_TOKEN": token})
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (JSONResponse({"detail": "expired"}, 401), "CIGUARD_HISTORY_TOKEN"),
        (JSONResponse({"detail": "no such repository"}, 404), "`permissions: id-token: write`"),
        (JSONResponse({"detail": "disk full"}, 503), "HTTP 503 (disk full)"),
        (Response("<html>" * 1000, 502), "HTTP 502"),
        (Response(b"[" * 5000, 500), "HTTP 500"),
        (JSONResponse(["detail"], 500), "HTTP 500"),
    ],
)
def test_refusal_says_what_to_do(
    service: Service, address: str, answer: Response, expected: str
) -> None:
    service.answers[PATH] = answer
    with pytest.raises(RemoteError) as raised:
        read(address + PATH)
    assert expected in str(raised.value)
    assert address + PATH in str(raised.value)


def test_redirect_is_not_followed(service: Service, address: str) -> None:
    service.answers[PATH] = RedirectResponse(f"{address}/elsewhere", 302)
    with pytest.raises(RemoteError, match=r"redirects \(HTTP 302\), which is not"):
        read(address + PATH, {"CIGUARD_HISTORY_TOKEN": SECRET})
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "address",
    [
        "http://ciguard.example/api/v1/repos/o/r/history",
        "https:",
        "https://",
        "https://[::1/history",
        "https://host:port/history",
        "https://user:pass@host/history",
        "http://127.0.0.1@evil.example/history",
        "http://localhost.evil.example/history",
    ],
)
def test_no_secret_is_sent_to_such_an_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="https address of a history") as raised:
        read(address, {"CIGUARD_HISTORY_TOKEN": SECRET})
    assert "pass" not in str(raised.value)
    problem = load_or_explain(address, tmp_path, {}, "going on").problem
    assert "going on" in problem
    assert "pass" not in problem


def test_audience_is_the_origin_of_the_address() -> None:
    assert origin_of("https://Host.Example:443/api/v1?x#y") == "https://host.example"
    assert origin_of("https://host.example:8443/") == "https://host.example:8443"
    assert origin_of("http://[::1]:80/x") == "http://[::1]"
    assert is_safe("http://[::1]:8080/x")
    assert is_safe("http://localhost/x")
    environ = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": "http://github.example/token",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
    }
    assert "no https address" in credentials(environ, "https://host.example").problem


OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
DRIP = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(100))


@pytest.mark.parametrize(
    ("parts", "pause_s", "closes", "expected"),
    [
        ([], 0.0, True, "disconnected"),
        ([OK_HEAD + b"ciguard-history"], 0.0, True, "closed connection"),
        ([b"no HTTP at all\r\n\r\n"], 0.0, True, "illegal status line"),
        ([], 0.0, False, "no answer within 2 s"),
        ([bytes([byte]) for byte in DRIP], 0.05, False, "no answer within 0.3 s"),
        ([OK_HEAD, *itertools.repeat(b"x", 500)], 0.01, False, "not all of it within 0.4 s"),
    ],
    ids=["nothing", "cut", "nonsense", "hangs", "slow head", "slow body"],
)
def test_client_goes_on_without_a_broken_service(
    parts: list[bytes], pause_s: float, closes: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "no answer" in expected:  # a busy machine may need longer for the others
        monkeypatch.setattr(service_store, "ANSWER_S", 0.3 if parts else ANSWER_S)
    monkeypatch.setattr(service_store, "DOWNLOAD_S", 0.4)
    with answering(parts, pause_s, closes=closes) as address:
        start = time.monotonic()
        with pytest.raises(RemoteError) as raised:
            read(address + PATH)
        took_s = time.monotonic() - start
    assert expected in str(raised.value)
    assert took_s < 5
