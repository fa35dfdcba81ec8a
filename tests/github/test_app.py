"""A GitHub App against a server that checks its signature, and whose tokens expire."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fakegithub.apps import (
    APP_ID,
    FakeApp,
    FakeInstallation,
    FakeRepository,
    add_app,
    private_key_pem,
)
from fakegithub.state import FakeGitHub, Login
from pydantic import SecretStr

from ciguard.errors import UsageError
from ciguard.github.api_errors import Forbidden, GitHubError
from ciguard.github.capabilities import repository_facts
from ciguard.github.client import GitHub
from ciguard.github.models import Account
from ciguard.report.publish import ACTIONS_BOT, upsert_comment, upsert_issue, with_marker
from ciguard.serve.github_clients import App

SHOP = FakeRepository(id=11, full_name="octo-org/shop")
OURSELVES = Account(login="shard-judge[bot]", type="Bot")


@pytest.fixture
def fake_app(server: FakeGitHub) -> FakeApp:
    return add_app(server)


@pytest.fixture
def installation(fake_app: FakeApp) -> FakeInstallation:
    return fake_app.install(SHOP)


@dataclass
class Clock:
    lead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.lead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(server: FakeGitHub, fake_app: FakeApp, clock: Clock) -> App:
    connect = partial(GitHub, server.address)
    return App(APP_ID, SecretStr(private_key_pem()), connect, now=clock.now)


def token_requests(server: FakeGitHub) -> int:
    return sum(one.endswith("/access_tokens") for one in server.request_log())


def test_app_knows_its_account_and_where_it_is_installed(
    app: App, installation: FakeInstallation, server: FakeGitHub
) -> None:
    assert app.account() == app.account() == OURSELVES
    assert server.request_log() == ["GET /app"]
    assert [one.id for one in app.installations()] == [installation.id]
    (repository,) = app.repositories(installation.id)
    assert (repository.id, repository.full_name, repository.private) == (11, "octo-org/shop", True)


def test_token_is_asked_for_again_five_minutes_before_its_end(
    clock: Clock, app: App, installation: FakeInstallation, server: FakeGitHub
) -> None:
    first = app.token(installation.id)
    clock.lead = timedelta(minutes=54)
    assert app.token(installation.id) == first
    clock.lead = timedelta(minutes=56)
    assert app.token(installation.id) != first
    assert token_requests(server) == 2


def test_threads_share_one_token(
    app: App, installation: FakeInstallation, fake_app: FakeApp, server: FakeGitHub
) -> None:
    other = fake_app.install(FakeRepository(id=12, full_name="hexa-org/api"))
    barrier = threading.Barrier(4)

    def ask(number: int) -> SecretStr:
        barrier.wait(timeout=10.0)
        return app.token(number)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, [installation.id, other.id] * 2))
    assert len({one.get_secret_value() for one in found}) == token_requests(server) == 2


def test_refused_token_is_not_used_again(
    app: App, installation: FakeInstallation, fake_app: FakeApp
) -> None:
    first = app.token(installation.id)
    fake_app.tokens.clear()
    with pytest.raises(GitHubError, match="401"), app.client(installation.id) as github:
        repository_facts(github, "octo-org/shop")
    assert app.token(installation.id) != first
    with app.client(installation.id) as github:
        assert repository_facts(github, "octo-org/shop").full_name == "octo-org/shop"


def test_installation_sees_its_own_repositories_only(
    app: App, installation: FakeInstallation, fake_app: FakeApp
) -> None:
    other = fake_app.install(FakeRepository(id=12, full_name="hexa-org/api"))
    with pytest.raises(GitHubError, match="404"), app.client(other.id) as github:
        repository_facts(github, "octo-org/shop")
    installation.suspended_at = "2026-11-26T10:00:00Z"
    with pytest.raises(Forbidden, match="suspended"):
        app.token(installation.id)


def test_app_finds_its_own_comment_and_issue(
    app: App, installation: FakeInstallation, server: FakeGitHub
) -> None:
    ours = Login(name="shard-judge[bot]")
    mine = server.add_comment("octo-org/shop", 7, ours, with_marker("tests.yml", "red"))
    server.add_comment("octo-org/shop", 7, Login(), with_marker("tests.yml", "of the workflow"))
    with app.client(installation.id) as github:
        done = upsert_comment(
            github, "octo-org/shop", 7, key="tests.yml", body="green", author=app.account()
        )
        for body, action in (("red", "created"), ("redder", "updated")):
            issue = upsert_issue(
                github,
                "octo-org/shop",
                key="tests.yml",
                title="main is red",
                body=body,
                is_red=True,
                author=app.account(),
            )
            assert issue.action == action
    assert (done.action, done.html_url) == ("updated", mine["html_url"])
    texts = [
        (one["user"]["login"], one["body"].rpartition("\n")[2]) for one in server.comments.values()
    ]
    assert texts == [(OURSELVES.login, "green"), (ACTIONS_BOT.login, "of the workflow")]


def test_permission_that_an_installation_has_not_is_named(
    app: App, installation: FakeInstallation
) -> None:
    installation.permissions["pull_requests"] = "read"
    with app.client(installation.id) as github, pytest.raises(Forbidden) as caught:
        upsert_comment(github, "octo-org/shop", 7, key="k", body="b", author=OURSELVES)
    assert "pull-requests: write" in caught.value.fix


def test_key_of_another_app_is_refused(server: FakeGitHub, fake_app: FakeApp) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    app = App(APP_ID, SecretStr(pem(key)), partial(GitHub, server.address))
    with pytest.raises(GitHubError, match="401") as caught:
        app.account()
    assert "CIGUARD_APP_KEY" in caught.value.fix


def test_unknown_app_is_not_found(server: FakeGitHub, fake_app: FakeApp) -> None:
    app = App("4712", SecretStr(private_key_pem()), partial(GitHub, server.address))
    for ask in (app.account, app.installations):
        with pytest.raises(GitHubError, match="404: Integration not found") as caught:
            ask()
        assert "CIGUARD_APP_ID" in caught.value.fix


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    pkcs8 = serialization.PrivateFormat.PKCS8
    return key.private_bytes(
        serialization.Encoding.PEM, pkcs8, serialization.NoEncryption()
    ).decode()


@pytest.mark.parametrize(
    "key", ["hunter2", "", pem(ec.generate_private_key(ec.SECP256R1()))], ids=["text", "", "curve"]
)
def test_key_that_is_none_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match="expected the App's private key") as caught:
        App(APP_ID, SecretStr(key), partial(GitHub, "http://127.0.0.1:9"))
    assert "hunter2" not in str(caught.value)
