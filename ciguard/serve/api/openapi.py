"""The API as OpenAPI 3.1, out of `openapi.json`; the tests hold every answer against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from ciguard.serve.api.claim_requests import (
    ClaimAnswer,
    ClaimBody,
    ConfirmationBody,
    Registration,
    RegistrationAnswer,
)

HISTORY_PATH: Final = "/api/v1/repos/{owner}/{name}/history"
OPENAPI_PATH: Final = "/api/v1/openapi.json"
_RUN_PATH: Final = "/api/v1/repos/{owner}/{name}/runs/{run_id}/{run_attempt}"
BLOCKS_PATH: Final = f"{_RUN_PATH}/blocks"
CLAIMS_PATH: Final = f"{_RUN_PATH}/claims"
CLAIM_PATH: Final = f"{CLAIMS_PATH}/{{block}}"
_BODIES: Final = (Registration, RegistrationAnswer, ClaimBody, ClaimAnswer, ConfirmationBody)


def openapi_document(public_url: str, version: str) -> dict[str, Any]:
    """Return the description of the API at an address ("": where this document is)."""
    document: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_bytes())
    document["info"]["version"] = version
    document["servers"] = [{"url": public_url or "/"}]
    _, bodies = models_json_schema(
        [(body, "validation") for body in _BODIES], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= bodies["$defs"]
    return document
