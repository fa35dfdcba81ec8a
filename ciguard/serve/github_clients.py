"""Clients of GitHub for the service: as an App's installation, or with one token for all.

A limit of GitHub is of one installation. Its work waits; that of others goes on.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.retry import RetryPolicy
from ciguard.serve.github_app import App

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.github.models import Account
    from ciguard.serve.settings import Settings

# A worker does something else meanwhile: what GitHub asks to wait for longer is put off.
RETRY_POLICY: Final = RetryPolicy(attempts=3, total_s=5.0)


class GitHubClients:
    """Opens clients; threads may share it, and each opens its own.

    Attributes:
        app: None with a token.

    Raises:
        UsageError: the key of the App is none.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        retry_policy: RetryPolicy = RETRY_POLICY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._token = settings.token
        self._connect = partial(GitHub, settings.api_url, retry_policy=retry_policy)
        self._limited_until_s: dict[int | None, float] = {}
        credentials = settings.app
        self.app = (
            App(credentials.app_id, credentials.private_key, self._connect) if credentials else None
        )

    def author(self) -> Account | None:
        """Who writes comments: the App; None to be found out by the token.

        Raises:
            GitHubError: GitHub refused or did not answer.
        """
        return self.app.account() if self.app else None

    @contextlib.contextmanager
    def client(self, installation_id: int | None) -> Iterator[GitHub]:
        """A client that may see an installation's repositories, for one thread.

        Args:
            installation_id: None with a token, which is for all.

        Raises:
            GitHubError: GitHub refused or did not answer, also within the block; `wait_s` says how
                long this installation has to wait, and nothing is sent before.
        """
        self._await_limit(installation_id)
        try:
            with self._open(installation_id) as github:
                yield github
        except GitHubError as error:
            if error.wait_s is not None:
                self._limited_until_s[installation_id] = self._clock() + error.wait_s
            raise

    def _open(self, installation_id: int | None) -> contextlib.AbstractContextManager[GitHub]:
        if self.app is not None and installation_id is not None:
            return self.app.client(installation_id)
        if self._token is None:
            what = "the App is not installed there"
            raise GitHubError(what, fix="install it again", status=HTTPStatus.NOT_FOUND)
        return self._connect(self._token)

    def _await_limit(self, installation_id: int | None) -> None:
        wait_s = self._limited_until_s.get(installation_id, 0.0) - self._clock()
        if wait_s > 0:
            what = f"GitHub asks to wait for another {wait_s:.0f} s"
            where = f"installation {installation_id}" if installation_id else "CIGUARD_TOKEN"
            status = HTTPStatus.TOO_MANY_REQUESTS
            raise GitHubError(what, where=where, status=status, wait_s=wait_s)
