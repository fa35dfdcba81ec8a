"""The API as OpenAPI 3.1; the tests hold every answer against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema

from ciguard.serve.api.claim_requests import (
    ClaimAnswer,
    ClaimBody,
    ConfirmationBody,
    Registration,
    RegistrationAnswer,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

HISTORY_PATH: Final = "/api/v1/repos/{owner}/{name}/history"
OPENAPI_PATH: Final = "/api/v1/openapi.json"
_RUN_PATH: Final = "/api/v1/repos/{owner}/{name}/runs/{run_id}/{run_attempt}"
BLOCKS_PATH: Final = f"{_RUN_PATH}/blocks"
CLAIMS_PATH: Final = f"{_RUN_PATH}/claims"
CLAIM_PATH: Final = f"{CLAIMS_PATH}/{{block}}"

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


def _json(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"application/json": {"schema": schema}}


def _of_run(
    name: str,
    summary: str,
    body: type[BaseModel],
    tokens: tuple[str, ...],
    responses: dict[str, Any],
) -> dict[str, Any]:
    parameters = [
        _parameter("owner", "path", "Owner of the repository."),
        _parameter("name", "path", "Name of the repository."),
        _parameter("run_id", "path", "Id of the workflow run."),
        _parameter("run_attempt", "path", "Number of the run attempt, from 1."),
    ]
    if body is ConfirmationBody:
        parameters.append(_parameter("block", "path", "Name of the block, such as 07.3."))
    return {
        "operationId": name,
        "summary": summary,
        "security": [{one: []} for one in tokens],
        "parameters": parameters,
        "requestBody": {"required": True, "content": _json(body)},
        "responses": {
            **responses,
            "400": _problem("The body is not as described."),
            "401": _problem("The token is not valid, or not of this run attempt."),
            "404": _problem("There is no such repository, plan, leg or block for the caller."),
            "413": _problem("The body is longer than 1 MiB."),
            "503": _problem("The service cannot answer now."),
        },
    }


def _run_paths() -> dict[str, Any]:
    token = _json(RegistrationAnswer)
    known = "The plan was known: its claims stay, and this token replaces the one before."
    registered = {
        "201": {"description": "The token of the plan's legs.", "content": token},
        "200": {"description": known, "content": token},
    }
    answer = {"description": "What the leg runs next.", "content": _json(ClaimAnswer)}
    confirmed = {
        "204": {"description": "The block is the leg's."},
        "409": _problem("Another leg has the block."),
    }
    legs = ("run", "oidc")
    return {
        BLOCKS_PATH: {
            "put": _of_run(
                "registerBlocks",
                "Register the legs of a plan and their blocks",
                Registration,
                ("oidc", "token"),
                registered,
            )
        },
        CLAIMS_PATH: {
            "post": _of_run(
                "claimBlock", "Claim a block for a leg", ClaimBody, legs, {"200": answer}
            )
        },
        CLAIM_PATH: {
            "put": _of_run(
                "confirmBlock", "Say that a leg runs a block", ConfirmationBody, legs, confirmed
            )
        },
    }


def _schemas() -> dict[str, Any]:
    bodies = (Registration, RegistrationAnswer, ClaimBody, ClaimAnswer, ConfirmationBody)
    _, found = models_json_schema(
        [(one, "validation") for one in bodies], ref_template="#/components/schemas/{model}"
    )
    return {"Problem": _PROBLEM_SCHEMA, **found["$defs"]}


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
    "run": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of a plan's legs, from registerBlocks; it begins with cgr_.",
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
            **_run_paths(),
        },
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY},
    }
