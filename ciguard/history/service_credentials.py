"""The token of a job for a ciguard service: GitHub's OIDC token, one of the environment, or none.

Source: docs.github.com, "OpenID Connect reference", "Methods for requesting the OIDC token".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import httpx

from ciguard.errors import RemoteError
from ciguard.history.daemon_thread import in_thread
from ciguard.model.service_address import BEARER_TOKEN, REQUEST_TOKEN, REQUEST_URL, is_safe

TOKEN_VARIABLE: Final = "CIGUARD_HISTORY_TOKEN"
REQUEST_S: Final = 2.0
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A bearer token, "" for none; `problem` is why GitHub's OIDC token could not be used."""

    token: str = field(default="", repr=False)
    problem: str = ""

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def redact(self, text: str) -> str:
        return text.replace(self.token, "***") if self.token else text


def origin_of(address: str) -> str:
    """Return scheme, host and port of an address: the audience of GitHub's token."""
    parts = urlsplit(address)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    is_default = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{host}" + ("" if is_default else f":{parts.port}")


def credentials(environ: Mapping[str, str], audience: str) -> Credentials:
    """Return a token of GitHub if the job has this permission, otherwise the environment's."""
    url, secret = environ.get(REQUEST_URL, ""), environ.get(REQUEST_TOKEN, "")
    problem = ""
    if url and secret:
        try:
            return Credentials(in_thread(lambda: _request(url, secret, audience)).result(REQUEST_S))
        except TimeoutError:
            problem = f"GitHub gave no OIDC token within {REQUEST_S:g} s"
        except RemoteError as error:
            problem = error.what
    token = environ.get(TOKEN_VARIABLE, "").strip()
    if token and not BEARER_TOKEN.fullmatch(token):
        return Credentials("", f"{TOKEN_VARIABLE} is not a token")
    return Credentials(token, problem)


def _request(url: str, secret: str, audience: str) -> str:
    if not is_safe(url):
        raise RemoteError(f"{REQUEST_URL} is no https address")
    headers = {"Authorization": f"Bearer {secret}"}
    try:
        address = httpx.URL(url).copy_merge_params({"audience": audience})
        with httpx.Client(timeout=REQUEST_S, headers=headers) as client:
            answer = client.get(address)
        token = answer.json()["value"] if answer.is_success else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
        # Only the type of the error: its text may contain the address, part of which is secret.
        raise RemoteError(f"GitHub gave no OIDC token: {type(error).__name__}") from error
    if not isinstance(token, str) or not BEARER_TOKEN.fullmatch(token):
        raise RemoteError(f"GitHub gave no OIDC token: HTTP {answer.status_code}")
    return token
