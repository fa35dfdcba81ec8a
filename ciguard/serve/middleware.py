"""What surrounds every request: headers of security, answers to errors, a limit of bodies.

Source of the headers: OWASP, "HTTP Security Response Headers Cheat Sheet".
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response

from ciguard.errors import RemoteError
from ciguard.serve.api.problem_details import problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG: Final = logging.getLogger(__name__)
BODY_BYTES: Final = 1 << 20  # of a form or a query
TOTAL_BYTES: Final = 128 << 20  # five of GitHub's largest; most have 20 KB
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
    """Adds headers to each answer that has not set them itself.

    Args:
        is_https: the service is reached by https only, and browsers may remember it.
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
    """A request's body is longer than its path allows."""


class ErrorResponses:
    """Turns exceptions into answers that tell nothing of the inside; their cause is logged.

    A database or a store that cannot be reached is 503, everything unexpected 500.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            return await self._app(scope, receive, send_and_note)
        except ClientDisconnect:
            return None
        except BodyTooLarge:
            status, text = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large"
            response = _response(scope, status, text)
        except RemoteError as error:
            # Without the query, which may hold a secret of the sign-in.
            LOG.warning("%s %s: %s", scope["method"], scope["path"], error)
            text = "the service cannot do this now; try again later"
            after = {"Retry-After": str(RETRY_AFTER_S)}
            response = _response(scope, HTTPStatus.SERVICE_UNAVAILABLE, text, after)
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
    return PlainTextResponse(f"{text}\n", status, headers)


class BodyLimit:
    """Refuses a body that is longer than its path allows, before it is read.

    Whoever sends one need not have signed in, so that all that are held at once are bounded too.

    Args:
        paths: bytes by path; BODY_BYTES for all others.
        total_bytes: of all requests that are under way.
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
        left = limit = self._paths.get(scope["path"], BODY_BYTES)
        length = Headers(scope=scope).get("content-length", "")
        if length.isdigit() and int(length) > left:
            raise BodyTooLarge

        async def receive_and_count() -> Message:
            nonlocal left
            message = await receive()
            size = len(message.get("body", b""))
            left, self._free = left - size, self._free - size
            if left < 0:
                raise BodyTooLarge
            if self._free < 0:
                raise RemoteError("the bodies of all requests are too large")
            return message

        try:
            return await self._app(scope, receive_and_count, send)
        finally:
            self._free += limit - left
