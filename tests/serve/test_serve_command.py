"""`ciguard serve` as real processes on loopback, with a fake GitHub: from webhook to comment."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from conftest import Ciguard, clean_environment
from fakegithub.apps import APP_ID, SLUG, FakeRepository, add_app, private_key_pem
from fakegithub.deliveries import PATH, WEBHOOK_SECRET, workflow_run
from fakegithub.server import serving
from fakegithub.state import FakeGitHub
from guard.fixtures import World
from run.leg_runner import until
from serve.fake_runs import (
    HEAD,
    REPOSITORY,
    failing_world,
    of_pull_request,
    open_pull_request,
    upload,
)
from serve.web_process import free_port

from ciguard.cli import VERBS
from ciguard.errors import UsageError
from ciguard.history.file import decode
from ciguard.serve.command import LineFormatter, command
from ciguard.serve.web_process import listen

PATIENCE_S = 120.0
# Of the webhooks, the App's key, its JSON web tokens, and the tokens of its installations.
OF_SERVICE = ("starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "duckdb", "obstore")
SECRETS = (WEBHOOK_SECRET, "PRIVATE KEY", "eyJ", "ghs_")
SHOP = FakeRepository(id=1, full_name=REPOSITORY, private=False)


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    with serving() as github:
        add_app(github).install(SHOP)
        open_pull_request(github)
        yield github


@pytest.fixture
def environ(server: FakeGitHub) -> dict[str, str]:
    return {
        "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "CIGUARD_APP_ID": APP_ID,
        "CIGUARD_APP_KEY": private_key_pem(),
        "GITHUB_API_URL": server.address,
        "NO_PROXY": "*",
    }


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    until(is_so, what=what, timeout_s=PATIENCE_S)


@contextlib.contextmanager
def served(
    folder: Path, environ: dict[str, str], *words: str, **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and its address; the options are those of `Popen`."""
    log = folder / "log.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "ciguard", "serve", "--port", "0", *words],
            cwd=folder,
            env=clean_environment(**environ),
            stderr=stream,
            **options,
        )
    try:
        wait_until(lambda: process.poll() is not None or "listening" in log.read_text(), "start")
        found = re.search(r"listening on (http://\S+)", log.read_text())
        assert found, log.read_text()
        yield process, found[1]
    except AssertionError as error:
        error.add_note(log.read_text())
        raise
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        printed = log.read_text()
        assert [one for one in SECRETS if one in printed] == []


def post(address: str, run_id: int, **facts: Any) -> httpx.Response:
    delivery = workflow_run(SHOP, run_id, **facts)
    return httpx.post(
        address + PATH, content=delivery.body, headers=delivery.headers(), trust_env=False
    )


def test_webhooks_become_a_comment_and_a_history(
    server: FakeGitHub, environ: dict[str, str], tmp_path: Path, ciguard: Ciguard
) -> None:
    upload(server, World().ran_as(6), 6, event="push", head_branch="main")
    upload(server, failing_world(), 7, **of_pull_request())
    port = free_port()
    with served(tmp_path, environ, "--metrics-port", f"{port}") as (_, address):
        ready = f"{address}/readyz"
        wait_until(lambda: httpx.get(ready, trust_env=False).status_code == 200, "not ready")
        assert post(address, 6, head_sha=HEAD).status_code == 202
        history = f"{address}/api/v1/repos/{REPOSITORY}/history"
        wait_until(lambda: httpx.get(history, trust_env=False).status_code == 200, "no history")
        stored = decode(httpx.get(history, trust_env=False).content, "history")
        assert [run.run_id for run in stored.runs] == [6]
        pull = of_pull_request(head_sha=HEAD)
        assert post(address, 7, **pull).status_code == 202
        assert post(address, 7, **pull).status_code == 202
        wait_until(lambda: server.comments, "no comment")
        worker = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        assert worker.status_code == 200
        assert "ciguard_judging_seconds_count " in worker.text
        assert 'ciguard_github_remaining_calls{installation="101"} 4711.0' in worker.text
        web = httpx.get(f"{address}/metrics", trust_env=False).text
        assert "ciguard_intake_seconds_count 3.0" in web
    (comment,) = server.comments.values()
    assert comment["user"]["login"] == f"{SLUG}[bot]"
    assert "### :x: 1 of 8 tests failed" in comment["body"]
    assert "compared with [run 6]" in comment["body"]
    checked = ciguard("serve", "check", cwd=tmp_path)
    assert "16 results, 0 damaged" in checked.stdout
    retried = ciguard("serve", "retry", cwd=tmp_path)
    assert retried.stdout == "0 runs put back on the work list\n"
    made = ciguard("serve", "token", "--repo", REPOSITORY, cwd=tmp_path)
    assert made.stdout.startswith("cgs_")


@pytest.mark.soak
def test_dropped_webhooks_are_found_by_asking_github(
    server: FakeGitHub, environ: dict[str, str], tmp_path: Path
) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    facts = of_pull_request(created_at=now, repository={"id": SHOP.id})
    upload(server, World(), 7, **facts)
    server.runs[0] |= {"run_started_at": now, "updated_at": now}
    with served(tmp_path, environ):
        wait_until(lambda: server.comments, "no comment")
    assert "no sign-in is configured: each user of this" in (tmp_path / "log.txt").read_text()


def test_mistakes_are_named_before_anything_starts(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard("serve", cwd=tmp_path, expect=2)
    assert "CIGUARD_WEBHOOK_SECRET" in done.stderr
    assert "CIGUARD_APP_ID" in done.stderr
    assert not (tmp_path / "ciguard.db").exists()


@pytest.mark.soak
def test_the_log_names_the_settings_of_an_app_that_is_refused(
    environ: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    with served(tmp_path, {**environ, "CIGUARD_APP_ID": "4712"}):
        wait_until(lambda: "Integration not found" in log.read_text(), "no refusal")
    line, *_ = [one for one in log.read_text().splitlines() if "Integration not found" in one]
    assert "check that CIGUARD_APP_ID and CIGUARD_APP_KEY are of the same App" in line


def test_a_record_of_the_log_is_one_line() -> None:
    forged = logging.makeLogRecord({"msg": "GET %s", "args": ("/\n2026-11-26 ERROR x",)})
    text = LineFormatter("%(levelname)s %(message)s").format(forged)
    assert text == "Level None GET /\\n2026-11-26 ERROR x"


def test_service_collects_garbage_for_as_long_as_it_runs() -> None:
    program = (
        "import gc, sys\n"
        "from ciguard import cli\n"
        "sys.argv[1:] = ['serve']\n"
        "try:\n cli.main()\n"
        "except SystemExit as end:\n print(end.code, gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["2", "True"]


@pytest.mark.soak
def test_worker_ends_by_a_signal_while_its_input_is_open(
    environ: dict[str, str], tmp_path: Path
) -> None:
    # A terminal and a service manager signal the worker too, not only the process that feeds it.
    # Its garbage is collected by the clock: a cycle sends the signal.
    program = (
        "import gc, os, signal, sys, weakref\n"
        "from ciguard import cli\n"
        "class Node: pass\n"
        "node = Node()\n"
        "node.itself = node\n"
        "weakref.finalize(node, os.kill, os.getpid(), signal.SIGTERM).atexit = False\n"
        "del node\n"
        "sys.argv[1:] = ['serve', '--role', 'worker', '--end-with-input']\n"
        "try:\n cli.main()\n"
        "except SystemExit as end:\n print(end.code, gc.isenabled())"
    )
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=clean_environment(**environ),
            stdin=reading,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout.split() == ["0", "False"]


def test_other_commands_import_nothing_of_the_service() -> None:
    names = [name for name in VERBS if name != "serve"]
    program = (
        "import importlib, sys\n"
        f"for name in {names}: importlib.import_module(f'ciguard.{{name}}.command')\n"
        f"print([one for one in {OF_SERVICE} if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", [("check",), ("prune",), ("retry",), ("token", "--repo", REPOSITORY)]
)
def test_folder_of_no_service_is_refused(
    tmp_path: Path, ciguard: Ciguard, words: tuple[str, ...]
) -> None:
    done = ciguard("serve", *words, cwd=tmp_path, expect=3)
    assert "no such database" in done.stderr
    assert "in the folder of the service" in done.stderr
    assert not (tmp_path / "ciguard.db").exists()


def test_database_that_cannot_be_opened_is_told_with_what_to_do(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "folder").mkdir()
    done = ciguard("serve", "check", "--database", "sqlite:///folder", cwd=tmp_path, expect=4)
    assert "unable to open database file" in done.stderr
    assert "this user can write to it" in done.stderr


def test_connections_do_not_wait_for_acknowledgements() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_in_use_is_refused() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match="in use") as refused:
            listen("127.0.0.1", port)
    assert refused.value.where == f"--host 127.0.0.1 --port {port}"


def test_each_option_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"port": "9", "role": "web", "metrics_port": "8"}
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    for one in options:
        variable = "CIGUARD_SERVE_" + one.opts[0][2:].replace("-", "_").upper()
        monkeypatch.setenv(variable, texts.get(str(one.name), "a b"))
    given = command.make_context("serve", ["--host", "::1"]).params
    expected = {"port": 9, "role": "web", "metrics_port": 8, "host": "::1"}
    for one in options:
        assert given[one.name] == (("a", "b") if one.multiple else expected.get(one.name, "a b"))
