"""The web process, which answers requests; with `--role all` it starts the worker process.

A worker process that ends by itself is started again. It ends at the end of its standard input, and
so with the web process in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ciguard.errors import UsageError
from ciguard.serve.application import build_application
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.service import Service

# By the part of a request that is awaited: its headers, or its body.
ARRIVAL_S: Final = {h11.IDLE: 10.0, h11.SEND_BODY: 60.0}
MAX_CONNECTIONS: Final = 4096


def connection_limit() -> int:
    """Raise the limit of open files as far as allowed; return half of it, for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max(soft, min(hard, 2 * MAX_CONNECTIONS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(files // 2, MAX_CONNECTIONS)


class TimedProtocol(H11Protocol):
    """Closes a connection whose request does not arrive in time, which uvicorn does not.

    At `limit_concurrency`, a new connection closes the one that has waited longest for a request.
    If all have arrived, uvicorn answers the new one with 503.

    Args:
        waiting: timers of all connections of the server that wait, the longest first.
    """

    def __init__(self, waiting: dict[TimedProtocol, asyncio.TimerHandle], **server: Any) -> None:
        super().__init__(**server)
        self._waiting = waiting
        self._part: object = None  # of the request, for which it waits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limit = self.limit_concurrency or MAX_CONNECTIONS
        if len(self.connections) >= limit and self._waiting:
            next(iter(self._waiting)).give_up()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def give_up(self) -> None:
        """Close the connection without an answer."""
        self._stop_timer()
        self.transport.abort()

    def _set_timer(self) -> None:
        part = self.conn.their_state
        if part is not self._part:
            self._stop_timer()
            self._part = part
            if part in ARRIVAL_S:
                self._waiting[self] = self.loop.call_later(ARRIVAL_S[part], self.give_up)

    def _stop_timer(self) -> None:
        if self in self._waiting:
            self._waiting.pop(self).cancel()


_LOG: Final = logging.getLogger(__name__)
REQUEST_GRACE_S: Final = 20  # for current requests at the end of the process
CHILD_GRACE_S: Final = 30.0  # more than the worker process waits for its jobs
CHILD_POLL_S: Final = 1.0
FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0


def listen(host: str, port: int) -> socket.socket:
    """Open a socket to serve on, whose connections send each part of an answer at once.

    Raises:
        UsageError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        fix = "pass another --host or --port, or stop what uses it"
        where = f"--host {host} --port {port}"
        raise UsageError(error.strerror or str(error), where=where, fix=fix) from error
    # Connections inherit TCP_NODELAY; asyncio sets it only on its own sockets. Without it, the body
    # of an answer waits until the client has acknowledged the headers, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve_web(service: Service, read_model: ReadModel, listening: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT, and complete current requests."""
    connections = connection_limit()
    config = uvicorn.Config(
        build_application(service, read_model),
        http=partial(TimedProtocol, {}),  # type: ignore[arg-type]  # called as a class
        limit_concurrency=connections,
        # asyncio accepts so many connections at once, and only then closes others for them.
        backlog=connections // 4,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=REQUEST_GRACE_S,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn has its own handlers while it runs, and then raises a caught signal again for these
    # handlers. They also handle signals before its start.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=[listening])


@contextlib.contextmanager
def worker_child(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[None]:
    """Keep a worker process running until the block ends.

    Args:
        command: command of the worker process, which ends with its standard input.
    """
    stop = threading.Event()
    arguments = (command, environ, stop)
    thread = threading.Thread(target=_keep_running, args=arguments, name="worker-process")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _keep_running(
    command: Sequence[str], environ: Mapping[str, str], stop: threading.Event
) -> None:
    wait_s = FIRST_RESTART_S
    while not stop.is_set():
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(environ)) as process:
            while process.poll() is None and not stop.wait(CHILD_POLL_S):
                pass
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(CHILD_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if not stop.is_set():
            what = "the worker process ended with %s; started again in %.0f s"
            _LOG.error(what, process.returncode, wait_s)
            stop.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_RESTART_S)
