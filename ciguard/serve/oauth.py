"""Sign-in of people by GitHub's web application flow: who they are, and what they may see.

Source: https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps; GitHub
takes PKCE (RFC 7636, S256) as well. A GitHub App ignores `scope`; an OAuth App has no narrower one
that shows private repositories.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import httpx
from pydantic import SecretStr

from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import GitHubJson
from ciguard.github.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

SCOPE: Final = "repo"
TIMEOUT_S: Final = 10.0  # somebody waits
_RETRY: Final = RetryPolicy(attempts=2, total_s=2.0)


class _User(GitHubJson):
    login: str


class _Repository(GitHubJson):
    id: int


def authorize_url(
    server_url: str, client_id: str, *, state: str, verifier: str, redirect_uri: str = ""
) -> str:
    """Where a person says yes.

    Args:
        verifier: a secret of 43 to 128 characters; its digest goes with the address.
        redirect_uri: "" for the one that is registered.
    """
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    query = {
        "client_id": client_id,
        "state": state,
        "scope": SCOPE,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if redirect_uri:
        query["redirect_uri"] = redirect_uri
    return f"{server_url}/login/oauth/authorize?{urlencode(query)}"


def exchange_code(
    server_url: str, client_id: str, client_secret: SecretStr, *, code: str, verifier: str
) -> SecretStr:
    """The person's token for the code that GitHub gave.

    Raises:
        GitHubError: GitHub refused the code, or did not answer.
    """
    address = f"{server_url}/login/oauth/access_token"
    data = {
        "client_id": client_id,
        "client_secret": client_secret.get_secret_value(),
        "code": code,
        "code_verifier": verifier,
    }
    try:
        accept = {"accept": "application/json"}
        answer = httpx.post(address, data=data, headers=accept, timeout=TIMEOUT_S)
        found = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        # Neither the body nor the address that failed: both hold secrets.
        raise GitHubError("no answer to the sign-in", where=address) from error
    return _token(found, address)


def _token(found: Mapping[str, object], where: str) -> SecretStr:
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not token:
        # A refused code is answered with 200 and the word for it.
        word = found.get("error") if isinstance(found, dict) else None
        raise GitHubError(f"the sign-in was refused: {word or 'no token'}"[:200], where=where)
    return SecretStr(token)


def login_of(api_url: str, token: SecretStr) -> str:
    """Whose token it is.

    Raises:
        GitHubError: it is nobody's any more (status 401), or GitHub does not answer.
    """
    with GitHub(api_url, token, retry_policy=_RETRY, timeout_s=TIMEOUT_S) as github:
        return github.item(_User, "/user").login


def private_repositories(api_url: str, token: SecretStr) -> frozenset[int]:
    """The numbers of the private repositories that a person may see.

    Raises:
        GitHubError: as `login_of`.
    """
    with GitHub(api_url, token, retry_policy=_RETRY, timeout_s=TIMEOUT_S) as github:
        return frozenset(
            one.id for one in github.items(_Repository, "/user/repos?visibility=private")
        )
