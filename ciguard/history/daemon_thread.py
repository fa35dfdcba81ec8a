"""Work that is left behind where it takes too long.

Timeouts of sockets end no name lookup, and none adds up over an answer that comes byte by byte.
"""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def in_thread(action: Callable[[], T]) -> Future[T]:
    """Start an action; its thread does not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the result
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
