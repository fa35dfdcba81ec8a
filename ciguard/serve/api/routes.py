"""The paths of the API, its description as OpenAPI 3.1, and the handlers.

The description is `openapi.json`; tests check every answer against it. Of a run's jobs, the plan
job registers blocks, legs claim them, and a report job pushes. A block is a part of a shard's tests
that the job (leg) of another shard may run. A request is checked in this order: caller, repository,
body. The models of the bodies have their limits.

The jobs of a repository may read it, and every caller may read a public repository. Only jobs and
legs of a run may claim its blocks. For another caller, a private repository does not exist: the
answer, and the work for it, are those of an unknown name.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import pydantic
from pydantic import BaseModel, Field, StringConstraints, model_validator
from pydantic.json_schema import models_json_schema
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.errors import InputError
from ciguard.history.service_credentials import origin_of
from ciguard.render.pages import RunRow
from ciguard.serve import raw_archives
from ciguard.serve.api.oidc import JobTokens, KeysUnavailable, TokenRefused, issuer_of
from ciguard.serve.block_exchange import (
    LEG,
    Body,
    ClaimAnswer,
    ClaimBody,
    LegKey,
    NotRegistered,
    PlanId,
    Seconds,
    answer_claim,
    confirm_block,
)
from ciguard.serve.history_objects import HistoryRow, current_row
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.request_threads import answer_in
from ciguard.serve.service import Service
from ciguard.serve.state import claim_rows, repositories, run_rows, tokens
from ciguard.serve.state.claim_rows import ClaimBlock, ClaimLeg, PlanKey
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.stored_answers import read_answer

Handler = Callable[["RunRequest"], Response]
PROBLEM_TYPE: Final = "application/problem+json"
# The answer for an unknown name, and for a private repository that the caller may not read.
NOT_FOUND: Final = "there is no such repository, or you may not read it"


def problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Make an answer; `detail` is a sentence for the reader of the job's log."""
    content = {"title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(content, status, headers, PROBLEM_TYPE)


def refusal(error: TokenRefused) -> JSONResponse:
    """Make the answer to an invalid token."""
    challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    return problem(HTTPStatus.UNAUTHORIZED, error.what, challenge)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller with a token of a repository, of a run's job, or of a plan's legs.

    Attributes:
        run: None for a token of the repository.
        plan: None unless the token is of legs.
    """

    repository_id: int
    run: RunKey | None = None
    plan: str | None = None


def find_caller(authorization: str | None, database: Database, jobs: JobTokens) -> Caller:
    """Find the caller of a request that needs a token.

    Args:
        authorization: header of the request.

    Raises:
        TokenRefused: the token is missing or invalid.
        KeysUnavailable: GitHub's keys cannot be fetched.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise TokenRefused("expected `Authorization: Bearer TOKEN`")
    if not token.startswith((tokens.PREFIX, tokens.PAGES_PREFIX, claim_rows.PREFIX)):
        run = jobs.run_of(token)
        return Caller(run.repository_id, run)
    with database.read() as connection:
        plan = claim_rows.plan_of(connection, token)
        repository_id = tokens.repository_of(connection, token)
    if plan is not None:
        return Caller(plan.run.repository_id, plan.run, plan.plan)
    if repository_id is None:
        raise TokenRefused("the token is unknown, revoked, or was replaced by a newer plan")
    return Caller(repository_id)


MAX_LEGS: Final = 256  # jobs of a matrix
MAX_BLOCKS: Final = 32  # of a leg
BLOCK: Final = rf"{LEG}\.[1-9][0-9]{{0,2}}"  # the key of its leg, and a number from 1
_BLOCK_NUMBER: Final = re.compile(r"\.[1-9][0-9]{0,2}")
_RUN_ID: Final = re.compile("[1-9][0-9]{0,17}")  # within 64 bits
_RUN_ATTEMPT: Final = re.compile("[1-9][0-9]{0,5}")
KEY_CHARACTERS: Final = 200  # of a client's keys in an error
_AnyBody = TypeVar("_AnyBody", bound=BaseModel)

BlockKey = Annotated[str, StringConstraints(pattern=f"^{BLOCK}$")]


class RegisteredLeg(Body):
    """A leg: predicted seconds of its own part, and of its blocks in their order."""

    group: Annotated[str, Field(max_length=256)]
    own_s: Seconds
    blocks: Annotated[dict[BlockKey, Seconds], Field(max_length=MAX_BLOCKS)]


class Registration(Body):
    """The legs of a plan."""

    plan: PlanId
    legs: Annotated[dict[LegKey, RegisteredLeg], Field(min_length=1, max_length=MAX_LEGS)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name, leg in self.legs.items():
            for block in leg.blocks:
                if not _BLOCK_NUMBER.fullmatch(block.removeprefix(name)):
                    what = f"legs.{name}: expected names of blocks as {name}.1, found {block}"
                    raise ValueError(what)
        return self

    def rows(self) -> tuple[list[ClaimLeg], list[ClaimBlock]]:
        legs = [ClaimLeg(name, leg.group, leg.own_s) for name, leg in self.legs.items()]
        return legs, [
            ClaimBlock(block, name, position, wall_s)
            for name, leg in self.legs.items()
            for position, (block, wall_s) in enumerate(leg.blocks.items())
        ]


class RegistrationAnswer(Body):
    """The token for the legs of the plan."""

    token: str


class ConfirmationBody(Body):
    """The leg that runs the block of the path."""

    plan: PlanId
    leg: LegKey


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A caller's request about a run; `block` is "" if the path names none."""

    service: Service
    caller: Caller
    run: RunKey
    block: str
    body: bytes = field(repr=False)


class _BadBody(InputError):
    """The body is invalid."""


def register_blocks(request: RunRequest) -> Response:
    """PUT .../blocks: register the legs and blocks of a plan job."""
    caller, run = request.caller, request.run
    if caller.plan is not None or caller.run not in (None, run):
        raise TokenRefused("only a job of this run attempt may register a plan")
    body = _parse(Registration, request.body)
    with request.service.database.write() as connection:
        registration = claim_rows.register(connection, PlanKey(run, body.plan), *body.rows())
    if registration is None:
        what = f"the run attempt has {claim_rows.MAX_PLANS} other plans already"
        raise _BadBody(what)
    status = HTTPStatus.CREATED if registration.is_new else HTTPStatus.OK
    return JSONResponse({"token": registration.secret}, status)


def claim(request: RunRequest) -> Response:
    """POST .../claims: answer a leg that begins, asks for a block, or continues alone."""
    _check_run(request)
    body = _parse(ClaimBody, request.body)
    key = PlanKey(request.run, body.plan)
    with request.service.database.write() as connection:
        _check_plan(connection, request.caller, key)
        grant = answer_claim(connection, key, body)
    return JSONResponse(grant.model_dump())


def confirm(request: RunRequest) -> Response:
    """PUT .../claims/BLOCK: confirm that a leg runs a block."""
    _check_run(request)
    body = _parse(ConfirmationBody, request.body)
    key = PlanKey(request.run, body.plan)
    with request.service.database.write() as connection:
        _check_plan(connection, request.caller, key)
        is_confirmed = confirm_block(connection, key, body.leg, request.block)
    if not is_confirmed:
        return problem(HTTPStatus.CONFLICT, f"another job has the block {request.block}")
    return Response(status_code=HTTPStatus.NO_CONTENT)


def push_records(request: RunRequest) -> Response:
    """PUT .../records: store the artifacts of a run, so that judging need not download them.

    GitHub's token names repository, run and attempt, and the job only by a number of new servers.
    GitHub gives one to jobs with `id-token: write` only: all of a generated workflow run nothing of
    the checkout, and if another job pushes, the push of the report job contests that one.
    """
    if request.caller.plan is not None or request.caller.run != request.run:
        raise TokenRefused("records need GitHub's token of a job of this run attempt")
    try:
        raw_archives.read_pushed(request.body)
    except InputError as error:
        raise _BadBody(str(error)) from error
    with request.service.database.read() as connection:
        is_judged = run_rows.get(connection, request.run) is not None
    if not (is_judged or raw_archives.push(request.service, request.run, request.body)):
        what = "another job of the run attempt has pushed other records: neither count"
        return problem(HTTPStatus.CONFLICT, what)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def answer(
    handler: Handler, request: Request, body: bytes, service: Service, jobs: JobTokens
) -> Response:
    """Return the answer of a handler; its errors become problem details (RFC 9457)."""
    path = request.path_params
    try:
        caller = find_caller(request.headers.get("Authorization"), service.database, jobs)
        run = _find_run(path, caller, service)
        return handler(RunRequest(service, caller, run, path.get("block", ""), body))
    except TokenRefused as error:
        return refusal(error)
    except NotRegistered as error:
        return problem(HTTPStatus.NOT_FOUND, error.what)
    except _BadBody as error:
        return problem(HTTPStatus.BAD_REQUEST, error.what)


def _find_run(path: Mapping[str, str], caller: Caller, service: Service) -> RunKey:
    """Find the run attempt of the path; a repository exists only for its own jobs."""
    with service.database.read() as connection:
        repository = repositories.find(connection, "{owner}/{name}".format(**path))
    if repository is None or repository.id != caller.repository_id:
        raise NotRegistered(NOT_FOUND)
    numbers = (path["run_id"], path["run_attempt"])
    if not (_RUN_ID.fullmatch(numbers[0]) and _RUN_ATTEMPT.fullmatch(numbers[1])):
        raise NotRegistered("there is no such run attempt")
    return RunKey(repository.id, *map(int, numbers))


def _check_run(request: RunRequest) -> None:
    """Refuse the token of another run; a leg that is run again has that of an earlier attempt."""
    own, run = request.caller.run, request.run
    if own is None:
        raise TokenRefused("a job needs the token of its plan, or its token of GitHub")
    is_earlier = request.caller.plan is not None and own.run_attempt < run.run_attempt
    if own.run_id != run.run_id or (own != run and not is_earlier):
        raise TokenRefused("the token is of another run attempt")


def _check_plan(connection: Connection, caller: Caller, key: PlanKey) -> None:
    if caller.plan not in (None, key.plan):
        raise TokenRefused("the token is of another plan")
    if caller.run != key.run and claim_rows.lock(connection, key):
        raise TokenRefused("the token is of an earlier attempt, and this attempt has a newer one")


def _parse(model: type[_AnyBody], body: bytes) -> _AnyBody:
    try:
        return model.model_validate_json(body)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = f"{'.'.join(map(str, first['loc'])):.{KEY_CHARACTERS}}"
        raise _BadBody(f"the body: {key + ': ' if key else ''}{first['msg']}") from error


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

        values = (request, service, jobs, current_row, load)
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
            return await answer_in(request, threads, answer, handler, request, body, service, jobs)

        return endpoint

    return (
        Route(HISTORY_PATH, history),
        Route(EXPLANATION_PATH, explanation),
        Route(OPENAPI_PATH, openapi),
        Route(BLOCKS_PATH, run_endpoint(register_blocks), methods=["PUT"]),
        Route(CLAIMS_PATH, run_endpoint(claim), methods=["POST"]),
        Route(CLAIM_PATH, run_endpoint(confirm), methods=["PUT"]),
        Route(RECORDS_PATH, run_endpoint(push_records, "objects"), methods=["PUT"]),
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
    header = request.headers.get("Authorization")
    try:
        caller = find_caller(header, service.database, jobs) if header is not None else Caller(0)
        if caller.plan is not None:
            raise TokenRefused("the token of a plan is only for the blocks of its jobs")
        with service.database.read() as connection:
            repository = repositories.find(connection, full_name)
            if repository is None or (
                repository.is_private and repository.id != caller.repository_id
            ):
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
