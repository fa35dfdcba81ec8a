"""What surrounds every request: health, headers of security, and errors that tell nothing."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, workflow_run
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.errors import RemoteError
from ciguard.serve.application import BODY_BYTES, BodyLimit, ErrorResponses, SecurityHeaders
from ciguard.serve.service import Service


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only: no statement here is of one engine."""
    return f"sqlite:///{tmp_path / 'ciguard.db'}"


def test_health(client: httpx.Client) -> None:
    for path, text in (("/healthz", "ok\n"), ("/readyz", "database: ready\nresults: ready\n")):
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (200, text)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in answer.headers


def test_tables_of_another_version_are_not_ready(service: Service, client: httpx.Client) -> None:
    with service.database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "database: away\nresults: ready\n")
    assert client.get("/healthz").status_code == 200


def test_full_disk_is_503_and_nothing_is_half_written(
    service: Service, client: httpx.Client
) -> None:
    engine = service.database.engine
    limits = iter([1, 1 << 30])

    def limit(connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count={next(limits)}")

    def fill(run: int) -> int:
        delivery = workflow_run(FakeRepository(12, "octo-org/api"), run, head_branch="x" * 400)
        return client.post(PATH, content=delivery.body, headers=delivery.headers()).status_code

    engine.dispose()
    sa.event.listen(engine, "connect", limit)
    answers = list(itertools.takewhile(lambda answer: answer == 202, map(fill, range(1, 100))))
    assert len(answers) < 99
    assert fill(100) == 503
    engine.dispose()
    with service.database.read() as connection:
        for table in ("delivery", "work"):
            query = sa.select(sa.func.count()).select_from(sa.table(table))
            assert connection.execute(query).scalar_one() == len(answers)
    assert fill(101) == 202


def answers_of(
    *contents: bytes, error: Exception | None = None, is_https: bool = False, waiting: int = 1
) -> list[httpx.Response]:
    """What a handler that raises, or answers with what it was sent, comes to.

    Args:
        waiting: requests that wait for one another before they are answered.
    """
    barrier = asyncio.Barrier(waiting)

    async def handle(request: Request) -> PlainTextResponse:
        body = await request.body()
        await barrier.wait()
        if error is not None:
            raise error
        return PlainTextResponse(body, headers={"Cache-Control": "private"})

    middleware = [
        Middleware(SecurityHeaders, is_https=is_https),
        Middleware(ErrorResponses),
        Middleware(BodyLimit, paths={}, total_bytes=BODY_BYTES + 9),
    ]
    application = Starlette(routes=[Route("/", handle, methods=["POST"])], middleware=middleware)

    async def call() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(*(client.post("/", content=one) for one in contents))

    return asyncio.run(call())


def test_bug_is_500_without_details_and_its_traceback_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (answer,) = answers_of(b"", error=ZeroDivisionError("the inside"))
    assert answer.status_code == 500
    assert "inside" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"
    assert "ZeroDivisionError: the inside" in caplog.text


def test_unreachable_store_is_503_without_details(caplog: pytest.LogCaptureFixture) -> None:
    error = RemoteError("connection refused", where="db.internal:5432")
    (answer,) = answers_of(b"", error=error)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "30"
    assert "internal" not in answer.text
    assert "db.internal:5432: connection refused" in caplog.text


def test_body_over_the_limit_is_413() -> None:
    allowed, longer = answers_of(b"x" * BODY_BYTES), answers_of(b"x" * (BODY_BYTES + 1))
    assert (allowed[0].status_code, longer[0].status_code) == (200, 413)


def test_bodies_that_are_too_large_together_are_503() -> None:
    large = b"x" * (BODY_BYTES - 1)
    answers = answers_of(large, b"x", large, waiting=2)
    assert sorted(one.status_code for one in answers) == [200, 200, 503]


def test_headers_that_a_handler_sets_stay() -> None:
    (answer,) = answers_of(b"", is_https=True)
    assert answer.headers["cache-control"] == "private"
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
