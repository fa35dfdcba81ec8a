"""The socket of the web process."""

from __future__ import annotations

import socket

import pytest

from ciguard.errors import UsageError
from ciguard.serve.web_process import listen


def test_connections_do_not_wait_for_acknowledgements() -> None:
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_in_use_is_refused() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match="in use") as refused:
            listen("127.0.0.1", port)
    assert refused.value.where == f"--host 127.0.0.1 --port {port}"
