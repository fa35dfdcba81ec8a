"""Options of `ciguard serve`, and secrets out of the environment; all mistakes at once."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from ciguard.errors import CiguardError, UsageError, combine
from ciguard.github.repository_ref import REPOSITORY, SERVER_URL, api_of, is_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEFAULT_PORT: Final = 8080
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")
_PEM: Final = "-----BEGIN "


class Role(StrEnum):
    """What a process does: answer requests, judge runs, or both."""

    ALL = "all"
    WEB = "web"
    WORKER = "worker"

    @property
    def answers(self) -> bool:
        """Say whether it listens."""
        return self is not Role.WORKER

    @property
    def works(self) -> bool:
        """Say whether it judges runs and asks GitHub for them."""
        return self is not Role.WEB


@dataclass(frozen=True, slots=True)
class AppCredentials:
    """Of the GitHub App; `private_key` is PEM."""

    app_id: str
    private_key: SecretStr


@dataclass(frozen=True, slots=True)
class OAuthCredentials:
    """Of the OAuth App, or the GitHub App, that people sign in with."""

    client_id: str
    client_secret: SecretStr


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one process.

    Attributes:
        database, results: URLs; that of a database may hold a password.
        public_url: how browsers and jobs reach the service, without a closing slash; "" where it
            is not said.
        repositories: the ones that `token` is for; () with an App, which knows its own.
        webhook_secret: None in a role that does not listen.
        proxy_header: in which a proxy says who somebody is; "" for none.
        proxies: addresses or networks from which that header counts.
        metrics_from: addresses or networks that may read the metrics.
    """

    database: str = field(repr=False)
    results: str
    host: str
    port: int
    role: Role
    public_url: str
    server_url: str
    api_url: str
    repositories: tuple[str, ...]
    webhook_secret: SecretStr | None
    token: SecretStr | None
    app: AppCredentials | None
    oauth: OAuthCredentials | None
    proxy_header: str = ""
    proxies: tuple[str, ...] = LOOPBACK
    metrics_from: tuple[str, ...] = LOOPBACK


def read_settings(
    environ: Mapping[str, str],
    *,
    database: str,
    results: str,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    role: Role = Role.ALL,
    public_url: str = "",
    repositories: Sequence[str] = (),
    proxy_header: str = "",
    proxies: Sequence[str] = LOOPBACK,
    metrics_from: Sequence[str] = LOOPBACK,
) -> Settings:
    """Put options and environment together; an empty variable counts as not set.

    Raises:
        UsageError: all mistakes.
    """
    found = _Environment(environ)
    app, token = found.app(), found.secret("CIGUARD_TOKEN")
    server_url = found.address("GITHUB_SERVER_URL") or SERVER_URL
    settings = Settings(
        database=database,
        results=results,
        host=host,
        port=port,
        role=role,
        public_url=public_url.rstrip("/"),
        server_url=server_url,
        api_url=found.address("GITHUB_API_URL") or api_of(server_url),
        repositories=tuple(repositories),
        webhook_secret=found.secret("CIGUARD_WEBHOOK_SECRET"),
        token=token,
        app=app,
        oauth=found.oauth(),
        proxy_header=proxy_header.strip(),
        proxies=tuple(proxies),
        metrics_from=tuple(metrics_from),
    )
    mistakes = [*found.mistakes, *_mistakes(settings)]
    if mistakes:
        raise combine(mistakes)
    return settings


class _Environment:
    """Reads variables, and collects what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[CiguardError] = []

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def secret(self, name: str) -> SecretStr | None:
        return SecretStr(self.text(name)) if self.text(name) else None

    def address(self, name: str) -> str:
        text = self.text(name).rstrip("/")
        if text and not is_address(text):
            what = f'expected an http(s) address, found "{text:.200}"'
            self.mistakes.append(UsageError(what, where=name, fix="set it, or leave it out"))
            return ""
        return text

    def pair(self, first: str, second: str) -> tuple[str, str] | None:
        """Both of two variables that need one another."""
        values = self.text(first), self.text(second)
        if all(values):
            return values
        if any(values):
            missing, known = (second, first) if values[0] else (first, second)
            what = f"is not set, but {known} is"
            self.mistakes.append(UsageError(what, where=missing, fix="set both, or none"))
        return None

    def app(self) -> AppCredentials | None:
        found = self.pair("CIGUARD_APP_ID", "CIGUARD_APP_KEY")
        return AppCredentials(found[0], SecretStr(self._key(found[1]))) if found else None

    def _key(self, text: str) -> str:
        if text.startswith(_PEM):
            return text
        try:
            return Path(text).read_text("ascii")
        except (OSError, ValueError) as error:
            # Not the text: it may be a key that lost its first line.
            reason = error.strerror if isinstance(error, OSError) else "not a PEM file"
            what = f"is neither a key in PEM nor a file that can be read: {reason}"
            fix = "set it to the private key of the App, or to the path of its .pem file"
            self.mistakes.append(UsageError(what, where="CIGUARD_APP_KEY", fix=fix))
            return ""

    def oauth(self) -> OAuthCredentials | None:
        found = self.pair("CIGUARD_OAUTH_ID", "CIGUARD_OAUTH_SECRET")
        return OAuthCredentials(found[0], SecretStr(found[1])) if found else None


def _mistakes(settings: Settings) -> list[CiguardError]:
    found: list[CiguardError] = [
        UsageError(
            f'expected OWNER/NAME, found "{name:.80}"', where="--repo", fix="pass --repo OWNER/NAME"
        )
        for name in settings.repositories
        if not REPOSITORY.fullmatch(name)
    ]
    if settings.public_url and not is_address(settings.public_url):
        what = f'expected an http(s) address, found "{settings.public_url:.200}"'
        found.append(UsageError(what, where="--url", fix="pass --url https://HOST"))
    if settings.role.answers and settings.webhook_secret is None:
        fix = "set it to the secret that GitHub signs its webhooks with"
        found.append(UsageError("is not set", where="CIGUARD_WEBHOOK_SECRET", fix=fix))
    return [*found, *_proxy_mistakes(settings), *_identity_mistakes(settings)]


def _proxy_mistakes(settings: Settings) -> list[CiguardError]:
    found: list[CiguardError] = []
    if settings.proxy_header and not _HEADER.fullmatch(settings.proxy_header):
        what = f'expected the name of a header, found "{settings.proxy_header:.80}"'
        fix = "pass --trust-proxy-header X-Forwarded-User"
        found.append(UsageError(what, where="--trust-proxy-header", fix=fix))
    return [
        *found,
        *_network_mistakes("--trust-proxy", settings.proxies),
        *_network_mistakes("--metrics-from", settings.metrics_from),
    ]


def _network_mistakes(option: str, networks: Sequence[str]) -> Iterator[CiguardError]:
    for one in networks:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            what = f'expected an address or a network, found "{one:.80}"'
            fix = f"pass {option} 10.0.0.1, or 10.0.0.0/24"
            yield UsageError(what, where=option, fix=fix)


def _identity_mistakes(settings: Settings) -> list[CiguardError]:
    if settings.app and settings.token:
        what = "is set, and CIGUARD_APP_ID is set as well"
        return [UsageError(what, where="CIGUARD_TOKEN", fix="set one of them")]
    if settings.app and settings.repositories:
        what = "an App works for all repositories where it is installed"
        return [UsageError(what, where="--repo", fix="leave it out, or use CIGUARD_TOKEN")]
    if settings.token and settings.role.works and not settings.repositories:
        what = "is set, but no repository is named"
        return [UsageError(what, where="CIGUARD_TOKEN", fix="pass --repo OWNER/NAME for each")]
    if settings.role.works and not (settings.app or settings.token):
        fix = "set CIGUARD_APP_ID and CIGUARD_APP_KEY of a GitHub App, or CIGUARD_TOKEN"
        return [UsageError("is not set", where="CIGUARD_APP_ID", fix=fix)]
    return []
