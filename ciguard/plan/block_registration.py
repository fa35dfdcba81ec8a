"""Registration of a plan's blocks (units that may move) at a service, which gives them to legs.

The job waits two seconds for the service and then continues without it: legs then run their own
units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

from ciguard.errors import RemoteError, UsageError
from ciguard.history.daemon_thread import in_thread
from ciguard.history.service_credentials import TOKEN_VARIABLE, credentials, origin_of
from ciguard.model.plan import exchange_groups
from ciguard.model.service_address import is_safe
from ciguard.text import one_line

if TYPE_CHECKING:
    from ciguard.github.events import ActionsRun
    from ciguard.model import Plan

PATIENCE_S: Final = 2.0
RETRY_S: Final = 0.25  # interval of retries within `PATIENCE_S`, as during a restart of the service
DIGITS: Final = 3


def service_address(url: str) -> str:
    """Return scheme, host and port of the service.

    Raises:
        UsageError: a token must not be sent to the address, or the address has a path.
    """
    parts = urlsplit(url) if is_safe(url) and "@" not in url else None
    if parts is None or parts.path.strip("/") or parts.query or parts.fragment:
        fix = "write https://HOST, as in the service's --url"
        raise UsageError("not the https address of a service", where="plan.claims", fix=fix)
    return origin_of(url)


def registration(plan: Plan) -> dict[str, Any]:
    """Return the body of the request: each leg's own part and its blocks, in predicted seconds."""
    groups, legs = exchange_groups(plan), {}
    for shard in plan.shards:
        own_s = math.fsum(unit.wall_s for unit in shard.units[: shard.own_count])
        names = shard.units_by_block()
        legs[shard.key] = {
            "group": groups[shard.key],
            "own_s": round(own_s / max(1, shard.processes), DIGITS),
            "blocks": {
                name: round(block.wall_s, DIGITS)
                for name, block in zip(names, shard.blocks, strict=True)
            },
        }
    return {"plan": plan.id, "legs": legs}


def without_foreign_token(
    environ: Mapping[str, str], history_store: str, address: str
) -> Mapping[str, str]:
    """Remove the history's token from the environment, unless the service keeps the history."""
    if is_safe(history_store) and origin_of(history_store) == address:
        return environ
    return {name: value for name, value in environ.items() if name != TOKEN_VARIABLE}


def register(plan: Plan, run: ActionsRun, environ: Mapping[str, str], address: str) -> str:
    """Register the blocks of a plan for a run; return the token with which its legs request them.

    The job of this command may have GitHub's token, and therefore runs no code of the checkout. The
    plan comes from a job that did, so that the plan must not choose the receiver of the token.

    Args:
        environ: with access to GitHub's OIDC token, or with a token of this service.
        address: of the service.

    Raises:
        RemoteError: the plan names another service, or this one is unreachable or refuses.
    """
    if plan.claims != address:
        fix = "run `ciguard init --yes` again: the workflow has the address"
        raise RemoteError(f"the plan names another service than {address}", fix=fix)
    attempt = f"{run.repository}/runs/{run.run_id}/{run.run_attempt}"
    where = f"{address}/api/v1/repos/{attempt}/blocks"
    shown = credentials(environ, address)
    body = registration(plan)
    until_s = time.monotonic() + PATIENCE_S

    def put() -> httpx.Response:
        while True:
            left_s = max(until_s - time.monotonic(), RETRY_S)
            try:
                answer = httpx.put(where, json=body, headers=shown.headers(), timeout=left_s)
            except httpx.TransportError:
                if time.monotonic() + RETRY_S > until_s:
                    raise
            else:
                if not answer.is_server_error or time.monotonic() + RETRY_S > until_s:
                    return answer
            time.sleep(RETRY_S)

    try:
        answer = in_thread(put).result(PATIENCE_S)
        token = answer.json()["token"] if answer.is_success else None
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError) as error:
        words = one_line(shown.redact(str(error) or f"no answer within {PATIENCE_S:g} s"))
        raise RemoteError(f"the service cannot be asked: {words}", where=where) from error
    if isinstance(token, str):
        return token
    what = f"the service refuses: HTTP {answer.status_code}"
    if shown.problem:
        what = f"{what}; {shown.problem}"
    fix = "see the log of the service"
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
        fix = "give this job `permissions: id-token: write`"
    raise RemoteError(what, where=where, fix=fix)
