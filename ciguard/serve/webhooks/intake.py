"""`POST /webhooks/github`: checks a delivery, and answers 202 once it is durable.

GitHub sends a delivery once, waits ten seconds for the answer and does not retry.
`serve/work/reconcile.py` finds lost changes.
Source: docs.github.com, "Validating webhook deliveries".
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from http import HTTPStatus
from typing import Final

import pydantic
from prometheus_client import Histogram
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ciguard.errors import RemoteError
from ciguard.github.models import Webhook
from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.request_threads import DEADLINE_S
from ciguard.serve.service import Service
from ciguard.serve.state.deliveries import Delivery
from ciguard.serve.webhooks.effects import HANDLED, Received, has_subject

PATH: Final = "/webhooks/github"
BODY_BYTES: Final = 25 << 20  # GitHub's limit of a payload
WRONG_SECRET: Final = "the signature was not made with the value of CIGUARD_WEBHOOK_SECRET"
ANSWER_S: Final = 9.0  # GitHub waits for ten
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
    if secret is None or not is_signed(secret, body, signature):
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
    await _store(
        request.app.state.delivery_writer,
        Received(Delivery(delivery_id, event, payload.action, repository_id), payload),
    )
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


def is_signed(secret: SecretStr, body: bytes, signature: str) -> bool:
    """Return whether GitHub signed a delivery; the comparison takes constant time."""
    return hmac.compare_digest(sign(secret, body).encode(), signature.encode("utf-8", "replace"))


ROUTES: Final = (Route(PATH, receive, methods=["POST"]),)
