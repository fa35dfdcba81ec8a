"""gidgethub's protocol on httpx: headers, retries and waits of each request.

This module alone decides about retries. GitHub did not carry out a request that it refused for the
rate limit, so any method is sent again. After a lost answer or a 5xx, GitHub may have carried out a
POST, so only the other methods, which are idempotent, are sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import gidgethub
import gidgethub.abc
import httpx

from ciguard.github.api_errors import STORAGE, GitHubError
from ciguard.github.downloads import Download, DownloadInterrupted
from ciguard.github.retry import RetryPolicy, rate_limit_wait_s, retry_context, server_time_s

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pydantic import SecretStr

    from ciguard.github.response_cache import CallBudget, ResponseCache

API_HEADERS: Final[Mapping[str, str]] = {
    "accept": "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
}

# Raised before a byte of the request was sent.
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TRANSPORT_ERRORS: Final = (httpx.TransportError, httpx.HTTPStatusError)

_FIRST_SERVER_FAULT: Final = 500


class TokenForHost(httpx.Auth):
    """Adds the token for one scheme, host and port only.

    gidgethub follows a `Link` header to any host. After a redirect to another host, httpx drops the
    header and does not call this class.
    """

    def __init__(self, token: SecretStr, api_url: httpx.URL) -> None:
        self._token = token
        self._origin = _origin(api_url)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin:
            request.headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        yield request


class Connection(gidgethub.abc.GitHubAPI):
    """The requests of one client: to the API one at a time, to the storage several at once.

    Args:
        sleep: waits for a rate limit.
        cache: answers with ETags, for conditional requests; None for no cache.
        calls: limit of requests; None for no limit.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        api_url: str,
        retry_policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[object]],
        cache: ResponseCache | None = None,
        calls: CallBudget | None = None,
    ) -> None:
        super().__init__("ciguard", base_url=api_url, cache=cache)
        self._calls = calls
        self._client = client
        self._retry_policy = retry_policy
        self._sleep = sleep
        self._waited_s = 0.0
        self._follows = True
        self._lock = asyncio.Lock()
        self.rate_limit_wait_s: float | None = None
        self.total_count: int | None = None  # of the list that was asked for last

    async def _make_request(self, *args: Any, **kwargs: Any) -> tuple[Any, str | None, int]:
        """Make the request, and store the total count of a list."""
        answer = await super()._make_request(*args, **kwargs)
        total = answer[0].get("total_count") if isinstance(answer[0], dict) else None
        self.total_count = total if isinstance(total, int) else None
        return answer

    def _retried(
        self, on: type[Exception] | tuple[type[Exception], ...]
    ) -> AsyncIterator[AbstractContextManager[object]]:
        return retry_context(
            on=on,
            attempts=self._retry_policy.attempts,
            timeout=None,
            wait_initial=self._retry_policy.first_s,
            wait_max=self._retry_policy.longest_s,
            wait_jitter=self._retry_policy.first_s,
        )

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        async for attempt in self._retried(NOT_SENT if method == "POST" else _TRANSPORT_ERRORS):
            with attempt:
                if self._calls is not None:
                    self._calls.spend(url)
                response = await self._client.request(
                    method,
                    url,
                    headers={**headers, **API_HEADERS},
                    content=body,
                    # A redirected write would become a read, and seem to succeed.
                    follow_redirects=method == "GET" and self._follows,
                )
                if response.status_code >= _FIRST_SERVER_FAULT:
                    response.raise_for_status()
                return response.status_code, response.headers, response.content
        raise AssertionError("the last attempt returns or raises")

    async def location(self, url: str) -> str:
        """Return the address to which a GET is redirected, without following it.

        Raises:
            gidgethub.HTTPException: refused, or not redirected.
        """
        async with self._lock:
            self._follows = False
            try:
                await self.getitem(url)
            except gidgethub.RedirectionException as moved:
                return self._redirect_target(url, moved.headers.get("location", ""))
            finally:
                self._follows = True
        raise ValueError("expected a redirection to the storage, found a document")

    def _redirect_target(self, url: str, location: str) -> str:
        address = urljoin(f"{self.base_url}{url}", location)
        if self.base_url.startswith("https:") and not address.startswith("https:"):
            # Without https, an attacker on the path could replace the content.
            raise ValueError("expected a redirection to an https address")
        return address

    async def fetch(self, url: str, download: Download) -> None:
        """Download the file to which a GET is redirected; each retry asks for a new address.

        Raises:
            gidgethub.HTTPException, httpx.HTTPError, GitHubError: the download failed.
        """
        try:
            async for attempt in self._retried(DownloadInterrupted):
                with attempt:
                    address = await self.location(url)
                    await download.fetch(self._client, address, self._retry_policy.fetch_s)
        except DownloadInterrupted as interruption:
            raise interruption.__cause__ or interruption from None

    async def tail_bytes_of(self, url: str, *, tail_bytes: int, max_bytes: int) -> bytes:
        """Return the end of a text in the storage, which never receives the token.

        Args:
            tail_bytes: length of the end.
            max_bytes: limit of the whole text.

        Raises:
            httpx.HTTPStatusError: the storage does not have the text.
            GitHubError: the text is longer than `max_bytes`.
        """
        tail, size = b"", 0
        # The address itself grants access for a minute: no credentials are sent, not even to the
        # host of the API, where an Enterprise Server may have its storage.
        async with self._client.stream("GET", url, auth=None, follow_redirects=True) as response:
            if response.is_error:
                await response.aread()
            response.raise_for_status()
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > max_bytes:
                    what, status = f"longer than {max_bytes:,} bytes", response.status_code
                    raise GitHubError(what, where=STORAGE, status=status)
                tail = (tail + piece)[-tail_bytes:]
        return tail

    async def handle_rate_limit_error(
        self,
        *,
        method: str,  # noqa: ARG002 - gidgethub's signature
        url: str,  # noqa: ARG002 - gidgethub's signature
        exception: gidgethub.HTTPException,
        attempt: int,
    ) -> bool:
        """Wait as long as GitHub asks, within the limits of the policy (a hook of gidgethub).

        `rate_limit_wait_s` is the last requested wait, for the error if it is too long; None if the
        last refusal was no rate limit.
        """
        wait_s = rate_limit_wait_s(
            int(exception.status_code),
            exception.headers,
            str(exception),
            attempt=attempt,
            now_s=server_time_s(exception.headers.get("date")) or time.time(),
            secondary_s=self._retry_policy.secondary_s,
        )
        self.rate_limit_wait_s = wait_s
        if wait_s is None or attempt >= self._retry_policy.attempts:
            return False
        if self._waited_s + wait_s > self._retry_policy.total_s:
            return False
        await self.sleep(wait_s)
        self._waited_s += wait_s
        return True

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
