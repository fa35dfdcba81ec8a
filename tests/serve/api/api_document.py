"""The OpenAPI document that answers are held against, and the repositories that are asked for."""

from __future__ import annotations

import json
from typing import Final

import httpx
from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse

from ciguard.serve.api.routes import PROBLEM_TYPE, openapi_document
from ciguard.serve.state.repositories import Repository, RepositoryState

PUBLIC_URL: Final = "https://ciguard.example"
REPOSITORIES: Final = (
    Repository(10, "o/public", is_private=False),
    Repository(11, "o/private", is_private=True),
    Repository(12, "o/removed", is_private=False, state=RepositoryState.REMOVED),
    Repository(13, "o/new", is_private=False),
    Repository(14, "o/other", is_private=True),
)
OPENAPI: Final = OpenAPI.from_dict(
    openapi_document(PUBLIC_URL, "1"),
    config=Config(extra_media_type_deserializers={PROBLEM_TYPE: json.loads}),
)


def check(method: str, path: str, response: httpx.Response) -> None:
    request = MockRequest(PUBLIC_URL, method, path)
    answer = MockResponse(
        response.content,
        response.status_code,
        dict(response.headers),
        response.headers.get("Content-Type", ""),
    )
    OPENAPI.validate_response(request, answer)
