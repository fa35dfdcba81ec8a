"""What GitHub keeps elsewhere and points to: fetched into a file, whole and checked, or not at all.

The address that GitHub gives lives a minute and names whoever may read it. So no credentials go
along, each attempt asks for a new one, and an error never shows it.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final, NoReturn

import httpx

from ciguard.github.api_errors import STORAGE, GitHubError

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES: Final = 1 << 20
# 403: the address is too old.
_RETRYABLE_STATUSES: Final = frozenset(
    {
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


class DownloadInterrupted(Exception):
    """The storage was lost, or answered as it does when an address is too old: begin anew."""


@dataclass(slots=True)
class Budget:
    """What all downloads together may bring; `received` counts every piece."""

    remaining_bytes: int
    on_progress: Callable[[int], None] = lambda _: None

    def spend(self, size: int) -> None:
        """Count a piece.

        Raises:
            GitHubError: it is one too many.
        """
        self.remaining_bytes -= size
        if self.remaining_bytes < 0:
            what = "more than all artifacts of a run together may have"
            raise GitHubError(what, where=STORAGE, status=int(HTTPStatus.OK))
        self.on_progress(size)


@dataclass(slots=True)
class Download:
    """One file on its way: `stream` holds what of it is here, `tag` says of which content.

    Attributes:
        digest: of the whole file as `sha256:...`; "" where GitHub does not know it.
        max_bytes: of the whole.
    """

    stream: IO[bytes]
    budget: Budget
    digest: str = ""
    max_bytes: int = 1 << 28
    received_bytes: int = 0
    tag: str = ""

    async def fetch(self, client: httpx.AsyncClient, url: str, timeout_s: float) -> None:
        """Get what is missing, as far as that is done in `timeout_s`.

        Raises:
            DownloadInterrupted: not all of it came; `received_bytes` did.
            httpx.HTTPStatusError: it is not there.
            GitHubError: it is too large.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._get(client, url)
        except (httpx.TransportError, TimeoutError) as error:
            if not self.tag:
                self._restart()
            if isinstance(error, TimeoutError):
                error = httpx.ReadTimeout(f"not all of it came in {timeout_s:g} s")
            raise DownloadInterrupted from error
        if self.digest and self.digest != await asyncio.to_thread(self._sha256):
            self._restart()
            raise DownloadInterrupted from GitHubError(
                "what came is not what was uploaded: its digest is another",
                where=STORAGE,
                fix="run this again; if that does not help, run the job again that uploaded it",
                status=int(HTTPStatus.OK),
            )

    async def _get(self, client: httpx.AsyncClient, url: str) -> None:
        # Packed on its way, the bytes that are here would not tell from where to go on.
        headers = {"Accept-Encoding": "identity"}
        if self.received_bytes:
            headers |= {"Range": f"bytes={self.received_bytes}-", "If-Range": self.tag}
        async with client.stream(
            "GET", url, auth=None, headers=headers, follow_redirects=True
        ) as response:
            if response.is_error:
                self._raise_for_status(response)
            self._seek_to_start(response)
            async for piece in response.aiter_bytes():
                self._write_chunk(piece, response.status_code)

    def _raise_for_status(self, response: httpx.Response) -> NoReturn:
        """Raise; the storage's words are not read, for they may have no end."""
        status = response.status_code
        bare = httpx.Response(status, request=response.request)
        error = httpx.HTTPStatusError(str(status), request=response.request, response=bare)
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._restart()  # what is here is not the begin of what is there
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE_STATUSES:
            raise DownloadInterrupted from error
        raise error

    def _seek_to_start(self, response: httpx.Response) -> None:
        """Go on behind what is here where the answer does; else begin at the begin."""
        range_ = response.headers.get("content-range", "")
        goes_on = response.status_code == HTTPStatus.PARTIAL_CONTENT
        if goes_on and not range_.startswith(f"bytes {self.received_bytes}-"):
            self._restart()
            raise DownloadInterrupted from httpx.RemoteProtocolError(
                f"asked for a range, got {range_!r:.80}"
            )
        if not goes_on:
            self._restart()
        tag = response.headers.get("etag", "")
        packed = "content-encoding" in response.headers
        # A weak tag does not vouch for bytes.
        self.tag = "" if tag.startswith("W/") or packed else tag

    def _write_chunk(self, piece: bytes, status: int) -> None:
        self.budget.spend(len(piece))
        self.received_bytes += len(piece)
        if self.received_bytes > self.max_bytes:
            what = f"larger than {self.max_bytes >> 20} MiB"
            raise GitHubError(what, where=STORAGE, status=status)
        self.stream.write(piece)

    def _restart(self) -> None:
        self.stream.seek(0)
        self.stream.truncate()
        self.received_bytes, self.tag = 0, ""

    def _sha256(self) -> str:
        self.stream.seek(0)
        found = hashlib.sha256()
        while piece := self.stream.read(_READ_BYTES):
            found.update(piece)
        return f"sha256:{found.hexdigest()}"
