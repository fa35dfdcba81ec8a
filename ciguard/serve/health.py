"""Whether the process lives (`/healthz`), and whether requests may be sent to it (`/readyz`)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.serve.state.database import has_current_tables

if TYPE_CHECKING:
    from starlette.requests import Request

    from ciguard.serve.service import Service


async def healthz(_: Request) -> PlainTextResponse:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> PlainTextResponse:
    """The database can be reached and its tables have our version; else 503."""
    service: Service = request.app.state.service
    if await run_in_threadpool(_has_current_tables, service):
        return PlainTextResponse("ready\n")
    text = "the tables of the database are of another version\n"
    return PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)


def _has_current_tables(service: Service) -> bool:
    with service.database.read() as connection:
        return has_current_tables(connection)


ROUTES: Final = (Route("/healthz", healthz), Route("/readyz", readyz))
