"""The web application of the service: the routes of all parts, health checks and middleware."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.codec.unpack_limits import PUSH_BYTES
from ciguard.errors import RemoteError
from ciguard.serve import operation_metrics
from ciguard.serve.api.routes import MEDIA_TYPE, RECORDS, routes
from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.middleware import BodyLimit, ErrorResponses, SecurityHeaders
from ciguard.serve.objects import NoSuchObject
from ciguard.serve.pages import page_routes
from ciguard.serve.request_threads import THREADS, RequestThreads, answer_in
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.service import Service
from ciguard.serve.state import pauses, repositories
from ciguard.serve.state.database import has_current_tables
from ciguard.serve.webhooks import intake
from ciguard.serve.webhooks.effects import apply_deliveries

LOG: Final = logging.getLogger(__name__)
GZIP_LEVEL: Final = 5  # 72 KB of a run become 6.2 KB in 0.5 ms; with 9, 5.7 KB in 0.8 ms
COMPRESSED: Final = (*DEFAULT_EXCLUDED_CONTENT_TYPES, MEDIA_TYPE)  # as a history is


async def healthz(_: Request) -> PlainTextResponse:
    """Answer while the process lives."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> PlainTextResponse:
    """Answer which store is ready; 503 without the database, which everything else needs."""
    status, text = HTTPStatus.OK, ""
    for name, ask in PROBES.items():
        try:
            note = await answer_in(request, name, ask, request.app.state.service)
            text += f"{name}: ready\n{note}"
        except RemoteError as error:
            LOG.warning("%s: %s", name, error)
            text += f"{name}: away\n"
            if ask is _ask_database:
                status = HTTPStatus.SERVICE_UNAVAILABLE
    return PlainTextResponse(text, status)


def _ask_database(service: Service) -> str:
    with service.database.read() as connection:
        if not has_current_tables(connection):
            raise RemoteError("the tables have another version")
        paused = pauses.current(connection, repositories.ARE_ACTIVE)
    return "GitHub refuses requests for some repositories: see /work\n" if paused else ""


def _ask_results(service: Service) -> str:
    with contextlib.suppress(NoSuchObject):
        service.objects.read("probes/none")
    return ""


PROBES: Final = {"database": _ask_database, "results": _ask_results}
PROBE_S: Final = 0.9
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
            Middleware(BodyLimit, paths={intake.PATH: intake.BODY_BYTES, RECORDS: PUSH_BYTES}),
        ],
        lifespan=lifespan,
    )
    application.state.service = service
    application.state.read_model = read_model
    application.state.threads = {
        "pages": RequestThreads(THREADS),
        "result pages": RequestThreads(THREADS),
        "claims": RequestThreads(16, 1000),
        "objects": RequestThreads(16, 1000),
        **{name: RequestThreads(1, deadline_s=PROBE_S) for name in PROBES},
    }
    return application
