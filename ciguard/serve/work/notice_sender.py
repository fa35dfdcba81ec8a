"""The messages to owners: recorded with a run, and sent by a webhook or as an issue."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import httpx
from pydantic import SecretStr

from ciguard.errors import CiguardError
from ciguard.github.api_errors import GitHubError
from ciguard.history.daemon_thread import in_thread
from ciguard.report.publish import upsert_issue
from ciguard.serve.service import Service
from ciguard.serve.state import notices, repositories
from ciguard.serve.state.notices import Notice, State
from ciguard.serve.webhooks import sign
from ciguard.serve.work import notice_view

_LOG: Final = logging.getLogger(__name__)
BATCH: Final = 100
SEND_S: Final = 10.0
ISSUE: Final = "issue"  # the route that is no webhook
SLACK: Final = "https://hooks.slack.com/"
SIGNATURE: Final = "X-Ciguard-Signature-256"
# Other statuses from 500 are of gateways, which may have passed a message on; others are refusals.
_STATES: Final[Mapping[int, State]] = {408: "sent", 429: "waiting", 503: "waiting"}


def send_waiting(service: Service) -> None:
    """Send each message that is due; what was not sent for sure is tried again later."""
    with service.database.read() as connection:
        waiting = notices.unsent(connection, BATCH)
    for notice in waiting:
        message = (notice.key, notice.owner)
        with service.database.write() as connection:
            if not notices.change(connection, message, ["waiting"], "sending", notices.SENDING_S):
                continue
        state, problem = _send(service, notice)
        if state == "waiting" and notice.age_s > notices.LATEST_S:
            state = "given_up"
        if problem:
            _LOG.warning("%s: the message to %s counts as %s: %s", *message, state, problem)
        wait_s = min(notices.LONGEST_S, max(notices.FIRST_S, notice.age_s))
        with service.database.write() as connection:
            notices.change(connection, message, ["sending"], state, wait_s)


def _send(service: Service, notice: Notice) -> tuple[State, str]:
    """Send a message; return its state, "sent" if it may have arrived, and the problem or ""."""
    if notice.route == ISSUE:
        try:
            _write_issue(service, notice)
        except CiguardError as error:  # an issue is never written twice
            is_final = isinstance(error, GitHubError) and not error.is_transient
            return "given_up" if is_final else "waiting", str(error)
        return "sent", ""
    address = service.settings.routes.get(notice.route.lower())
    if address is None:
        return "given_up", f"set CIGUARD_ROUTE_{notice.route.upper()} to the address of its webhook"
    return _post(address.get_secret_value(), notice, service.settings.route_secret)


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


def _post(address: str, notice: Notice, secret: SecretStr | None) -> tuple[State, str]:
    content = (notice_view.as_slack if address.startswith(SLACK) else notice_view.as_json)(notice)
    headers = {"Content-Type": "application/json"}
    if secret is not None:
        headers[SIGNATURE] = sign(secret, content)

    def send() -> int:
        wait = httpx.Timeout(SEND_S, connect=SEND_S / 4)  # of each address of the host
        with httpx.stream("POST", address, content=content, headers=headers, timeout=wait) as reply:
            return reply.status_code

    try:
        status = in_thread(send).result(SEND_S)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        return "waiting", f"route {notice.route}: {type(error).__name__}"
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        return "given_up", f"route {notice.route}: {type(error).__name__}"
    except (httpx.HTTPError, TimeoutError) as error:
        return "sent", f"route {notice.route}: {type(error).__name__}"
    is_refusal = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    state = _STATES.get(status, "given_up" if is_refusal else "sent")
    is_success = status < HTTPStatus.MULTIPLE_CHOICES
    return state, "" if is_success else f"route {notice.route}: HTTP {status}"
