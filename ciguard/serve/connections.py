"""Limits of connections, without which slow clients take all files that the process may open."""

from __future__ import annotations

import asyncio
import resource
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
