"""What GitHub keeps elsewhere and points to: fetched into a file, whole and checked, or not at all.

The address that GitHub gives lives a minute and names whoever may read it. So no credentials go
along, each attempt asks for a new one, and an error never shows it.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, Final, NoReturn

import httpx

from ciguard.github.api_errors import STORAGE, GitHubError

# 403: the address is too old.
_RETRYABLE_STATUSES: Final = frozenset(
    {HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)


class DownloadInterrupted(Exception):
    """The storage was lost, or answered as it does when an address is too old: begin anew."""


@dataclass(slots=True)
class Budget:
    """What all downloads together may bring."""

    remaining_bytes: int

    def spend(self, size: int) -> None:
        """Count a piece.

        Raises:
            GitHubError: it is one too many.
        """
        self.remaining_bytes -= size
        if self.remaining_bytes < 0:
            what = "more than all artifacts of a run together may have"
            raise GitHubError(what, where=STORAGE, status=int(HTTPStatus.OK))


@dataclass(frozen=True, slots=True)
class Download:
    """One file on its way into `stream`; each attempt begins anew.

    Attributes:
        digest: of the whole file as `sha256:...`; "" where GitHub does not know it.
        max_bytes: of the whole.
    """

    stream: IO[bytes]
    budget: Budget
    digest: str = ""
    max_bytes: int = 1 << 28

    async def fetch(self, client: httpx.AsyncClient, url: str, timeout_s: float) -> None:
        """Get the whole file, if that is done in `timeout_s`.

        Raises:
            DownloadInterrupted: another attempt may do better.
            httpx.HTTPStatusError: it is not there.
            GitHubError: it is too large.
        """
        self.stream.seek(0)
        self.stream.truncate()
        try:
            async with asyncio.timeout(timeout_s):
                digest = await self._get(client, url)
        except TimeoutError:
            what = f"not all of it came in {timeout_s:g} s"
            raise DownloadInterrupted from httpx.ReadTimeout(what)
        except httpx.TransportError as error:
            raise DownloadInterrupted from error
        if self.digest not in ("", digest):
            raise DownloadInterrupted from GitHubError(
                "what came is not what was uploaded: its digest is another",
                where=STORAGE,
                fix="run this again; if that does not help, run the job again that uploaded it",
                status=int(HTTPStatus.OK),
            )

    async def _get(self, client: httpx.AsyncClient, url: str) -> str:
        """Write the file; gives its digest."""
        found, size = hashlib.sha256(), 0
        headers = {"Accept-Encoding": "identity"}  # the digest is that of the bytes as they are
        async with client.stream(
            "GET", url, auth=None, headers=headers, follow_redirects=True
        ) as response:
            if response.is_error:
                _raise_for_status(response)
            async for piece in response.aiter_bytes():
                self.budget.spend(len(piece))
                size += len(piece)
                if size > self.max_bytes:
                    what, status = f"larger than {self.max_bytes >> 20} MiB", response.status_code
                    raise GitHubError(what, where=STORAGE, status=status)
                found.update(piece)
                self.stream.write(piece)
        return f"sha256:{found.hexdigest()}"


def _raise_for_status(response: httpx.Response) -> NoReturn:
    """Raise; the storage's words are not read, for they may have no end."""
    status = response.status_code
    bare = httpx.Response(status, request=response.request)
    error = httpx.HTTPStatusError(str(status), request=response.request, response=bare)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE_STATUSES:
        raise DownloadInterrupted from error
    raise error
