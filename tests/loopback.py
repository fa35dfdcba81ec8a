"""Servers on this machine: a real uvicorn, and one that answers with any bytes, or none."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from threading import Event, Thread
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp

START_S = 20.0


@contextlib.contextmanager
def serving(
    app: ASGIApp, *, lifespan: Literal["on", "off"] = "off", **options: Any
) -> Iterator[str]:
    """The address of an application while the block runs; the options are uvicorn's."""
    config = uvicorn.Config(
        app, port=0, log_config=None, lifespan=lifespan, proxy_headers=False, **options
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + START_S
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < until
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        server.force_exit = lifespan == "off"  # it would skip the end of the lifespan
        thread.join(START_S)


@contextlib.contextmanager
def answering(parts: Iterable[bytes], pause_s: float = 0.0, *, closes: bool) -> Iterator[str]:
    """The address of a server that sends these bytes to one client, whatever it asks for.

    Args:
        pause_s: before each part.
        closes: end the connection afterwards; else it stays open until the block ends.
    """
    ended = Event()

    def answer() -> None:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                for part in parts:
                    if ended.wait(pause_s):
                        return
                    client.sendall(part)
                if not closes:
                    ended.wait(START_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(START_S)
        thread = Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join(START_S)
