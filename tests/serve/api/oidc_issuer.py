"""An issuer of OIDC tokens as GitHub's: keys of its own, and a JWKS that a server answers."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

PATH = "/_services/token"  # of an Enterprise Server, whose address can be this machine's


@cache
def private_key(name: str) -> RSAPrivateKey:
    """One key a name, as making one takes 0.1 s; the one named weak is short."""
    return rsa.generate_private_key(65537, 1024 if name == "weak" else 2048)


def jwk(name: str) -> dict[str, Any]:
    """The public half of a key, as an entry of a JWKS."""
    found = RSAAlgorithm.to_jwk(private_key(name).public_key(), as_dict=True)
    return {**found, "kid": name, "use": "sig", "alg": "RS256"}


@dataclass(slots=True)
class Issuer:
    """What the server answers for its keys, and how often it was asked; `job` changes claims."""

    keys: list[dict[str, Any]] = field(default_factory=lambda: [jwk("first")])
    job: dict[str, Any] = field(default_factory=dict)
    answer: Response | None = None
    asked: int = 0

    async def jwks(self, _: object) -> Response:
        self.asked += 1
        return self.answer or JSONResponse({"keys": self.keys})

    async def token(self, request: Request) -> Response:
        """As a runner asks for it: a token of the audience that it names."""
        if request.headers.get("Authorization") != "Bearer runner":
            return Response(status_code=401)
        server = str(request.base_url).rstrip("/")
        token = signed(claims(server, request.query_params["audience"], **self.job))
        return JSONResponse({"count": len(token), "value": token})

    def application(self) -> Starlette:
        return Starlette(
            routes=[Route(f"{PATH}/.well-known/jwks", self.jwks), Route("/request", self.token)]
        )


def claims(server_url: str, audience: str, **changes: Any) -> dict[str, Any]:
    """Of a job of run 7 of repository 11, as GitHub has them; None takes a claim away."""
    now = int(time.time())
    found = {
        "iss": f"{server_url}{PATH}",
        "aud": audience,
        "sub": "repo:o/private:ref:refs/heads/main",
        "repository": "o/private",
        "repository_id": "11",
        "run_id": "7",
        "run_attempt": "1",
        "jti": "1",
        "nbf": now - 300,
        "iat": now,
        "exp": now + 300,
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(found: Mapping[str, Any], key: str = "first", **header: Any) -> str:
    return jwt.encode(
        dict(found), private_key(key), algorithm="RS256", headers={"kid": key, **header}
    )


def assembled(header: Mapping[str, Any], found: Mapping[str, Any], signature: bytes = b"") -> str:
    """A token of any header, which no library would make."""
    return ".".join(
        encoded(part)
        for part in (json.dumps(header).encode(), json.dumps(found).encode(), signature)
    )


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
