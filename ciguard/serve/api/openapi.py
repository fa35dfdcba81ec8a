"""The API as OpenAPI 3.1; the tests hold every answer against it."""

from __future__ import annotations

from typing import Any, Final

HISTORY_PATH: Final = "/api/v1/repos/{owner}/{name}/history"
OPENAPI_PATH: Final = "/api/v1/openapi.json"

_ETAG: Final = {
    "ETag": {
        "description": "SHA-256 of the file, in quotes.",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{64}"$'},
    }
}


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": schema}},
    }


def _parameter(name: str, place: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string"},
    }


_HISTORY_RESPONSES: Final[dict[str, Any]] = {
    "200": {
        "description": "The history file.",
        "headers": _ETAG,
        "content": {"application/octet-stream": {}},
    },
    "204": {"description": "The repository has no history yet."},
    "304": {"description": "The file is the one of If-None-Match.", "headers": _ETAG},
    "401": _problem("The token is not valid."),
    "404": _problem("There is no such repository, or the token may not read it."),
    "503": _problem("The service cannot answer now, or the stored file is damaged."),
}


# HEAD has no bodies.
_HEAD_RESPONSES: Final[dict[str, Any]] = {
    status: {name: value for name, value in response.items() if name != "content"}
    for status, response in _HISTORY_RESPONSES.items()
}


def _history(name: str, summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        # The last: a public repository is read without a token.
        "security": [{"oidc": []}, {"token": []}, {}],
        "parameters": [
            _parameter("owner", "path", "Owner of the repository."),
            _parameter("name", "path", "Name of the repository."),
            _parameter("If-None-Match", "header", "ETags of files that the client has."),
        ],
        "responses": responses,
    }


_PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_SECURITY: Final[dict[str, Any]] = {
    "oidc": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "GitHub's OIDC token of a job of the repository; its audience is the service's origin."
        ),
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `ciguard serve token --repo OWNER/NAME`; it begins with cgs_.",
    },
}


def openapi_document(public_url: str, version: str) -> dict[str, Any]:
    """The description of the API at an address ("": where this document is)."""
    described = {"description": "OpenAPI 3.1", "content": {"application/json": {}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "ciguard", "version": version},
        "servers": [{"url": public_url or "/"}],
        "paths": {
            HISTORY_PATH: {
                "get": _history(
                    "getHistory", "Get the history of a repository", _HISTORY_RESPONSES
                ),
                "head": _history("headHistory", "Get the ETag of the history", _HEAD_RESPONSES),
            },
            OPENAPI_PATH: {
                "get": {
                    "operationId": "getOpenApi",
                    "summary": "Get this document",
                    "security": [],
                    "responses": {"200": described},
                }
            },
        },
        "components": {"schemas": {"Problem": _PROBLEM_SCHEMA}, "securitySchemes": _SECURITY},
    }
