"""A run whose plan is registered at a real service, and how its jobs and legs ask it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from loopback import serving
from openapi_core.testing import MockRequest
from serve.api.api_document import OPENAPI, PUBLIC_URL, REPOSITORIES, check
from serve.api.oidc_issuer import claims, signed

from ciguard.serve.api.routes import BLOCKS_PATH, CLAIM_PATH, CLAIMS_PATH
from ciguard.serve.application import build_application
from ciguard.serve.service import Service, open_service
from ciguard.serve.settings import Role, Settings, read_settings
from ciguard.serve.state import repositories, tokens

PLAN: Final = "0123456789ab"
LEGS: Final[dict[str, Any]] = {
    "01": {"group": "g", "own_s": 60.0, "blocks": {"01.1": 10.0}},
    "02": {"group": "g", "own_s": 60, "blocks": {"02.1": 30.0, "02.2": 20.0}},
}
RUN: Final[dict[str, Any]] = {"run_id": "7", "run_attempt": "1"}


@dataclass(frozen=True)
class RegisteredRun:
    """A service, and how jobs and legs of run 7 of a repository ask it."""

    client: httpx.Client
    service: Service
    issuer: str
    secrets: dict[int, str]

    def job(self, repository_id: int = 11, **changes: Any) -> str:
        found = {"repository_id": str(repository_id), **RUN, **changes}
        return signed(claims(self.issuer, PUBLIC_URL, **found))

    def send(
        self, token: str, body: object, path: str = CLAIMS_PATH, name: str = "private", **place: str
    ) -> httpx.Response:
        method = "POST" if path == CLAIMS_PATH else "PUT"
        full = path.format(**{"owner": "o", "name": name, **RUN, **place})
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = self.client.request(method, full, content=content, headers=headers)
        check(method, full, response)
        if response.status_code < 300:
            request = MockRequest(PUBLIC_URL, method, full, headers=headers, data=content)
            OPENAPI.validate_request(request)
        else:
            assert response.json()["detail"]
        assert response.headers["Cache-Control"] == "no-store"
        return response

    def register(self, job: str, legs: object = LEGS, **place: str) -> httpx.Response:
        return self.send(job, {"plan": PLAN, "legs": legs}, BLOCKS_PATH, **place)

    def token(self, job: str = "", legs: object = LEGS, **place: str) -> str:
        token: str = self.register(job or self.job(), legs, **place).json()["token"]
        return token

    def ask(
        self, token: str, leg: str, state: str = "asks", elapsed_s: float = 60.0, **place: str
    ) -> dict[str, Any]:
        body = {"plan": PLAN, "leg": leg, "state": state, "elapsed_s": elapsed_s}
        response = self.send(token, body, **place)
        assert response.status_code == 200
        found: dict[str, Any] = response.json()
        return found

    def confirm(self, token: str, leg: str, block: str, **place: str) -> int:
        body = {"plan": PLAN, "leg": leg}
        return self.send(token, body, CLAIM_PATH, block=block, **place).status_code


@contextlib.contextmanager
def serving_run(objects: Path, issuer: str, database_url: str) -> Iterator[RegisteredRun]:
    """Serve it from a process of its own database and folder."""
    options = read_settings(
        {"GITHUB_SERVER_URL": issuer, "CIGUARD_WEBHOOK_SECRET": "x"},
        Settings(
            database=database_url,
            results=str(objects),
            role=Role.WEB,
            public_url=f"{PUBLIC_URL}/ciguard",
        ),
    )
    with open_service(options, {}) as service:
        with service.database.write() as connection:
            repositories.upsert(connection, REPOSITORIES)
            secrets = {one.id: tokens.create(connection, one.id).secret for one in REPOSITORIES}
        with (
            serving(build_application(service)) as address,
            httpx.Client(base_url=address, timeout=60.0) as client,
        ):
            yield RegisteredRun(client, service, issuer, secrets)


def nothing(**changes: Any) -> dict[str, Any]:
    return {"block": None, "taken": {}, "held": [], **changes}
