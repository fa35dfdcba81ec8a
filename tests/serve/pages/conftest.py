"""A filled service, and clients that ask it as one person or another."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa
from serve.pages.asgi_client import AsgiClient
from serve.pages.filled import VAULT, Site, fill
from stored_results import opened_results

from ciguard.serve.application import build_application
from ciguard.serve.github_clients import GitHubClients
from ciguard.serve.objects import open_objects
from ciguard.serve.pages import cookies
from ciguard.serve.service import Service
from ciguard.serve.settings import Settings, read_settings
from ciguard.serve.state import schema, sessions, tokens
from ciguard.serve.state.database import open_database

HOST: Final = "ci.example"
PEER: Final = ("192.0.2.7", 50_000)
LOOPBACK: Final = ("127.0.0.1", 50_000)
ENVIRON: Final = {
    "CIGUARD_WEBHOOK_SECRET": "secret-of-the-webhooks",
    "CIGUARD_TOKEN": "ghp_of_the_service",
    "GITHUB_API_URL": "http://127.0.0.1:9",
}
# By session; GitHub, which is nowhere, would be asked again after five minutes.
VISIBLE: Final[dict[str, list[int]]] = {"member": [VAULT.id], "outsider": []}
OAUTH: Final = {"CIGUARD_OAUTH_ID": "Iv1.client", "CIGUARD_OAUTH_SECRET": "secret-of-the-client"}


@pytest.fixture(scope="package")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with something on every page. Whoever changes it changes it back."""
    folder = tmp_path_factory.mktemp("pages")
    with opened_site(folder, runs=8) as site:
        with site.service.database.write() as connection:
            sessions.add(connection, "member", "octocat", VISIBLE["member"])
            sessions.add(connection, "outsider", "mallory", VISIBLE["outsider"])
            values = {"repository_id": VAULT.id, "created_at_ms": 1}
            for secret in TOKENS.values():
                of = {"id": secret, "sha256": tokens.digest(secret), **values}
                connection.execute(sa.insert(schema.token).values(of))
        yield site


@contextlib.contextmanager
def opened_site(folder: Path, runs: int, url: str = "") -> Iterator[Site]:
    """A service in a folder, filled; with a database in it, unless there is another one."""
    url, results = url or f"sqlite:///{folder / 'ciguard.db'}", str(folder / "results")
    settings = read_settings(
        ENVIRON, Settings(database=url, results=results, repositories=("o/r",))
    )
    database, objects = open_database(url), open_objects(results, {})
    service = Service(settings, database, objects, GitHubClients(settings))
    with opened_results(database, objects, folder / "cache") as opened:
        site = Site(service, opened)
        fill(site, round(time.time() * 1000), runs)
        yield site
    database.close()


@dataclass(frozen=True, slots=True)
class Who:
    """How somebody reaches the service."""

    settings: Callable[[Settings], Settings] = lambda one: one
    peer: tuple[str, int] = PEER
    url: str = f"https://{HOST}"
    session: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def with_oauth(settings: Settings) -> Settings:
    """People sign in with GitHub."""
    found = read_settings(
        {**ENVIRON, **OAUTH}, Settings(database="sqlite://", results="", repositories=("o/r",))
    )
    return replace(settings, oauth=found.oauth)


def with_proxy(settings: Settings) -> Settings:
    """A proxy at one address says who somebody is."""
    return replace(settings, proxy_header="X-Forwarded-User", proxies=("10.0.0.0/24",))


# By what they read: only one of them reads pages.
TOKENS: Final = {"pages": "cgp_of-the-vault", "history": "cgs_of-the-vault"}


def with_token(token: str) -> Who:
    """A script with a token."""
    return Who(with_oauth, headers=(("authorization", f"Bearer {token}"),))


USER: Final = (("x-forwarded-user", "octocat"),)
# Who sees the private repository, and who does not.
INSIDERS: Final = {
    "local": Who(peer=LOOPBACK, url="http://localhost:8080"),
    "member": Who(with_oauth, session="member"),
    "behind-proxy": Who(with_proxy, peer=("10.0.0.9", 1), headers=USER),
    "token": with_token(TOKENS["pages"]),
}
OUTSIDERS: Final = {
    "stranger": Who(),
    "not-signed-in": Who(with_oauth),
    "outsider": Who(with_oauth, session="outsider"),
    "void-session": Who(with_oauth, session="forged"),
    "forged-header": Who(with_proxy, headers=USER),
    "proxy-without-user": Who(with_proxy, peer=("10.0.0.9", 1)),
    "header-without-proxy": Who(headers=USER),
    "rebound-name": Who(peer=LOOPBACK, url="http://evil.example:8080"),
    "forwarded": Who(
        peer=LOOPBACK, url="http://localhost", headers=(("x-forwarded-for", "192.0.2.7"),)
    ),
    "local-of-public": Who(
        lambda one: replace(one, public_url=f"https://{HOST}"), LOOPBACK, "http://localhost"
    ),
    "local-of-all-interfaces": Who(
        lambda one: replace(one, host="0.0.0.0"), LOOPBACK, "http://localhost"
    ),
    "local-with-oauth": Who(with_oauth, LOOPBACK, "http://localhost"),
}
EVERYBODY: Final = {**INSIDERS, **OUTSIDERS}


def client_of(site: Site, who: Who) -> AsgiClient:
    """A client of the application as it is configured for this person."""
    service = replace(site.service, settings=who.settings(site.service.settings))
    application = build_application(service, site.results.read)
    client = AsgiClient(application, base_url=who.url, peer=who.peer, headers=dict(who.headers))
    if who.session:
        prefix = "__Host-" if who.url.startswith("https") else ""
        client.cookies.set(prefix + cookies.SESSION, who.session)
    if who.session in VISIBLE:
        with site.service.database.write() as connection:
            sessions.set_visible(connection, who.session, VISIBLE[who.session])
    return client


@pytest.fixture
def local(filled: Site) -> AsgiClient:
    """A client on the machine of the service."""
    return client_of(filled, INSIDERS["local"])
