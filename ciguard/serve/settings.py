"""Settings of `ciguard serve`: options, and secrets from the environment; all mistakes at once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from ciguard.errors import CiguardError, UsageError, combine
from ciguard.github.repository_ref import API_URL, REPOSITORY, SERVER_URL, api_of, is_address

DEFAULT_PORT: Final = 8080
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")
ROUTE: Final = "CIGUARD_ROUTE_"  # begins the variable of a webhook
_PEM: Final = "-----BEGIN "


class Role(StrEnum):
    """Role of a process: answer requests, judge runs, or both."""

    ALL = "all"
    WEB = "web"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Id and secret of the GitHub App (a private key in PEM), or of the App for sign-in."""

    id: str
    secret: SecretStr


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one process.

    Attributes:
        database, results: URLs; that of a database may hold a password.
        public_url: address of the service for browsers and jobs, without a closing slash; "" if not
            given.
        repositories: repositories of `token`; () with an App, whose installations have them.
        webhook_secret: None for a process that does not answer requests.
        proxy_header: header in which a proxy sends the login of a person; "" for none.
        proxies: addresses or networks from which that header is accepted.
        metrics_from: addresses or networks that may read the metrics.
        metrics_port: of a worker; 0 for none.
        routes: address of each webhook for messages to owners; it may contain a secret.
        route_secret: signs the messages; None for no signature.
    """

    database: str = field(repr=False)
    results: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    role: Role = Role.ALL
    public_url: str = ""
    repositories: tuple[str, ...] = ()
    proxy_header: str = ""
    proxies: tuple[str, ...] = LOOPBACK
    metrics_from: tuple[str, ...] = LOOPBACK
    metrics_port: int = 0
    server_url: str = SERVER_URL
    api_url: str = API_URL
    webhook_secret: SecretStr | None = None
    routes: Mapping[str, SecretStr] = field(default_factory=dict)
    route_secret: SecretStr | None = None
    token: SecretStr | None = None
    app: Credentials | None = None
    oauth: Credentials | None = None


def read_settings(environ: Mapping[str, str], options: Settings) -> Settings:
    """Add the addresses and secrets of the environment; an empty variable counts as not set.

    Raises:
        UsageError: all mistakes.
    """
    variables = _Environment(environ)
    server_url = variables.address("GITHUB_SERVER_URL") or SERVER_URL
    settings = replace(
        options,
        public_url=options.public_url.rstrip("/"),
        proxy_header=options.proxy_header.strip(),
        app=variables.credentials("CIGUARD_APP_ID", "CIGUARD_APP_KEY", variables.key),
        server_url=server_url,
        api_url=variables.address("GITHUB_API_URL") or api_of(server_url),
        webhook_secret=variables.secret("CIGUARD_WEBHOOK_SECRET"),
        routes={
            name.removeprefix(ROUTE).lower(): SecretStr(variables.address(name))
            for name in environ
            if name.startswith(ROUTE) and variables.text(name)
        },
        route_secret=variables.secret("CIGUARD_ROUTES_SECRET"),
        token=variables.secret("CIGUARD_TOKEN"),
        oauth=variables.credentials("CIGUARD_OAUTH_ID", "CIGUARD_OAUTH_SECRET", str),
    )
    mistakes = [*variables.mistakes, *_mistakes(settings)]
    if mistakes:
        raise combine(mistakes)
    return settings


class _Environment:
    """Reads variables, and collects their mistakes."""

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

    def credentials(
        self, first: str, second: str, read: Callable[[str], str]
    ) -> Credentials | None:
        """Return the values of two variables that need each other; None without them."""
        values = self.text(first), self.text(second)
        if all(values):
            return Credentials(values[0], SecretStr(read(values[1])))
        if any(values):
            missing, present = (second, first) if values[0] else (first, second)
            what = f"is not set, but {present} is"
            self.mistakes.append(UsageError(what, where=missing, fix="set both, or none"))
        return None

    def key(self, text: str) -> str:
        """Return a private key, or the content of its file."""
        if text.startswith(_PEM):
            return text
        try:
            return Path(text).read_text("ascii")
        except (OSError, ValueError) as error:
            # Not the text, which may be a key without its first line.
            reason = error.strerror if isinstance(error, OSError) else "not a PEM file"
            what = f"is neither a key in PEM nor a file that can be read: {reason}"
            fix = "set it to the private key of the App, or to the path of its .pem file"
            self.mistakes.append(UsageError(what, where="CIGUARD_APP_KEY", fix=fix))
            return ""


def _mistakes(settings: Settings) -> list[CiguardError]:
    mistakes: list[CiguardError] = []
    for name in settings.repositories:
        if not REPOSITORY.fullmatch(name):
            what = f'expected OWNER/NAME, found "{name:.80}"'
            mistakes.append(UsageError(what, where="--repo", fix="pass --repo OWNER/NAME"))
    if settings.public_url and not is_address(settings.public_url):
        what = f'expected an http(s) address, found "{settings.public_url:.200}"'
        mistakes.append(UsageError(what, where="--url", fix="pass --url https://HOST"))
    if settings.role is not Role.WORKER and settings.webhook_secret is None:
        fix = "set it to the secret that GitHub signs its webhooks with"
        mistakes.append(UsageError("is not set", where="CIGUARD_WEBHOOK_SECRET", fix=fix))
    if settings.proxy_header and not _HEADER.fullmatch(settings.proxy_header):
        what = f'expected the name of a header, found "{settings.proxy_header:.80}"'
        fix = "pass --trust-proxy-header X-Forwarded-User"
        mistakes.append(UsageError(what, where="--trust-proxy-header", fix=fix))
    return [
        *mistakes,
        *_network_mistakes("--trust-proxy", settings.proxies),
        *_network_mistakes("--metrics-from", settings.metrics_from),
        *_identity_mistakes(settings),
    ]


def _network_mistakes(option: str, networks: Sequence[str]) -> Iterator[CiguardError]:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            what = f'expected an address or a network, found "{network:.80}"'
            fix = f"pass {option} 10.0.0.1, or 10.0.0.0/24"
            yield UsageError(what, where=option, fix=fix)


def _identity_mistakes(settings: Settings) -> list[CiguardError]:
    if settings.app and settings.token:
        what = "is set, and CIGUARD_APP_ID is set as well"
        return [UsageError(what, where="CIGUARD_TOKEN", fix="set one of them")]
    if settings.app and settings.repositories:
        what = "an App works for all repositories where it is installed"
        return [UsageError(what, where="--repo", fix="leave it out, or use CIGUARD_TOKEN")]
    judges_runs = settings.role is not Role.WEB
    if settings.token and judges_runs and not settings.repositories:
        what = "is set, but no repository is named"
        return [UsageError(what, where="CIGUARD_TOKEN", fix="pass --repo OWNER/NAME for each")]
    if judges_runs and not (settings.app or settings.token):
        fix = "set CIGUARD_APP_ID and CIGUARD_APP_KEY of a GitHub App, or CIGUARD_TOKEN"
        return [UsageError("is not set", where="CIGUARD_APP_ID", fix=fix)]
    return []
