"""The fake GitHub itself: it must be able to be wrong, and to run as a program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import fakegithub.server
import pytest
from fakegithub.conformance import mistakes
from fakegithub.state import Fault, Login
from pydantic import SecretStr
from run.leg_runner import until

from ciguard.github.api_errors import Forbidden, GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import Text
from ciguard.report.sticky_texts import upsert_comment, with_marker

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub

REPOSITORY = "octo-org/shop"
THREAD = f"/repos/{REPOSITORY}/issues/7/comments"


def make_all_requests(server: FakeGitHub, github: GitHub) -> None:
    """Make every kind of request, and get every kind of answer that the server can give."""
    first = github.post(Text, THREAD, {"body": "one"})
    github.post(Text, THREAD, {"body": "two"})
    github.items(Text, THREAD)
    path = f"/repos/{REPOSITORY}/issues/comments/{first.id}"
    github.item(Text, path)
    github.patch(Text, path, {"body": "three"})
    github.delete(path)
    for call in (lambda: github.item(Text, path), lambda: github.delete(path)):
        with pytest.raises(GitHubError):
            call()
    with pytest.raises(GitHubError):
        github.post(Text, THREAD, {"body": "x" * 65_537})
    server.faults.append(Fault(status=403, message="Resource not accessible by integration"))
    with pytest.raises(Forbidden):
        github.post(Text, THREAD, {"body": "four"})


def test_fake_server_conforms_to_the_openapi_description(
    server: FakeGitHub, github: GitHub
) -> None:
    make_all_requests(server, github)
    assert mistakes(server.exchanges) == []
    assert {one.answer.status for one in server.exchanges} == {200, 201, 204, 403, 404, 422}


def test_nonconforming_exchanges_are_detected(server: FakeGitHub, github: GitHub) -> None:
    github.post(Text, THREAD, {"body": "one"})
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


def test_fake_server_program_writes_port_and_comments(tmp_path: Path) -> None:
    port_file, state_file = tmp_path / "port", tmp_path / "comments.json"
    program = [sys.executable, str(Path(fakegithub.server.__file__))]
    program += ["--port-file", str(port_file), "--state-file", str(state_file)]
    program += ["--repository", REPOSITORY, "--pull-request", "7", "--token", "from-the-workflow"]
    with subprocess.Popen(program) as process:
        try:
            until(port_file.exists, what="it listens", timeout_s=30.0)
            assert json.loads(state_file.read_text()) == []
            address = f"http://127.0.0.1:{port_file.read_text()}"
            with GitHub(address, SecretStr("from-the-workflow")) as github:
                for body, action in (("red", "created"), ("green", "updated")):
                    stored = upsert_comment(github, REPOSITORY, 7, key="tests.yml", body=body)
                    assert stored.action == action
                    (comment,) = json.loads(state_file.read_text())
                    assert comment["body"] == with_marker("tests.yml", body)
                    assert comment["user"]["login"] == Login().name
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
