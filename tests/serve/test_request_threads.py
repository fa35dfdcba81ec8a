"""Many readers at once: those beyond the bound are refused, and late ones are given up."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ciguard.errors import RemoteError
from ciguard.serve.request_threads import LATE, MAX_PENDING, THREADS, Late, RequestThreads


async def ask(threads: RequestThreads, begun: threading.Semaphore, go_on: threading.Event) -> None:
    def respond(_: Request) -> Response:
        begun.release()
        assert go_on.wait(20)
        return Response()

    await threads.answer(respond, Request({"type": "http"}))


async def ask_many() -> None:
    threads, begun, go_on = RequestThreads(THREADS), threading.Semaphore(0), threading.Event()
    asked = [asyncio.create_task(ask(threads, begun, go_on)) for _ in range(MAX_PENDING)]
    for _ in range(THREADS):
        await asyncio.to_thread(begun.acquire)  # which has a thread of its own
    assert not begun.acquire(blocking=False)
    with pytest.raises(RemoteError, match="at once"):
        await ask(threads, begun, go_on)
    go_on.set()
    await asyncio.gather(*asked)
    await ask(threads, begun, go_on)


async def ask_in_vain() -> None:
    threads, begun, go_on = RequestThreads(1, 9, 0.2), threading.Semaphore(0), threading.Event()
    first, second = (asyncio.create_task(ask(threads, begun, go_on)) for _ in range(2))
    for task in (first, second, ask(threads, begun, go_on)):
        with pytest.raises(Late, match=LATE.splitlines()[0]):
            await task
    assert begun.acquire(blocking=False)
    assert not begun.acquire(blocking=False)  # the second waited for the thread, the third did not
    go_on.set()
    while True:
        with contextlib.suppress(Late):  # until the thread is free again
            return await ask(threads, begun, go_on)
        await asyncio.sleep(0.01)


def test_pages_are_given_up_while_their_thread_is_kept() -> None:
    asyncio.run(ask_in_vain())


def test_pages_beyond_the_bound_are_refused() -> None:
    asyncio.run(ask_many())
