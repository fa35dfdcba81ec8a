"""Many readers at once: those beyond the bound are refused, and others do not wait for them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import httpx
import pytest
from serve.pages.conftest import PEER
from serve.pages.filled import SHOP
from starlette.requests import Request
from starlette.responses import Response

from ciguard.errors import RemoteError
from ciguard.serve.application import build_application
from ciguard.serve.pages.page_routes import MAX_PENDING, THREADS, PageThreads

if TYPE_CHECKING:
    from serve.pages.filled import Site
    from starlette.applications import Starlette


async def ask(threads: PageThreads, begun: threading.Semaphore, go_on: threading.Event) -> None:
    def respond(_: Request) -> Response:
        begun.release()
        assert go_on.wait(20)
        return Response()

    await threads.answer(respond, Request({"type": "http"}))


async def ask_many() -> None:
    threads, begun, go_on = PageThreads(), threading.Semaphore(0), threading.Event()
    asked = [asyncio.create_task(ask(threads, begun, go_on)) for _ in range(MAX_PENDING)]
    for _ in range(THREADS):
        await asyncio.to_thread(begun.acquire)  # which has a thread of its own
    assert not begun.acquire(blocking=False)
    with pytest.raises(RemoteError, match="at once"):
        await ask(threads, begun, go_on)
    go_on.set()
    await asyncio.gather(*asked)
    await ask(threads, begun, go_on)


async def ask_others(application: Starlette) -> list[int]:
    threads: PageThreads = application.state.page_threads
    begun, go_on = threading.Semaphore(0), threading.Event()
    busy = [asyncio.create_task(ask(threads, begun, go_on)) for _ in range(THREADS)]
    for _ in range(THREADS):
        await asyncio.to_thread(begun.acquire)
    transport = httpx.ASGITransport(application, client=PEER)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        page = asyncio.create_task(client.get("/"))
        paths = ("/healthz", "/readyz", f"/api/v1/repos/{SHOP.full_name}/history")
        found = [(await client.get(path)).status_code for path in paths]
        assert not page.done()
        go_on.set()
        await asyncio.gather(*busy)
        return [*found, (await page).status_code]


def test_pages_beyond_the_bound_are_refused() -> None:
    asyncio.run(ask_many())


def test_health_and_history_do_not_wait_for_pages(filled: Site) -> None:
    application = build_application(filled.service, filled.results.read)
    assert asyncio.run(ask_others(application)) == [200, 200, 204, 200]
