"""The paths of the API, its description as OpenAPI 3.1, and the handlers.

The description is `openapi.json`; tests check every answer against it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.history.service_credentials import origin_of
from ciguard.render.pages import RunRow
from ciguard.serve.api import claim_requests
from ciguard.serve.api.access import caller_repository
from ciguard.serve.api.claim_requests import (
    ConfirmationBody,
    Handler,
    Registration,
    RegistrationAnswer,
    answer,
)
from ciguard.serve.api.oidc import JobTokens, KeysUnavailable, TokenRefused, issuer_of
from ciguard.serve.api.problem_details import NOT_FOUND, problem, refusal
from ciguard.serve.block_exchange import ClaimAnswer, ClaimBody
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.request_threads import answer_in
from ciguard.serve.service import Service
from ciguard.serve.state import histories, repositories, run_rows
from ciguard.serve.state.histories import HistoryRow
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.stored_answers import read_answer

LOG: Final = logging.getLogger(__name__)
NUMBER: Final = re.compile("[0-9]{1,16}")  # of GitHub
MEDIA_TYPE: Final = "application/octet-stream"  # of a history file
HISTORY_PATH: Final = "/api/v1/repos/{owner}/{name}/history"
OPENAPI_PATH: Final = "/api/v1/openapi.json"
_RUN_PATH: Final = "/api/v1/repos/{owner}/{name}/runs/{run_id}/{run_attempt}"
EXPLANATION_PATH: Final = f"{_RUN_PATH}/explanation"
BLOCKS_PATH: Final = f"{_RUN_PATH}/blocks"
CLAIMS_PATH: Final = f"{_RUN_PATH}/claims"
CLAIM_PATH: Final = f"{CLAIMS_PATH}/{{block}}"
RECORDS: Final = "/records"
RECORDS_PATH: Final = _RUN_PATH + RECORDS
_BODIES: Final = (Registration, RegistrationAnswer, ClaimBody, ClaimAnswer, ConfirmationBody)


def openapi_document(public_url: str, version: str) -> dict[str, Any]:
    """Return the description of the API at an address; "" for the address of the document."""
    folder = Path(__file__).parent
    document: dict[str, Any] = json.loads((folder / "openapi.json").read_bytes())
    pages = json.loads((folder / "pages.json").read_bytes())
    document["paths"] |= pages["paths"]
    document["info"]["version"] = version
    document["servers"] = [{"url": public_url or "/"}]
    _, bodies = models_json_schema(
        [(body, "validation") for body in _BODIES], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= bodies["$defs"] | pages["schemas"]
    return document


def routes(service: Service) -> tuple[Route, ...]:
    """Make the routes of the API; GitHub's keys are fetched once for all its requests."""
    settings = service.settings
    audience = origin_of(settings.public_url) if settings.public_url else ""
    jobs = JobTokens(issuer_of(settings.server_url), audience)
    document = openapi_document(settings.public_url, __version__)

    async def history(request: Request) -> Response:
        def load(row: HistoryRow) -> bytes:
            return read_checked(service.objects, row.object, row.sha256, "history")

        values = (request, service, jobs, histories.current, load)
        return await answer_in(request, "objects", stored_response, *values)

    async def explanation(request: Request) -> Response:
        def find(connection: Connection, repository_id: int) -> RunRow | None:
            texts = [request.path_params[name] for name in ("run_id", "run_attempt")]
            if not all(map(NUMBER.fullmatch, texts)):
                return None
            return run_rows.get(connection, RunKey(repository_id, *map(int, texts)))

        def load(run: RunRow) -> bytes | None:
            answer, problem = read_answer(service, run.answer)
            if problem:
                raise DamagedObject(run.answer, problem)
            explained = answer.explanation if answer is not None else None
            return json.dumps(explained).encode() if explained is not None else None

        respond = partial(stored_response, media_type="application/json")
        return await answer_in(request, "objects", respond, request, service, jobs, find, load)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    def run_endpoint(
        handler: Handler, threads: str = "claims"
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body = await request.body()
            values = (handler, request, body, service.database, jobs)
            return await answer_in(request, threads, answer, *values)

        return endpoint

    push = partial(claim_requests.push_records, service)
    return (
        Route(HISTORY_PATH, history),
        Route(EXPLANATION_PATH, explanation),
        Route(OPENAPI_PATH, openapi),
        Route(BLOCKS_PATH, run_endpoint(claim_requests.register_blocks), methods=["PUT"]),
        Route(CLAIMS_PATH, run_endpoint(claim_requests.claim), methods=["POST"]),
        Route(CLAIM_PATH, run_endpoint(claim_requests.confirm), methods=["PUT"]),
        Route(RECORDS_PATH, run_endpoint(push, "objects"), methods=["PUT"]),
    )


def stored_response(
    request: Request,
    service: Service,
    jobs: JobTokens,
    find: Callable[[Connection, int], Any],
    load: Callable[[Any], bytes | None],
    *,
    media_type: str = MEDIA_TYPE,
) -> Response:
    """Answer with an object or a problem; check the caller first, to reveal no repository.

    Args:
        find: finds the row that names the object, by the id of the repository; None for no row.
        load: reads the object of a row; None for no object.
    """
    full_name = "{owner}/{name}".format(**request.path_params)
    try:
        caller = caller_repository(request.headers.get("Authorization"), service.database, jobs)
        with service.database.read() as connection:
            repository = repositories.find(connection, full_name)
            if repository is None or (repository.is_private and repository.id != caller):
                return problem(HTTPStatus.NOT_FOUND, NOT_FOUND)
            row = find(connection, repository.id)
        content = load(row) if row is not None else None
        status = HTTPStatus.NO_CONTENT if content is None else HTTPStatus.OK
        headers = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
        return Response(content, status, headers, None if content is None else media_type)
    except TokenRefused as error:
        return refusal(error)
    except (DamagedObject, KeysUnavailable) as error:
        LOG.warning("%s: %s", request.url.path, error)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, error.what)
