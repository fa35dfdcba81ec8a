"""The paths of the API, its description as OpenAPI 3.1, and the handlers.

The description is `openapi.json`; tests check every answer against it.
"""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.errors import RemoteError
from ciguard.history.service_credentials import origin_of
from ciguard.serve.api import claim_requests
from ciguard.serve.api.access import caller_repository
from ciguard.serve.api.claim_requests import (
    ConfirmationBody,
    Registration,
    RegistrationAnswer,
    answer,
)
from ciguard.serve.api.oidc import JobTokens, KeysUnavailable, TokenRefused, issuer_of
from ciguard.serve.api.problem_details import NOT_FOUND, problem, refusal
from ciguard.serve.block_exchange import ClaimAnswer, ClaimBody
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.state import histories, repositories

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from ciguard.serve.api.claim_requests import Handler
    from ciguard.serve.service import Service

LOG: Final = logging.getLogger(__name__)
MEDIA_TYPE: Final = "application/octet-stream"  # of a history file
HISTORY_PATH: Final = "/api/v1/repos/{owner}/{name}/history"
OPENAPI_PATH: Final = "/api/v1/openapi.json"
_RUN_PATH: Final = "/api/v1/repos/{owner}/{name}/runs/{run_id}/{run_attempt}"
BLOCKS_PATH: Final = f"{_RUN_PATH}/blocks"
CLAIMS_PATH: Final = f"{_RUN_PATH}/claims"
CLAIM_PATH: Final = f"{CLAIMS_PATH}/{{block}}"
_BODIES: Final = (Registration, RegistrationAnswer, ClaimBody, ClaimAnswer, ConfirmationBody)


def openapi_document(public_url: str, version: str) -> dict[str, Any]:
    """Return the description of the API at an address; "" for the address of the document."""
    document: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_bytes())
    document["info"]["version"] = version
    document["servers"] = [{"url": public_url or "/"}]
    _, bodies = models_json_schema(
        [(body, "validation") for body in _BODIES], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= bodies["$defs"]
    return document


def routes(service: Service) -> tuple[Route, ...]:
    """Make the routes of the API; GitHub's keys are fetched once for all its requests."""
    settings = service.settings
    audience = origin_of(settings.public_url) if settings.public_url else ""
    jobs = JobTokens(issuer_of(settings.server_url), audience)
    document = openapi_document(settings.public_url, __version__)

    def history(request: Request) -> Response:
        return history_response(request, service, jobs)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    def run_endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body = await request.body()
            return await run_in_threadpool(answer, handler, request, body, service.database, jobs)

        return endpoint

    return (
        Route(HISTORY_PATH, history),
        Route(OPENAPI_PATH, openapi),
        Route(BLOCKS_PATH, run_endpoint(claim_requests.register_blocks), methods=["PUT"]),
        Route(CLAIMS_PATH, run_endpoint(claim_requests.claim), methods=["POST"]),
        Route(CLAIM_PATH, run_endpoint(claim_requests.confirm), methods=["PUT"]),
    )


def history_response(request: Request, service: Service, jobs: JobTokens) -> Response:
    """Answer with a history file or a problem; check the caller first, to reveal no repository."""
    full_name = "{owner}/{name}".format(**request.path_params)
    try:
        caller = caller_repository(request.headers.get("Authorization"), service.database, jobs)
        with service.database.read() as connection:
            repository = repositories.find(connection, full_name)
            if repository is None or (repository.is_private and repository.id != caller):
                return problem(HTTPStatus.NOT_FOUND, NOT_FOUND)
            row = histories.current(connection, repository.id)
        if row is None:
            return _response(HTTPStatus.NO_CONTENT)
        content = read_checked(service.objects, row.object, row.sha256, "history")
        return _response(HTTPStatus.OK, content)
    except TokenRefused as error:
        return refusal(error)
    except (DamagedObject, KeysUnavailable) as error:
        LOG.warning("the history of %s: %s", full_name, error)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, error.what)
    except RemoteError as error:
        LOG.warning("the history of %s: %s", full_name, error)
        detail = "the database or the store of objects cannot be reached"
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _response(status: HTTPStatus, content: bytes | None = None) -> Response:
    headers = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
    media_type = MEDIA_TYPE if status is HTTPStatus.OK else None
    return Response(content, status, headers, media_type)
