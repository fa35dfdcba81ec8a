"""GitHub's web application flow: the token, login and private repositories of a person.

Source: https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps; GitHub
supports PKCE (RFC 7636, S256). A GitHub App ignores `scope`; an OAuth App has no narrower scope
that shows private repositories.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final
from urllib.parse import urlencode

import httpx
from pydantic import SecretStr

from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import Account, Repository
from ciguard.github.retry import RetryPolicy

SCOPE: Final = "repo"
TIMEOUT_S: Final = 10.0  # a person waits
_RETRY: Final = RetryPolicy(attempts=2, total_s=2.0)


def authorize_url(
    server_url: str, client_id: str, *, state: str, verifier: str, redirect_uri: str = ""
) -> str:
    """Return the address at which a person authorizes the sign-in.

    Args:
        verifier: a secret of 43 to 128 characters; the address has its digest.
        redirect_uri: "" for the registered one.
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
    """Exchange the code in GitHub's redirect for the token of the person.

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
        content = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        # Neither the body nor the failed address, which hold secrets.
        raise GitHubError("no answer to the sign-in", where=address) from error
    values = content if isinstance(content, dict) else {}
    token = values.get("access_token")
    if not isinstance(token, str) or not token:
        # GitHub answers a refused code with 200 and the name of the error.
        what = f"the sign-in was refused: {values.get('error') or 'no token'}"[:200]
        raise GitHubError(what, where=address)
    return SecretStr(token)


def login_of(api_url: str, token: SecretStr) -> str:
    """Return the login of the owner of a token.

    Raises:
        GitHubError: the token is invalid (status 401), or GitHub does not answer.
    """
    with GitHub(api_url, token, retry_policy=_RETRY, timeout_s=TIMEOUT_S) as github:
        return github.item(Account, "/user").login


def private_repositories(api_url: str, token: SecretStr) -> frozenset[int]:
    """Return the numbers of the private repositories that a person may see.

    Raises:
        GitHubError: as `login_of`.
    """
    with GitHub(api_url, token, retry_policy=_RETRY, timeout_s=TIMEOUT_S) as github:
        private = github.items(Repository, "/user/repos?visibility=private")
        return frozenset(repository.id for repository in private if repository.id is not None)
