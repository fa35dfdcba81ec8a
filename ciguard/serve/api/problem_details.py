"""Answers of the API that are no results, as RFC 9457 has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http import HTTPStatus

MEDIA_TYPE: Final = "application/problem+json"


def problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An answer whose `detail` is a sentence for the person who reads the job's log."""
    content = {"title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(content, status, headers, MEDIA_TYPE)
