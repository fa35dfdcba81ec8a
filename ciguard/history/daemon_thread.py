"""Work in a thread that the process does not wait for, so that a caller can limit its time.

Timeouts of sockets limit neither a name lookup nor the sum over an answer that comes byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(action: Callable[[], T]) -> Future[T]:
    """Start an action in a thread that does not delay the end of the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001 - `Future.result` raises it
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
