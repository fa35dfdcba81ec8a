"""Slow clients and many clients: each has its time, and all together their number."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from loopback import serving
from serve.test_serve_command import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.serve.web_process import ARRIVAL_S, TimedProtocol

TIME_S = 0.3
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


async def answer_late(request: Request) -> PlainTextResponse:
    await request.body()
    await asyncio.sleep(3 * TIME_S)
    return PlainTextResponse("late\n")


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        ((b"GET / HT",), 0),
        ((*(bytes([byte]) for byte in WHOLE[:-1]),), 0),  # a byte does not start its time again
        ((POST, b"half"), 0),
        ((WHOLE[:9], WHOLE[9:]), 1),
        ((POST, b"all of it"), 1),
        ((WHOLE, WHOLE[:9]), 1),
    ],
)
def test_request_that_does_not_arrive_in_time_ends_its_connection(
    sent: tuple[bytes, ...], answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ARRIVAL_S:
        monkeypatch.setitem(ARRIVAL_S, part, TIME_S)
    application = Starlette(routes=[Route("/", answer_late, methods=["GET", "POST"])])
    received, began_s = b"", time.monotonic()
    with (
        serving(application, http=partial(TimedProtocol, {}), timeout_keep_alive=1) as address,
        connected(address) as client,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
    ):
        for chunk in sent:
            client.sendall(chunk)
            if len(sent) > 2:
                time.sleep(TIME_S / 20)
        while chunk := client.recv(1 << 16):
            received += chunk
    assert time.monotonic() - began_s >= TIME_S
    assert received.count(b"late") == answers


@pytest.mark.parametrize(
    ("files", "clients", "limit_s"),
    [(512, 300, 20.0), pytest.param(1024, 1100, 1.0, marks=pytest.mark.soak)],
)
def test_half_open_connections_keep_no_other_out(
    tmp_path: Path, files: int, clients: int, limit_s: float
) -> None:
    environ = {"CIGUARD_WEBHOOK_SECRET": "s"}
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    with (
        served(tmp_path, environ, "--role", "web", preexec_fn=limit) as (_, address),
        contextlib.ExitStack() as stack,
    ):
        for _ in range(clients):
            client = stack.enter_context(connected(address))
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                client.sendall(b"GET / HTTP/1.1\r\nX-")
        for path in ("/healthz", "/", "/readyz") * 5:
            began_s = time.monotonic()
            assert httpx.get(address + path, trust_env=False, timeout=60).status_code == 200
            assert time.monotonic() - began_s < limit_s
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("ciguard serve: ")] == []


def test_log_goes_on_without_a_free_descriptor() -> None:
    program = (
        "import logging, os, resource\n"
        "from ciguard.serve.command import _start_logging\n"
        "_start_logging()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n    os.open('/', os.O_RDONLY)\n"
        "except OSError:\n    logging.exception('two\\nlines \\u202e')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "ERROR root: two\\nlines \\u202e\nTraceback" in done.stderr
    assert done.stderr.endswith("OSError: [Errno 24] Too many open files: '/'\n")
    assert "Logging error" not in done.stderr
