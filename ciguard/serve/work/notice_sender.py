"""The messages to owners: recorded with a run, and sent by a webhook or as an issue."""

from __future__ import annotations

import logging
from typing import Final

import httpx
from pydantic import SecretStr

from ciguard.errors import CiguardError, RemoteError
from ciguard.report.publish import upsert_issue
from ciguard.serve.service import Service
from ciguard.serve.state import notices, repositories
from ciguard.serve.state.notices import Notice
from ciguard.serve.webhooks import sign
from ciguard.serve.work import notice_view

_LOG: Final = logging.getLogger(__name__)
BATCH: Final = 100
SEND_S: Final = 10.0
ISSUE: Final = "issue"  # the route that is no webhook
SLACK: Final = "https://hooks.slack.com/"
SIGNATURE: Final = "X-Ciguard-Signature-256"


def send_waiting(service: Service) -> None:
    """Send each message that waits; what was not sent for sure is tried again by the next call."""
    with service.database.read() as connection:
        waiting = notices.unsent(connection, BATCH)
    for notice in waiting:
        with service.database.write() as connection:
            is_ours = notices.mark(connection, notice)
        if not is_ours:
            continue
        try:
            _send(service, notice)
        except CiguardError as error:
            _LOG.warning("%s: the message to %s waits: %s", notice.key, notice.owner, error)
            with service.database.write() as connection:
                notices.mark(connection, notice, is_sent=False)
        except httpx.HTTPError as error:
            what = "%s: the message to %s may not have arrived: %s"
            _LOG.warning(what, notice.key, notice.owner, type(error).__name__)


def _send(service: Service, notice: Notice) -> None:
    """Send a message.

    Raises:
        CiguardError: it was not sent, or sending it again changes nothing.
        HTTPError: it may have been sent.
    """
    if notice.route == ISSUE:
        _write_issue(service, notice)
        return
    address = service.settings.routes.get(notice.route.lower())
    if address is None:
        fix = f"set CIGUARD_ROUTE_{notice.route.upper()} to its address"
        raise RemoteError("the service has no such route", where=notice.route, fix=fix)
    _post(address.get_secret_value(), notice, service.settings.route_secret)


def _write_issue(service: Service, notice: Notice) -> None:
    with service.database.read() as connection:
        repository = repositories.get(connection, notice.key.repository_id)
    if repository is None:
        return
    with service.github.client(repository.installation_id) as github:
        upsert_issue(
            github,
            repository.full_name,
            key=f"{notice.workflow} {notice.owner}",
            title=notice_view.title(notice),
            body=notice_view.markdown(notice),
            is_red=notice.event == "red",
            run=(notice.key.run_id, notice.key.run_attempt),
            author=service.github.author(),
        )


def _post(address: str, notice: Notice, secret: SecretStr | None) -> None:
    content = (notice_view.as_slack if address.startswith(SLACK) else notice_view.as_json)(notice)
    headers = {"Content-Type": "application/json"}
    if secret is not None:
        headers[SIGNATURE] = sign(secret, content)
    try:
        answer = httpx.post(address, content=content, headers=headers, timeout=SEND_S)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise RemoteError(type(error).__name__, where=f"route {notice.route}") from None
    if not answer.is_success:
        raise RemoteError(f"HTTP {answer.status_code}", where=f"route {notice.route}")
