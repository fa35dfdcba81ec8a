"""Errors of the API as problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse

from ciguard.serve.api.oidc import TokenRefused

MEDIA_TYPE: Final = "application/problem+json"
# The answer for an unknown name, and for a private repository that the caller may not read.
NOT_FOUND: Final = "there is no such repository, or you may not read it"


def problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Make an answer; `detail` is a sentence for the reader of the job's log."""
    content = {"title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def refusal(error: TokenRefused) -> JSONResponse:
    """Make the answer to an invalid token."""
    challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    return problem(HTTPStatus.UNAUTHORIZED, error.what, challenge)
