"""The web application of the service: routes of all parts, health checks, metrics, middleware.

The gauges come from the database, so that every web process reports the same ones; histograms are
of the process. No value names a repository.
Source of the security headers: OWASP, "HTTP Security Response Headers Cheat Sheet".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, get_args

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.engine import Connection
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ciguard import __version__
from ciguard.codec.unpack_limits import PUSH_BYTES
from ciguard.errors import RemoteError
from ciguard.render.pages import VERDICTS
from ciguard.serve import webhooks
from ciguard.serve.api.routes import MEDIA_TYPE, RECORDS, problem, routes
from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.objects import NoSuchObject
from ciguard.serve.pages import page_routes
from ciguard.serve.pages.page_formats import error_page
from ciguard.serve.pages.page_routes import no_page_endpoint
from ciguard.serve.pages.viewers import FORWARDED, is_from
from ciguard.serve.request_threads import THREADS, Late, RequestThreads, answer_in
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.service import Service
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.database import DAY_S, after_ms, has_current_tables
from ciguard.serve.state.notices import State
from ciguard.serve.state.run_key import is_same_run
from ciguard.serve.state.work_list import WorkState

RECENT_S: Final = 3600.0
_WORK: Final = schema.work.c
_RUN: Final = schema.run.c
_NOTICE: Final = schema.notice.c


async def metrics(request: Request) -> Response:
    """Answer addresses of `--metrics-from` with the metrics, others with 404.

    Requests through a proxy are refused: the address would be that of the proxy.
    """
    service: Service = request.app.state.service
    is_passed_on = any(name in request.headers for name in FORWARDED)
    if is_passed_on or not is_from(request, service.settings.metrics_from):
        return await no_page_endpoint(request)
    of_database = await answer_in(request, "pages", generate_latest, _DatabaseMetrics(service))
    return Response(of_database + generate_latest(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@dataclass(frozen=True, slots=True)
class _DatabaseMetrics(Collector):
    """The metrics that all processes report alike."""

    service: Service

    def collect(self) -> Iterator[Metric]:
        yield _gauge("build_info", "Version of ciguard.", {__version__: 1}, "version")
        with self.service.database.read() as connection:
            yield from _of_work(connection)
            yield _recent_verdicts(connection)
            yield _notices(connection)


def _of_work(connection: Connection) -> Iterator[Metric]:
    counts, oldest_s = work_list.backlog(connection)
    rows = {state.value: count for state, count in counts.items()}
    text = "Run attempts on the work list; a dead one waits until a person tries it again."
    yield _gauge("work_rows", text, rows, "state")
    text = "For how long the first run attempt that is due has waited."
    yield _gauge("work_oldest_due_seconds", text, {"": oldest_s})
    current = pauses.current(connection, repositories.ARE_ACTIVE)
    paused = sum(pause.repositories for pause in current)
    text = "Repositories whose requests GitHub refuses; their run attempts wait."
    yield _gauge("paused_repositories", text, {"": paused})


def _recent_verdicts(connection: Connection) -> Metric:
    """Count the verdicts of the last hour; an index selects these rows."""
    is_recent = sa.and_(
        _WORK.state == WorkState.DONE,
        _WORK.due_at_ms >= sa.select(after_ms(-RECENT_S)).scalar_subquery(),
    )
    query = (
        sa.select(_RUN.verdict, sa.func.count())
        .select_from(schema.work.join(schema.run, is_same_run(schema.work, schema.run)))
        .where(is_recent)
        .group_by(_RUN.verdict)
    )
    counts = {verdict: count for verdict, count in connection.execute(query)}  # noqa: C416
    text = "Run attempts that became due in the last hour and have a verdict."
    return _gauge("recent_verdicts", text, dict.fromkeys(VERDICTS, 0) | counts, "verdict")


def _notices(connection: Connection) -> Metric:
    is_recent = _NOTICE.due_at_ms >= after_ms(-DAY_S)
    query = sa.select(_NOTICE.state, sa.func.count()).where(is_recent).group_by(_NOTICE.state)
    counts = {state: count for state, count in connection.execute(query)}  # noqa: C416
    text = "Messages to owners: those that wait, and others of the last day."
    return _gauge("notices", text, dict.fromkeys(get_args(State), 0) | counts, "state")


def _gauge(name: str, text: str, values: Mapping[str, float], *labels: str) -> Metric:
    gauge = GaugeMetricFamily(f"ciguard_{name}", text, labels=labels)
    for label, value in values.items():
        gauge.add_metric([label] if labels else [], value)
    return gauge


LOG: Final = logging.getLogger(__name__)
BODY_BYTES: Final = 1 << 20  # of a form or a query
TOTAL_BYTES: Final = 128 << 20  # five of GitHub's largest bodies; most have 20 KB
RETRY_AFTER_S: Final = 30
API: Final = "/api/"  # its errors are JSON
POLICY: Final = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'"),
        *("connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TRANSPORT_SECURITY: Final = "max-age=31536000"


class SecurityHeaders:
    """Adds the security headers that an answer has not set.

    Args:
        is_https: browsers reach the service by https only, and may remember this.
    """

    def __init__(self, app: ASGIApp, *, is_https: bool) -> None:
        self._app = app
        self._headers = dict(HEADERS)
        if is_https:
            self._headers["Strict-Transport-Security"] = TRANSPORT_SECURITY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class BodyTooLarge(Exception):
    """The body of a request exceeds the limit of its path."""


class ErrorResponses:
    """Turns exceptions into answers without internal details, and logs the cause.

    The status is 503 if a database or store cannot be reached, 500 for an unexpected exception.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_started = False

        async def send_and_record(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            return await self._app(scope, receive, send_and_record)
        except ClientDisconnect:
            return None
        except BodyTooLarge:
            status, text = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large"
            response = _response(scope, status, text)
        except RemoteError as error:
            # Without the query, which may hold a secret of the sign-in.
            LOG.warning("%s %s: %s", scope["method"], scope["path"], error)
            text = "the service cannot do this now; try again later"
            text = error.what if isinstance(error, Late) else text
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            response = _response(scope, HTTPStatus.SERVICE_UNAVAILABLE, text, headers)
        except Exception:
            LOG.exception("%s %s", scope["method"], scope["path"])
            text = "an error of the service; its log has the details"
            response = _response(scope, HTTPStatus.INTERNAL_SERVER_ERROR, text)
        if not has_started:
            await response(scope, receive, send)
        return None


def _response(
    scope: Scope, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None
) -> Response:
    if scope["path"].startswith(API):
        return problem(status, text, headers)
    if "text/html" in Headers(scope=scope).get("accept", ""):
        response = error_page(Request(scope), status, text)
        response.headers.update(headers or {})
        return response
    return PlainTextResponse(f"{text}\n", status, headers)


class BodyLimit:
    """Refuses a body beyond the limit of its path, before it is read.

    Senders need no sign-in, so the bodies of all current requests together have a limit too.

    Args:
        paths: limit by the end of a path, bytes; BODY_BYTES for all others.
        total_bytes: limit of all current requests.
    """

    def __init__(
        self, app: ASGIApp, *, paths: Mapping[str, int], total_bytes: int = TOTAL_BYTES
    ) -> None:
        self._app = app
        self._paths = paths
        self._free = total_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        limits = (limit for end, limit in self._paths.items() if scope["path"].endswith(end))
        remaining = limit = next(limits, BODY_BYTES)
        length = Headers(scope=scope).get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise BodyTooLarge

        async def receive_and_count() -> Message:
            nonlocal remaining
            message = await receive()
            size = len(message.get("body", b""))
            remaining, self._free = remaining - size, self._free - size
            if remaining < 0:
                raise BodyTooLarge
            if self._free < 0:
                raise RemoteError("the bodies of all requests are too large")
            return message

        try:
            return await self._app(scope, receive_and_count, send)
        finally:
            self._free += limit - remaining


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


def build_application(service: Service, read_model: ReadModel | None = None) -> Starlette:
    """Join the routes of all parts; handlers find the service as `request.app.state.service`.

    Args:
        read_model: answers questions of pages about results; None for an application without pages.
    """

    @contextlib.asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        write = partial(webhooks.apply_deliveries, service.database)
        with contextlib.closing(BatchWriter(write)) as writer:
            application.state.delivery_writer = writer
            yield

    application = Starlette(
        # The routes of the pages come last: they end with a route for all other addresses.
        routes=[
            *(Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)),
            *(*webhooks.ROUTES, *routes(service), *page_routes.ROUTES),
        ],
        middleware=[
            Middleware(SecurityHeaders, is_https=service.settings.public_url.startswith("https:")),
            Middleware(GZipMiddleware, compresslevel=GZIP_LEVEL, exclude_content_types=COMPRESSED),
            Middleware(ErrorResponses),
            Middleware(BodyLimit, paths={webhooks.PATH: webhooks.BODY_BYTES, RECORDS: PUSH_BYTES}),
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
