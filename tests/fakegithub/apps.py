"""The fake GitHub's Apps: JWTs checked with a real key, installations, tokens that expire."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fakegithub.state import (
    READ_ONLY,
    Answer,
    FakeGitHub,
    Login,
    Request,
    paged,
    refused,
    user_json,
)

APP_ID: Final = "4711"
SLUG: Final = "shard-judge"
TOKEN_LIFE: Final = timedelta(hours=1)
NO_JWT: Final = "A JSON web token could not be decoded"
NO_APP: Final = "Integration not found"
SUSPENDED: Final = "This installation has been suspended"
PERMISSIONS: Final = {
    "actions": "read",
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "pull_requests": "write",
}
# What a path needs of an installation; the first that fits.
_NEEDS: Final = {
    "/actions/": "actions",
    "/check-runs": "checks",
    "/comments": "pull_requests",
    "/issues": "issues",
    "/contents/": "contents",
    "/git/blobs/": "contents",
}


@dataclass
class FakeRepository:
    """A repository; its number stays when its name changes."""

    id: int
    full_name: str
    private: bool = True
    default_branch: str = "main"

    def as_json(self) -> dict[str, Any]:
        owner, _, name = self.full_name.partition("/")
        return {
            "id": self.id,
            "node_id": f"R_{self.id}",
            "name": name,
            "full_name": self.full_name,
            "owner": {"login": owner, "id": 1, "type": "Organization"},
            "private": self.private,
            "default_branch": self.default_branch,
        }


@dataclass
class FakeInstallation:
    """Where the App is installed, and what it may do there."""

    id: int
    account: str
    repositories: list[FakeRepository] = field(default_factory=list)
    permissions: dict[str, str] = field(default_factory=PERMISSIONS.copy)
    suspended_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        account = user_json(Login(name=self.account))
        return {
            "id": self.id,
            "account": {**account, "type": "Organization"},
            "app_id": int(APP_ID),
            "app_slug": SLUG,
            "permissions": self.permissions,
            "suspended_at": self.suspended_at,
        }

    def refusal(self, request: Request) -> Answer | None:
        """Why a request with this installation's token is refused; None where it is not."""
        if self.suspended_at:
            return refused(403, SUSPENDED)
        here = re.match(r"/repos/([^/]+/[^/]+)", request.path)
        names = {one.full_name.lower() for one in self.repositories}
        if here and here[1].lower() not in names:
            return refused(404, "Not Found")
        need = next((name for part, name in _NEEDS.items() if part in request.path), "")
        levels = {"GET": {"read", "write"}}.get(request.method, {"write"})
        if need and self.permissions.get(need) not in levels:
            return refused(403, READ_ONLY)
        return None


@dataclass
class FakeApp:
    """The one App that the server knows.

    Attributes:
        tokens: installation and end of each token that was given out.
        lead: of the server's clock before ours, which a test moves.
    """

    public_key: rsa.RSAPublicKey
    installations: dict[int, FakeInstallation] = field(default_factory=dict)
    tokens: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    lead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.lead

    def is_app(self, token: str) -> bool:
        """Check a JWT as GitHub does: signature, issuer, times, at most ten minutes ahead."""
        options: Any = {"require": ["exp", "iat", "iss"], "verify_exp": False, "verify_iat": False}
        try:
            claims = jwt.decode(token, self.public_key, ["RS256"], options, issuer=APP_ID)
        except jwt.PyJWTError:
            return False
        now = self.now().timestamp()
        return bool(claims["iat"] <= now < claims["exp"] <= now + 600)

    def refuse_app(self, token: str) -> Answer | None:
        """Answer a JWT that is not the App's; GitHub does not find an App it does not know."""
        if self.is_app(token):
            return None
        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except jwt.PyJWTError:
            issuer = APP_ID
        return refused(401, NO_JWT) if issuer == APP_ID else refused(404, NO_APP)

    def installation_of(self, token: str) -> FakeInstallation | None:
        number, end = self.tokens.get(token, (0, self.now()))
        return self.installations.get(number) if self.now() < end else None

    def authenticate(self, request: Request) -> tuple[Login | None, Answer | None]:
        """Who comes with the App's credentials, and why the request is refused all the same."""
        login = Login(name=f"{SLUG}[bot]")
        if _AS_APP.fullmatch(request.path):
            return login, self.refuse_app(request.token)
        installation = self.installation_of(request.token)
        return (login, installation.refusal(request)) if installation else (None, None)

    def install(self, *repositories: FakeRepository) -> FakeInstallation:
        """Add an installation in the account of the first repository."""
        number = 101 + len(self.installations)
        account = repositories[0].full_name.partition("/")[0] if repositories else "octo-org"
        made = FakeInstallation(number, account, list(repositories))
        self.installations[number] = made
        return made


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def private_key_pem() -> str:
    return (
        private_key()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        .decode()
    )


def add_app(github: FakeGitHub) -> FakeApp:
    """Let the server know an App whose key is `private_key_pem()`."""
    github.app = FakeApp(private_key().public_key())
    return github.app


def facts(*_: object) -> Answer:
    return Answer(200, {"id": int(APP_ID), "slug": SLUG, "name": "Shard judge"})


def list_installations(
    github: FakeGitHub, _: Login, __: Mapping[str, str], request: Request
) -> Answer:
    assert github.app is not None
    found = [one.as_json() for _, one in sorted(github.app.installations.items())]
    shown, link = paged(github.address, request, found)
    return Answer(200, shown, link)


def create_token(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    assert github.app is not None
    installation = github.app.installations.get(int(part["installation"]))
    if installation is None:
        return refused(404, "Not Found")
    if installation.suspended_at:
        return refused(403, SUSPENDED)
    token, end = f"ghs_{installation.id}_{next(_NUMBERS)}", github.app.now() + TOKEN_LIFE
    github.app.tokens[token] = (installation.id, end)
    value = {"token": token, "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return Answer(201, {**value, "permissions": installation.permissions})


def list_repositories(
    github: FakeGitHub, _: Login, __: Mapping[str, str], request: Request
) -> Answer:
    assert github.app is not None
    installation = github.app.installation_of(request.token)
    found = [one.as_json() for one in installation.repositories] if installation else []
    shown, link = paged(github.address, request, found)
    return Answer(200, {"total_count": len(found), "repositories": shown}, link)


_NUMBERS: Final = itertools.count(1)
_AS_APP: Final = re.compile(r"/app(/.*)?")
APP_ROUTES: Final[Mapping[str, Callable[..., Answer]]] = {
    "GET /app": facts,
    "GET /app/installations": list_installations,
    r"POST /app/installations/(?P<installation>\d+)/access_tokens": create_token,
    "GET /installation/repositories": list_repositories,
}
