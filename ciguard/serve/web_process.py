"""The process that answers requests; with `--role all` it starts the one that judges runs.

The child is started again when it ends by itself. It ends with its standard input, and so with this
process, however that ends.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from ciguard.errors import UsageError
from ciguard.serve.application import build_application

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.serve.results.read_model import ReadModel
    from ciguard.serve.service import Service

_LOG: Final = logging.getLogger(__name__)
REQUEST_GRACE_S: Final = 20  # for requests that are being answered when the process is to end
CHILD_GRACE_S: Final = 30.0  # more than the worker process gives its jobs
CHILD_POLL_S: Final = 1.0
FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0


def listen(host: str, port: int) -> socket.socket:
    """Open a socket to serve on. Its connections send each part of an answer at once.

    Raises:
        UsageError: the address is in use, or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        fix = "pass another --host or --port, or stop what uses it"
        where = f"--host {host} --port {port}"
        raise UsageError(error.strerror or str(error), where=where, fix=fix) from error
    # Connections inherit it; asyncio sets it on sockets of its own only. Without it the body of an
    # answer waits until the client has acknowledged the headers, which takes it 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve_web(service: Service, read_model: ReadModel, listening: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT; requests that are being answered are completed."""
    config = uvicorn.Config(
        build_application(service, read_model),
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

    # uvicorn has its own handlers while it runs. It raises what it caught once more for these,
    # and they also catch what comes before it has begun.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=[listening])


@contextlib.contextmanager
def worker_child(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[None]:
    """Keep a worker process running while the block does.

    Args:
        command: of the worker process, which ends with its standard input.
    """
    stop = threading.Event()
    thread = threading.Thread(
        target=_keep_running, args=(command, environ, stop), name="worker-process"
    )
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
            _end(process)
        if not stop.is_set():
            _LOG.error(
                "the worker process ended with %s; started again in %.0f s",
                process.returncode,
                wait_s,
            )
            stop.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_RESTART_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(CHILD_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
