"""Downloads from GitHub's storage into a file: complete and checked, or not at all.

GitHub redirects to an address that grants access for a minute. So no credentials are sent, each
attempt asks for a new address, and no error shows it.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, Final, NoReturn

import httpx

from ciguard.github.api_errors import STORAGE, GitHubError

# 403: the address has expired.
_RETRYABLE_STATUSES: Final = frozenset(
    {HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)


class DownloadInterrupted(Exception):
    """The connection was lost, or the address has expired: another attempt may succeed."""


@dataclass(slots=True)
class Budget:
    remaining_bytes: int


@dataclass(frozen=True, slots=True)
class Download:
    """The download of one file into `stream`; each attempt starts from the beginning.

    Attributes:
        digest: digest of the file, as `sha256:...`; "" if GitHub does not know it.
        max_bytes: limit of the file.
    """

    stream: IO[bytes]
    budget: Budget
    digest: str = ""
    max_bytes: int = 1 << 28

    async def fetch(self, client: httpx.AsyncClient, url: str, timeout_s: float) -> None:
        """Download the file within `timeout_s`.

        Raises:
            DownloadInterrupted: another attempt may succeed.
            httpx.HTTPStatusError: the file does not exist.
            GitHubError: the file is too large.
        """
        self.stream.seek(0)
        self.stream.truncate()
        try:
            async with asyncio.timeout(timeout_s):
                digest = await self._get(client, url)
        except TimeoutError:
            what = f"not complete after {timeout_s:g} s"
            raise DownloadInterrupted from httpx.ReadTimeout(what)
        except httpx.TransportError as error:
            raise DownloadInterrupted from error
        if self.digest not in ("", digest):
            raise DownloadInterrupted from GitHubError(
                "the download differs from the uploaded file (other digest)",
                where=STORAGE,
                fix="run this again; if that does not help, run the job that uploaded it again",
                status=int(HTTPStatus.OK),
            )

    async def _get(self, client: httpx.AsyncClient, url: str) -> str:
        """Write the file; return its digest."""
        digest, size = hashlib.sha256(), 0
        headers = {"Accept-Encoding": "identity"}  # the digest is of the uncompressed bytes
        async with client.stream(
            "GET", url, auth=None, headers=headers, follow_redirects=True
        ) as response:
            if response.is_error:
                _raise_for_status(response)
            async for piece in response.aiter_bytes():
                self.budget.remaining_bytes -= len(piece)
                if self.budget.remaining_bytes < 0:
                    what = "more than all downloads of a run together may have"
                    raise GitHubError(what, where=STORAGE, status=int(HTTPStatus.OK))
                size += len(piece)
                if size > self.max_bytes:
                    what, status = f"larger than {self.max_bytes >> 20} MiB", response.status_code
                    raise GitHubError(what, where=STORAGE, status=status)
                digest.update(piece)
                self.stream.write(piece)
        return f"sha256:{digest.hexdigest()}"


def _raise_for_status(response: httpx.Response) -> NoReturn:
    """Raise the error of a status; the body is not read, because it may be endless."""
    status = response.status_code
    bare = httpx.Response(status, request=response.request)
    error = httpx.HTTPStatusError(str(status), request=response.request, response=bare)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE_STATUSES:
        raise DownloadInterrupted from error
    raise error
