"""gidgethub's protocol on httpx: what is sent with each request, sent again, and waited for.

Which request may be sent twice is decided here and nowhere else. A refusal for the rate limit was
not carried out, so any request may follow it; after a lost answer or a 5xx a POST may have been
carried out, so only the other methods, which give the same result twice, are sent again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import gidgethub
import gidgethub.abc
import httpx

from ciguard.github.api_errors import STORAGE, GitHubError
from ciguard.github.downloads import Download, DownloadInterrupted
from ciguard.github.retry import RetryPolicy, rate_limit_wait_s, retry_context, server_time_s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
    from contextlib import AbstractContextManager

    from pydantic import SecretStr

    from ciguard.github.response_cache import CallBudget, ResponseCache

API_HEADERS: Final[Mapping[str, str]] = {
    "accept": "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
}

# Raised before a byte of the request left.
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TRANSPORT_ERRORS: Final = (httpx.TransportError, httpx.HTTPStatusError)

_FIRST_SERVER_FAULT: Final = 500


class TokenForHost(httpx.Auth):
    """Adds the token for one scheme, host and port only.

    A `Link` header can name any host, and gidgethub follows it; a redirect loses the header in
    httpx, which does not ask this class again.
    """

    def __init__(self, token: SecretStr, api_url: httpx.URL) -> None:
        self._token = token
        self._origin = _origin(api_url)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin:
            request.headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        yield request


class Connection(gidgethub.abc.GitHubAPI):
    """One client's requests: one after the other, as GitHub asks for, and what its storage has,
    several side by side.

    Args:
        sleep: waits for a rate limit.
        cache: answers that are asked for by their ETag; None for none.
        calls: how many requests may be sent; None for any number.
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
        """As gidgethub does it, and keep how long a list says that it is."""
        found = await super()._make_request(*args, **kwargs)
        total = found[0].get("total_count") if isinstance(found[0], dict) else None
        self.total_count = total if isinstance(total, int) else None
        return found

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
                    # A redirected write would be sent on as a read, and look done.
                    follow_redirects=method == "GET" and self._follows,
                )
                if response.status_code >= _FIRST_SERVER_FAULT:
                    response.raise_for_status()
                return response.status_code, response.headers, response.content
        raise AssertionError("the last attempt returns or raises")

    async def location(self, url: str) -> str:
        """Where a GET is redirected to, without going there.

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
        place = urljoin(f"{self.base_url}{url}", location)
        if self.base_url.startswith("https:") and not place.startswith("https:"):
            # What lies there would come from whoever stands in between.
            raise ValueError("expected a redirection to an https address")
        return place

    async def fetch(self, url: str, arriving: Download) -> None:
        """Get what a GET is redirected to; after a cut anew, by a new address.

        Raises:
            gidgethub.HTTPException, httpx.HTTPError, GitHubError: it cannot be had.
        """
        try:
            async for attempt in self._retried(DownloadInterrupted):
                with attempt:
                    place = await self.location(url)
                    await arriving.fetch(self._client, place, self._retry_policy.fetch_s)
        except DownloadInterrupted as cut:
            raise cut.__cause__ or cut from None

    async def tail_bytes_of(self, url: str, *, tail_bytes: int, max_bytes: int) -> bytes:
        """The end of a text in somebody's storage; the token is never sent there.

        Args:
            tail_bytes: of its end.
            max_bytes: of the whole; of a longer text nothing is known to be its end.

        Raises:
            httpx.HTTPStatusError: the storage does not have it.
            GitHubError: it is longer than that.
        """
        tail, seen = b"", 0
        # The address lives a minute and names whoever may read it: no credentials go along, not
        # even to the API's own host, where an enterprise server may keep its storage.
        async with self._client.stream("GET", url, auth=None, follow_redirects=True) as response:
            if response.is_error:
                await response.aread()
            response.raise_for_status()
            async for piece in response.aiter_bytes():
                seen += len(piece)
                if seen > max_bytes:
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
        """Wait as long as GitHub asks, while patience lasts (gidgethub's own hook for this).

        `rate_limit_wait_s` keeps what was asked for last, for the text of the error that is raised
        where it was too long; None where the last refusal was no rate limit.
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
        too_long = wait_s is None or self._waited_s + wait_s > self._retry_policy.total_s
        if wait_s is None or too_long or attempt >= self._retry_policy.attempts:
            return False
        await self.sleep(wait_s)
        self._waited_s += wait_s
        return True

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
