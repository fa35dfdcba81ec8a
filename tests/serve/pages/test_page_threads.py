"""Many readers at once: those beyond the bound are refused, and others do not wait for them."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ciguard.errors import RemoteError
from ciguard.serve.pages.page_threads import MOST_ASKED, THREADS, PageThreads


async def ask(threads: PageThreads, begun: threading.Semaphore, go_on: threading.Event) -> None:
    def respond(_: Request) -> Response:
        begun.release()
        assert go_on.wait(20)
        return Response()

    await threads.answer(respond, Request({"type": "http"}))


async def ask_many() -> None:
    threads, begun, go_on = PageThreads(), threading.Semaphore(0), threading.Event()
    asked = [asyncio.create_task(ask(threads, begun, go_on)) for _ in range(MOST_ASKED)]
    for _ in range(THREADS):
        await asyncio.to_thread(begun.acquire)  # which has a thread of its own
    assert not begun.acquire(blocking=False)
    with pytest.raises(RemoteError, match="at once"):
        await ask(threads, begun, go_on)
    go_on.set()
    await asyncio.gather(*asked)
    await ask(threads, begun, go_on)


def test_pages_beyond_the_bound_are_refused() -> None:
    asyncio.run(ask_many())
