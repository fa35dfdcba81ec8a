"""A client that calls the application without a socket, from any address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
from starlette.applications import Starlette


class AsgiClient:
    """Keeps cookies, follows no redirection, and raises what the application raises."""

    def __init__(
        self,
        application: Starlette,
        *,
        base_url: str,
        peer: tuple[str, int],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        transport = httpx.ASGITransport(application, client=peer)
        self._client = httpx.AsyncClient(transport=transport, base_url=base_url, headers=headers)

    @property
    def cookies(self) -> httpx.Cookies:
        return self._client.cookies

    def get(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._client.get(path, **options))

    def post(self, path: str, data: Mapping[str, str], **options: Any) -> httpx.Response:
        return asyncio.run(self._client.post(path, data=data, **options))
