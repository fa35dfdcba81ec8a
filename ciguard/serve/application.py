"""The web application of the service: which path goes where, and what surrounds all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware

from ciguard.serve import health, operation_metrics
from ciguard.serve.api.routes import routes
from ciguard.serve.middleware import BodyLimit, ErrorResponses, SecurityHeaders
from ciguard.serve.operation_metrics import CountRequests, RequestCounts
from ciguard.serve.pages import page_routes
from ciguard.serve.pages.page_threads import PageThreads
from ciguard.serve.webhooks import intake
from ciguard.serve.webhooks.batch_writer import BatchWriter
from ciguard.serve.webhooks.effects import apply_deliveries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ciguard.serve.results.read_model import ReadModel
    from ciguard.serve.service import Service


def build_application(service: Service, read_model: ReadModel | None = None) -> Starlette:
    """Routes of all parts; handlers find the service as `request.app.state.service`.

    Args:
        read_model: what the pages ask of results; None where no page is asked for.
    """

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        with BatchWriter(service.database, apply_deliveries) as writer:
            application.state.delivery_writer = writer
            yield

    counts = RequestCounts()
    application = Starlette(
        # Each part has its list. That of the pages ends with a route for all that is left.
        routes=[
            *(*health.ROUTES, *operation_metrics.ROUTES, *intake.ROUTES),
            *(*routes(service), *page_routes.ROUTES),
        ],
        middleware=[
            Middleware(CountRequests, counts=counts),
            Middleware(SecurityHeaders, is_https=service.settings.public_url.startswith("https:")),
            Middleware(ErrorResponses),
            Middleware(BodyLimit, paths={intake.PATH: intake.BODY_BYTES}),
        ],
        lifespan=lifespan,
    )
    application.state.service = service
    application.state.read_model = read_model
    application.state.request_counts = counts
    application.state.page_threads = PageThreads()
    return application
