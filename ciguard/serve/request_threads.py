"""Threads that answer requests; a store that does not answer blocks only its own requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from starlette.requests import Request

from ciguard.errors import RemoteError

T = TypeVar("T")
THREADS: Final = 8  # of pages
MAX_PENDING: Final = 64  # 50 pages with a hundred thousand results are answered in a second
DEADLINE_S: Final = 3.0
LATE: Final = (
    "The database, the results or GitHub did not answer in time. Try again later.\n"
    "The lists of repositories, runs and work need no results."
)


class Late(RemoteError):
    """A request is given up; `what` is for its sender."""


class RequestThreads:
    """Threads for requests that need the same stores.

    A request that is given up keeps its thread until its store answers or fails. Without a free
    thread, further requests are given up at once.
    """

    def __init__(
        self, threads: int, max_pending: int = MAX_PENDING, deadline_s: float | None = None
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "request")
        self._threads, self._max_pending, self._deadline_s = threads, max_pending, deadline_s
        self._pending = 0
        self._kept: list[Future[Any]] = []

    async def answer(self, respond: Callable[..., T], *values: Any) -> T:
        """Call `respond` in a thread.

        Raises:
            Late: it takes longer than the deadline, or all threads are kept.
            RemoteError: too many requests are pending.
        """
        self._kept = [call for call in self._kept if not call.done()]
        if len(self._kept) == self._threads:
            raise Late(LATE)
        if self._pending >= self._max_pending:
            raise RemoteError(f"more than {self._max_pending} requests at once")
        self._pending += 1
        try:
            call = self._pool.submit(respond, *values)
            future = asyncio.wrap_future(call)
            await asyncio.wait({future}, timeout=self._deadline_s or DEADLINE_S)
        finally:
            self._pending -= 1
        if future.done():
            return future.result()
        future.cancel()  # otherwise asyncio logs an exception that comes later
        if not call.cancel():
            self._kept.append(call)
        raise Late(LATE)


async def answer_in(request: Request, threads: str, respond: Callable[..., T], *values: Any) -> T:
    """Call `respond` in threads of the application; raises as `RequestThreads.answer`."""
    chosen: RequestThreads = request.app.state.threads[threads]
    return await chosen.answer(respond, *values)
