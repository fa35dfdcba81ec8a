"""The paths of the API, and what of a request their handlers get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route

from ciguard import __version__
from ciguard.history.service_credentials import origin_of
from ciguard.serve.api.history_file import HistoryRequest, history_response
from ciguard.serve.api.oidc import JobTokens, issuer_of
from ciguard.serve.api.openapi import HISTORY_PATH, OPENAPI_PATH, openapi_document

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.state.database import Database


def routes(
    database: Database, objects: ObjectStore, *, server_url: str, public_url: str
) -> tuple[Route, ...]:
    """The API; GitHub's keys are fetched once for all its requests.

    Args:
        server_url: of GitHub, whose jobs ask.
        public_url: of the service, which their tokens are made for; "" where it is not known.
    """
    audience = origin_of(public_url) if public_url else ""
    jobs = JobTokens(issuer_of(server_url), audience)
    document = openapi_document(public_url, __version__)

    async def history(request: Request) -> Response:
        asked = _history_request(request)
        return await run_in_threadpool(history_response, asked, database, objects, jobs)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    return (Route(HISTORY_PATH, history), Route(OPENAPI_PATH, openapi))


def _history_request(request: Request) -> HistoryRequest:
    return HistoryRequest(
        full_name="{owner}/{name}".format(**request.path_params),
        is_head=request.method == "HEAD",
        authorization=request.headers.get("Authorization"),
        if_none_match=request.headers.get("If-None-Match", ""),
    )
