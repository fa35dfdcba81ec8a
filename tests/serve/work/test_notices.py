"""Messages to owners: one when main becomes red with their tests, one when it has recovered."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from fakegithub.actions import TIP
from fakegithub.state import FakeGitHub
from guard.fixtures import World
from loopback import answering, serving
from pydantic import SecretStr
from serve.fake_runs import BY_SERVICE, upload
from serve.work.judging import judge, server, service
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ciguard.render.pages import RunRow
from ciguard.serve.service import Service
from ciguard.serve.state import notices, schema
from ciguard.serve.state.notices import Notice
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.work import notice_sender, notice_view
from ciguard.serve.work.notice_sender import SIGNATURE, send_waiting

__all__ = ["server", "service"]

CONFIGURATION: Final = b"""
[owners]
"a.t" = ["@o/pay"]
"c.t" = ["@web"]
[routes]
"@o/pay" = "pay"
"*" = "issue"
"""
BOTH: Final = ("a.t::two", "c.t::four")


class Receiver:
    """A webhook that keeps what it gets, or refuses it."""

    def __init__(self) -> None:
        self.status = 200
        self.received: list[tuple[str, bytes]] = []

    async def answer(self, request: Request) -> Response:
        if self.status == 200:
            self.received.append((request.headers.get(SIGNATURE, ""), await request.body()))
        return Response(status_code=self.status)

    def events(self) -> list[tuple[str, list[str]]]:
        messages = [json.loads(content) for _, content in self.received]
        return [(message["event"], message["tests"]) for message in messages]


@pytest.fixture
def receiver(service: Service) -> Iterator[tuple[Receiver, Service]]:
    """The webhook `pay` of a service."""
    webhook = Receiver()
    routes = [Route("/{path:path}", webhook.answer, methods=["POST"])]
    with serving(Starlette(routes=routes)) as address:
        routed = {"pay": SecretStr(f"{address}/pay")}
        settings = replace(service.settings, routes=routed, route_secret=SecretStr("of the route"))
        yield webhook, replace(service, settings=settings)


def run_main(
    service: Service,
    github: FakeGitHub,
    tmp_path: Path,
    run: int,
    failed: tuple[str, ...] = (),
    *,
    is_complete: bool = True,
    source: Any = "webhook",
) -> RunRow:
    """Judge a run of main in which tests failed."""
    world = World().ran_as(run)
    for test in failed:
        world.result("01" if test.startswith("a.t") else "02", test, outcome="failed")
    if not is_complete:
        del world.legs["02"]
    upload(github, world, run, event="push", head_branch="main")
    github.runs[0]["head_sha"] = sha = f"{run:x}" * 40
    github.files["ciguard.toml", sha] = BY_SERVICE + CONFIGURATION
    github.merge_bases[f"{TIP}...{sha}"] = sha
    github.behind_by[f"{TIP}...{sha}"] = 20 - run
    for other in range(run):
        github.merge_bases[f"{other:x}" * 40 + f"...{sha}"] = f"{other:x}" * 40
    return judge(service, tmp_path, run, source)


def test_owner_hears_of_red_and_of_recovery_once(
    receiver: tuple[Receiver, Service], server: FakeGitHub, tmp_path: Path
) -> None:
    webhook, service = receiver
    run_main(service, server, tmp_path, 4, BOTH, source="backfill")
    for run, failed in ((5, ()), (6, BOTH), (7, BOTH), (6, ())):
        if run == 6 and not failed:
            judge(service, tmp_path, 6)  # again, after a newer one
        else:
            run_main(service, server, tmp_path, run, failed)
        send_waiting(service)
    assert webhook.events() == [("red", ["a.t::two"])]
    assert [issue["state"] for issue in server.issues.values()] == ["open"]
    run_main(service, server, tmp_path, 8, is_complete=False)
    run_main(service, server, tmp_path, 9, ("c.t::four",))
    send_waiting(service)
    assert webhook.events() == [("red", ["a.t::two"]), ("recovered", [])]
    (issue,) = server.issues.values()
    assert issue["state"] == "open"
    assert "main of octo-org/shop is red: 1 test failed" in issue["title"]
    assert "<code>c.t::four</code>" in issue["body"]
    run_main(service, server, tmp_path, 10)
    send_waiting(service)
    send_waiting(service)
    assert len(webhook.received) == 2
    assert [issue["state"] for issue in server.issues.values()] == ["closed"]
    signature, content = webhook.received[0]
    digest = hmac.new(b"of the route", content, hashlib.sha256).hexdigest()
    assert signature == f"sha256={digest}"
    message = json.loads(content)
    notice = Notice(RunKey(1, 6, 1), "@o/pay", "red", "tests.yml", "issue", message)
    assert notice_view.markdown(notice).endswith("- <code>a.t::two</code>\n\n@o/pay")
    assert message["title"].startswith(
        "main of octo-org/shop is red: 1 test of @o/pay failed, since 6666666666"
    )
    assert (message["owner"], message["run_id"], message["id"]) == ("@o/pay", 6, "1/6/1/@o/pay")


def states(service: Service, **changed: Any) -> list[str]:
    """The states of all messages, by run, after a change of their rows."""
    with service.database.write() as connection:
        if changed:
            connection.execute(sa.update(schema.notice).values(changed))
        query = sa.select(schema.notice.c.state).order_by(schema.notice.c.run_id)
        return list(connection.execute(query).scalars())


def test_message_is_tried_again_only_if_it_surely_did_not_arrive(
    receiver: tuple[Receiver, Service],
    server: FakeGitHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    webhook, service = receiver
    monkeypatch.setattr(notice_sender, "SEND_S", 0.5)
    run_main(service, server, tmp_path, 6, ("a.t::two",))

    def state_after(status: int = 200, **routes: str) -> str:
        states(service, state="waiting", due_at_ms=0)
        webhook.status = status
        secrets = {name: SecretStr(url) for name, url in routes.items()} or service.settings.routes
        send_waiting(replace(service, settings=replace(service.settings, routes=secrets)))
        return states(service)[0]

    expected = dict.fromkeys((429, 503), "waiting") | dict.fromkeys((500, 504, 408), "sent")
    expected |= dict.fromkeys((302, 404), "given_up")
    assert {status: state_after(status) for status in expected} == expected
    assert "given_up: route pay: HTTP 404" in caplog.text
    refused = [state_after(pay="http://h:x"), state_after(pay="h"), state_after(other="http://h")]
    assert refused == ["given_up"] * 3
    assert state_after(pay="http://127.0.0.1:1") == "waiting"
    headers = [b"HTTP/1.1 200 OK\r\n", *[b"a: b\r\n"] * 100]
    with answering(headers, 0.1, closes=False) as address:
        assert state_after(pay=address) == "sent"
    assert "sent: route pay: TimeoutError" in caplog.text
    with monkeypatch.context() as killed:
        killed.setattr(notice_sender, "_post", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            state_after()
    run_main(service, server, tmp_path, 7)
    send_waiting(service)
    assert (webhook.received, states(service, due_at_ms=0)) == ([], ["sending", "waiting"])
    send_waiting(service)
    assert webhook.events() == [("recovered", [])]  # the other might come twice


def test_messages_to_an_owner_keep_their_order(
    receiver: tuple[Receiver, Service], server: FakeGitHub, tmp_path: Path
) -> None:
    webhook, service = receiver
    for run, webhook.status in ((6, 503), (7, 200), (8, 200), (9, 503), (10, 200)):
        run_main(service, server, tmp_path, run, () if run % 2 else BOTH[:1])
        send_waiting(service)
    assert states(service, due_at_ms=0) == ["dropped", "dropped", "sent", "waiting", "waiting"]
    send_waiting(service)
    send_waiting(service)
    assert [event for event, _ in webhook.events()] == ["red", "recovered", "red"]


def test_messages_that_cannot_be_sent_hold_up_no_others(
    receiver: tuple[Receiver, Service], server: FakeGitHub, tmp_path: Path
) -> None:
    webhook, service = receiver
    run = run_main(service, server, tmp_path, 6)
    content = {"repository": "o/r", "branch": "main", "headline": "", "since": None}
    tests = [f"t::{number}" for number in range(150)]
    for number, count, webhook.status in ((7, notice_sender.BATCH, 503), (8, 1, 200)):
        owners = {f"@{number}/{owner}": tests for owner in range(count)}
        later, routes = replace(run, key=RunKey(1, number, 1)), dict.fromkeys(owners, "pay")
        with service.database.write() as connection:
            notices.record(connection, later, owners, routes, content)
        send_waiting(service)
    assert webhook.events() == [("red", tests[:100])]
    assert b"150 tests of @8/0 failed" in webhook.received[0][1]
    webhook.status = 503
    states(service, created_at_ms=1, due_at_ms=0)
    send_waiting(service)
    assert states(service) == ["given_up"] * notice_sender.BATCH + ["sent"]


def test_slack_gets_text_without_links_of_names(
    receiver: tuple[Receiver, Service],
    server: FakeGitHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    webhook, service = receiver
    (address,) = (url.get_secret_value() for url in service.settings.routes.values())
    monkeypatch.setattr(notice_sender, "SLACK", address)
    run_main(service, server, tmp_path, 6, ("a.t::two",))
    send_waiting(service)
    ((_, content),) = webhook.received
    first, *lines = json.loads(content)["text"].splitlines()
    assert first.startswith("main of octo-org/shop is red: 1 test of @o/pay failed")
    assert lines == ["• a.t::two", "<https://github.com/octo-org/shop/actions/runs/6|run>"]
