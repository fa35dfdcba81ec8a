"""The threads that answer pages: history, health and webhooks have others, and do not wait."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from ciguard.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

THREADS: Final = 8
MOST_ASKED: Final = 64  # of a page of a hundred thousand results, 50 are answered in a second


class PageThreads:
    """Of one application."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "page")
        self._asked = 0

    async def answer(
        self, respond: Callable[..., Response], request: Request, *values: object
    ) -> Response:
        """Call it in a thread.

        Raises:
            RemoteError: more pages are asked for than the threads answer in seconds.
        """
        if self._asked >= MOST_ASKED:
            raise RemoteError(f"more than {MOST_ASKED} pages are asked for at once")
        self._asked += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, respond, request, *values)
        finally:
            self._asked -= 1
