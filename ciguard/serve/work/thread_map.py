"""Calls a function for each of several values side by side, in a bounded number of threads."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")


def map_in_threads(act: Callable[[T], R], values: Iterable[T], threads: int) -> list[R]:
    """What it gives for each, in the order of the values; the first exception, if there is one.

    A process that ends does not wait for these threads, as it would for those of `concurrent`.
    """
    calls = [(value, Future[R]()) for value in values]
    waiting = deque(calls)

    def work() -> None:
        while True:
            try:
                value, call = waiting.popleft()
            except IndexError:
                return
            try:
                call.set_result(act(value))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                call.set_exception(error)

    for _ in range(min(threads, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    return [call.result() for _, call in calls]
