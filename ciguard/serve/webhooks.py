"""`POST /webhooks/github`: checks a delivery, and answers 202 once it is durable.

GitHub sends a delivery once, waits ten seconds for the answer and does not retry.
`serve/work/reconcile.py` finds lost changes. A delivery may be late, repeated or lost: it only adds
work, and hides repositories at once that were removed or made private. New repositories, names and
publicity are not taken from a delivery: the service asks GitHub for the current state.
Source: docs.github.com, "Validating webhook deliveries".
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Final

import pydantic
import sqlalchemy as sa
from prometheus_client import Histogram
from pydantic import SecretStr
from sqlalchemy.engine import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.errors import RemoteError
from ciguard.github.models import Webhook, WorkflowRun
from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.request_threads import DEADLINE_S
from ciguard.serve.service import Service
from ciguard.serve.state import repositories, schema, work_list
from ciguard.serve.state.database import Database, engine_insert, is_older, now_ms
from ciguard.serve.state.repositories import Repository, RepositoryState
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.schema import storable
from ciguard.serve.state.work_list import NewWork, Source


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery, by its headers and payload; `action` is "" for an event that has none."""

    id: str
    event: str
    action: str
    repository_id: int | None


def record(connection: Connection, deliveries: Sequence[Delivery]) -> frozenset[str]:
    """Add new deliveries, at least one, and return their ids; an id may occur several times."""
    rows = {delivery.id: delivery for delivery in deliveries}
    statement = (
        engine_insert(connection, schema.delivery)
        .values(received_at_ms=now_ms())
        .on_conflict_do_nothing()
        .returning(schema.delivery.c.id)
    )
    values = [asdict(delivery) for _, delivery in sorted(rows.items())]
    return frozenset(connection.execute(statement, values).scalars())


def has_received(connection: Connection, events: Sequence[str], since_ms: int) -> bool:
    """Return whether one of these events was received since a time of the database."""
    column = schema.delivery.c
    query = sa.select(column.id).where(column.received_at_ms >= since_ms, column.event.in_(events))
    return connection.execute(query.limit(1)).first() is not None


def prune_deliveries(connection: Connection, days: float) -> int:
    """Delete deliveries that were received longer ago; return their number.

    GitHub redelivers for three days at most, and only on request.
    """
    is_old = is_older(schema.delivery.c.received_at_ms, days)
    return connection.execute(sa.delete(schema.delivery).where(is_old)).rowcount


# By event, the actions with an effect; other actions are accepted and ignored.
HANDLED: Final[Mapping[str, frozenset[str]]] = {
    "workflow_run": frozenset({"completed"}),
    "installation": frozenset({"created", "deleted", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added", "removed"}),
    "repository": frozenset({"deleted", "renamed", "transferred", "privatized", "publicized"}),
}


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery whose signature was checked, with its payload."""

    delivery: Delivery
    payload: Webhook


def has_subject(event: str, payload: Webhook) -> bool:
    has_repository = payload.repository is not None and payload.repository.id is not None
    if event == "workflow_run":
        return has_repository and payload.workflow_run is not None
    return has_repository if event == "repository" else payload.installation is not None


def apply_deliveries(database: Database, received: Sequence[Received]) -> None:
    """Apply new deliveries, each once, in one transaction; add runs after removals."""
    with database.write() as connection:
        new_ids = record(connection, [item.delivery for item in received])
        new = {item.delivery.id: item for item in received if item.delivery.id in new_ids}
        for item in new.values():
            _hide_repositories(connection, item.delivery, item.payload)
        _add_work(connection, [item.payload for item in new.values() if item.payload.workflow_run])


def _hide_repositories(connection: Connection, delivery: Delivery, payload: Webhook) -> None:
    match delivery.event, delivery.action:
        case "installation", "deleted" if payload.installation:
            repositories.remove_installation(connection, payload.installation.id)
        case "installation_repositories", "removed":
            removed = payload.repositories_removed
            ids = [repository.id for repository in removed if repository.id is not None]
            repositories.remove(connection, ids)
        case "repository", "deleted" if delivery.repository_id is not None:
            repositories.remove(connection, [delivery.repository_id])
        case "repository", "privatized" if delivery.repository_id is not None:
            repositories.set_private(connection, delivery.repository_id)


def _add_work(connection: Connection, payloads: Sequence[Webhook]) -> None:
    """Add the runs of active repositories; add unknown repositories first.

    Only an App's installation adds repositories: with a token, `--repo` names them.
    """
    runs = [
        (repository.id, payload.workflow_run)
        for payload in payloads
        if payload.workflow_run and (repository := payload.repository) and repository.id is not None
    ]
    known = repositories.states(connection, {number for number, _ in runs})
    new = [
        Repository(
            id=repository.id,
            full_name=repository.full_name,
            is_private=True,  # until GitHub is asked
            default_branch=repository.default_branch or "",
            installation_id=payload.installation.id,
        )
        for payload in payloads
        if payload.installation and (repository := payload.repository)
        if repository.id is not None and repository.id not in known
    ]
    repositories.add_unknown(connection, new)
    active = {repository.id for repository in new}
    active |= {number for number, state in known.items() if state is RepositoryState.ACTIVE}
    entries = [latest_attempt(number, run, "webhook") for number, run in runs if number in active]
    work_list.add(connection, entries)


PATH: Final = "/webhooks/github"
BODY_BYTES: Final = 25 << 20  # GitHub's limit of a payload
WRONG_SECRET: Final = "the signature was not made with the value of CIGUARD_WEBHOOK_SECRET"
ANSWER_S: Final = 9.0  # GitHub waits for ten
LANE_LENGTH: Final = 512  # of the column
INTAKE_S: Final = Histogram("ciguard_intake_seconds", "Time until a delivery is durable.")
_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")  # a GUID today; the length is that of the column


async def receive(request: Request) -> PlainTextResponse:
    """Answer 202 once a delivery is durable, or if it has no effect.

    Raises:
        HTTPException: 400, 401, 415.
        RemoteError: the delivery could not be written.
    """
    service: Service = request.app.state.service
    event, delivery_id = _header(request, "X-GitHub-Event"), _header(request, "X-GitHub-Delivery")
    signature, body = _header(request, "X-Hub-Signature-256"), await request.body()
    secret = service.settings.webhook_secret
    shown = signature.encode("utf-8", "replace")
    # The comparison takes constant time.
    if secret is None or not hmac.compare_digest(sign(secret, body).encode(), shown):
        raise HTTPException(HTTPStatus.UNAUTHORIZED, WRONG_SECRET)
    # Checked before the event: people who set a webhook up look at the answer to its "ping".
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        what = "Content-Type: expected application/json; choose it where the webhook is set up"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, what)
    if event not in HANDLED:
        return _accepted(f"ignored: the event {event}")
    if not _ID.fullmatch(delivery_id):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "X-GitHub-Delivery: expected a GUID")
    payload = _parse(body)
    if payload.action not in HANDLED[event]:
        return _accepted(f"ignored: {event} {payload.action}".rstrip())
    if not has_subject(event, payload):
        what = f"the payload holds not what {event} {payload.action} is about"
        raise HTTPException(HTTPStatus.BAD_REQUEST, what)
    repository_id = payload.repository.id if payload.repository else None
    received = Received(Delivery(delivery_id, event, payload.action, repository_id), payload)
    await _store(request.app.state.delivery_writer, received)
    return _accepted("accepted")


async def _store(writer: BatchWriter[Received], received: Received) -> None:
    if time.monotonic() - writer.write_began_s > DEADLINE_S:
        raise RemoteError("an earlier write takes too long", where="database")
    future = asyncio.wrap_future(writer.submit(received)[0])
    try:
        with INTAKE_S.time():
            await asyncio.wait_for(future, ANSWER_S)
    except TimeoutError as error:
        raise RemoteError("the delivery was not written in time", where="database") from error


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name, "")
    if not value:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name}: expected, as GitHub sends it")
    return value


def _parse(body: bytes) -> Webhook:
    try:
        return Webhook.model_validate_json(body)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        what = f"the body is not as GitHub's: {key + ': ' if key else ''}{first['msg']}"
        raise HTTPException(HTTPStatus.BAD_REQUEST, what) from error


def _accepted(text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", HTTPStatus.ACCEPTED)


def sign(secret: SecretStr, body: bytes) -> str:
    """Return the value of `X-Hub-Signature-256`: an HMAC over the bytes of the body."""
    digest = hmac.new(secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


ROUTES: Final = (Route(PATH, receive, methods=["POST"]),)


def lane_of(repository_id: int, run: WorkflowRun) -> str:
    """Name the lane of a run, by the workflow, the branch at its head and its repository.

    Not by the pull request: GitHub gives no number of it for a fork, nor after it is closed, so
    that two runs of a pull request would get two lanes.
    """
    branch = f"{run.repository_id or 0}:{run.head_branch or ''}"
    return storable(f"{repository_id}/branch/{branch}/{run.workflow}", LANE_LENGTH)


def latest_attempt(repository_id: int, run: WorkflowRun, source: Source) -> NewWork:
    """Make the entry of the attempt that a webhook or a list names."""
    key = RunKey(repository_id, run.id, run.run_attempt)
    return NewWork(key, lane_of(repository_id, run), source)


def all_attempts(repository_id: int, run: WorkflowRun, source: Source) -> tuple[NewWork, ...]:
    """Make entries of all attempts: earlier ones are complete, and their webhooks may be lost."""
    latest = latest_attempt(repository_id, run, source)
    keys = (replace(latest.key, run_attempt=number) for number in range(1, run.run_attempt + 1))
    return tuple(replace(latest, key=key) for key in keys)
