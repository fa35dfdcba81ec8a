"""Clients of GitHub for the service: as an App's installation, or with one token for all.

Source: docs.github.com, "About authentication with a GitHub App": a signed JWT of at most ten
minutes gets the token of an installation, which is valid for an hour.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

import jwt
from gidgethub.apps import get_jwt
from pydantic import AwareDatetime, SecretStr

from ciguard.errors import CiguardError, UsageError
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import Account, GitHubJson, Repository
from ciguard.github.retry import RetryPolicy
from ciguard.serve.settings import Settings
from ciguard.serve.state.pauses import Refusal

# After a longer wait, a worker judges the run later, and does other work meanwhile.
RETRY_POLICY: Final = RetryPolicy(attempts=3, total_s=5.0)
SPARE: Final = timedelta(minutes=5)  # remaining validity of a token that a job gets


class AppFacts(GitHubJson):
    """Facts about an App; `slug` is its name in addresses and in its account."""

    slug: str


class Installation(GitHubJson):
    """The App in the account of an organisation or user; a suspended one has no rights."""

    id: int
    account: Account | None = None
    suspended_at: AwareDatetime | None = None


class InstallationToken(GitHubJson):
    token: SecretStr
    expires_at: AwareDatetime


class App:
    """A GitHub App with its private key; threads may share it.

    Args:
        app_id: number or client id of the App.
        private_key: PEM; in no error and no repr.
        connect: opens a client with a token; `client` closes it.

    Raises:
        UsageError: the key is malformed.
        GitHubError: (every call) GitHub refused or did not answer.
    """

    def __init__(
        self,
        app_id: str,
        private_key: SecretStr,
        connect: Callable[[SecretStr], GitHub],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._app_id = app_id
        self._private_key = private_key
        self._connect = connect
        self._now = now
        self._account: Account | None = None
        self._tokens: dict[int, InstallationToken] = {}
        self._locks: dict[int, threading.Lock] = {}
        self._jwt()

    def account(self) -> Account:
        """Return the account of the App, which writes comments; one call for all."""
        if self._account is None:
            with self._as_app() as github:
                slug = github.item(AppFacts, "/app").slug
            self._account = Account(login=f"{slug}[bot]", type="Bot")
        return self._account

    def installations(self) -> tuple[Installation, ...]:
        """List all installations, one call per 100."""
        with self._as_app() as github:
            return github.items(Installation, "/app/installations")

    def repositories(self, installation_id: int) -> tuple[Repository, ...]:
        """List the repositories of an installation, one call per 100."""
        with self.client(installation_id) as github:
            return github.items(Repository, "/installation/repositories", key="repositories")

    @contextlib.contextmanager
    def client(self, installation_id: int) -> Iterator[GitHub]:
        """Open a client of one installation, for one thread.

        A refused token (401) is not used again: the App may be reinstalled, or a clock wrong.
        """
        token = self.token(installation_id)
        with self._connect(token) as github:
            try:
                yield github
            except GitHubError as error:
                if error.status == HTTPStatus.UNAUTHORIZED:
                    self._tokens.pop(installation_id, None)
                raise

    def token(self, installation_id: int) -> SecretStr:
        """Return a token that is valid for another five minutes; only one thread gets a new one."""
        with self._locks.setdefault(installation_id, threading.Lock()):
            issued = self._tokens.get(installation_id)
            if issued is None or issued.expires_at - SPARE <= self._now():
                path = f"/app/installations/{installation_id}/access_tokens"
                with self._as_app() as github:
                    issued = github.post(InstallationToken, path, {})
                self._tokens[installation_id] = issued
            return issued.token

    def _as_app(self) -> GitHub:
        return self._connect(SecretStr(self._jwt()))

    def _jwt(self) -> str:
        try:
            return get_jwt(app_id=self._app_id, private_key=self._private_key.get_secret_value())
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            # Not the message of the library, which could quote the key.
            what = "expected the App's private key, RSA in PEM (-----BEGIN RSA PRIVATE KEY-----)"
            fix = "set CIGUARD_APP_KEY to the key that the App's settings page gave, or to its file"
            raise UsageError(what, where="CIGUARD_APP_KEY", fix=fix) from error


def refusal_of(error: CiguardError) -> Refusal | None:
    """Return GitHub's refusal of credentials, permissions or rate; None for another error."""
    if not isinstance(error, GitHubError):
        return None
    if error.wait_s is not None:
        return Refusal(error.what, error.wait_s)
    problem, is_of_app = f"{error.what}; {error.fix}", " /app/" in error.where
    if error.status == HTTPStatus.UNAUTHORIZED or (is_of_app and not error.is_transient):
        return Refusal(problem)
    is_forbidden = error.status == HTTPStatus.FORBIDDEN
    return Refusal(problem, is_of_repository=True) if is_forbidden else None


class GitHubClients:
    """Opens clients; threads may share it, and each opens its own clients.

    Attributes:
        app: None with a token.

    Raises:
        UsageError: the key of the App is malformed.
    """

    def __init__(self, settings: Settings, *, retry_policy: RetryPolicy = RETRY_POLICY) -> None:
        self._token = settings.token
        self._connect = partial(GitHub, settings.api_url, retry_policy=retry_policy)
        credentials = settings.app
        self.app = App(credentials.id, credentials.secret, self._connect) if credentials else None

    def author(self) -> Account | None:
        """Return the account that writes comments: the App's; None for the owner of the token.

        Raises:
            GitHubError: GitHub refused or did not answer.
        """
        return self.app.account() if self.app else None

    def client(self, installation_id: int | None) -> contextlib.AbstractContextManager[GitHub]:
        """Open a client for the repositories of an installation, for one thread.

        Args:
            installation_id: None with a token, which is for all repositories.

        Raises:
            GitHubError: GitHub refused or did not answer, also within the block.
        """
        if self.app is not None and installation_id is not None:
            return self.app.client(installation_id)
        if self._token is None:
            what = "the App is not installed there"
            raise GitHubError(what, fix="install it again", status=HTTPStatus.NOT_FOUND)
        return self._connect(self._token)
