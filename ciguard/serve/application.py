"""The web application of the service: the routes of all parts, health checks and middleware."""

from __future__ import annotations

import contextlib
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.serve import operation_metrics
from ciguard.serve.api.routes import MEDIA_TYPE, routes
from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.middleware import BodyLimit, ErrorResponses, SecurityHeaders
from ciguard.serve.pages import page_routes
from ciguard.serve.pages.page_routes import PageThreads
from ciguard.serve.state.database import has_current_tables
from ciguard.serve.webhooks import intake
from ciguard.serve.webhooks.effects import apply_deliveries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from ciguard.serve.results.read_model import ReadModel
    from ciguard.serve.service import Service


GZIP_LEVEL: Final = 5  # 72 KB of a run become 6.2 KB in 0.5 ms; with 9, 5.7 KB in 0.8 ms
COMPRESSED: Final = (*DEFAULT_EXCLUDED_CONTENT_TYPES, MEDIA_TYPE)  # as a history is


async def healthz(_: Request) -> PlainTextResponse:
    """Answer while the process lives."""
    return PlainTextResponse("ok\n")


def readyz(request: Request) -> PlainTextResponse:
    """Answer 200 if the database can be reached and its tables have our version; else 503."""
    service: Service = request.app.state.service
    with service.database.read() as connection:
        is_ready = has_current_tables(connection)
    if is_ready:
        return PlainTextResponse("ready\n")
    text = "the tables of the database are of another version\n"
    return PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)


HEALTH: Final = (Route("/healthz", healthz), Route("/readyz", readyz))


def build_application(service: Service, read_model: ReadModel | None = None) -> Starlette:
    """Join the routes of all parts; handlers find the service as `request.app.state.service`.

    Args:
        read_model: answers questions of pages about results; None for an application without pages.
    """

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        write = partial(apply_deliveries, service.database)
        with contextlib.closing(BatchWriter(write)) as writer:
            application.state.delivery_writer = writer
            yield

    application = Starlette(
        # The routes of the pages come last: they end with a route for all other addresses.
        routes=[
            *(*HEALTH, *operation_metrics.ROUTES, *intake.ROUTES),
            *(*routes(service), *page_routes.ROUTES),
        ],
        middleware=[
            Middleware(SecurityHeaders, is_https=service.settings.public_url.startswith("https:")),
            Middleware(GZipMiddleware, compresslevel=GZIP_LEVEL, exclude_content_types=COMPRESSED),
            Middleware(ErrorResponses),
            Middleware(BodyLimit, paths={intake.PATH: intake.BODY_BYTES}),
        ],
        lifespan=lifespan,
    )
    application.state.service = service
    application.state.read_model = read_model
    application.state.page_threads = PageThreads()
    return application
