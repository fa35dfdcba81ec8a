"""A fake GitHub with one pull request, and a client of it that waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakegithub.fake_clock import noting
from fakegithub.state import TOKEN, FakeGitHub
from pydantic import SecretStr

from ciguard.github.client import GitHub
from ciguard.github.retry import RetryPolicy

REPOSITORY = "octo-org/shop"
PULL_REQUEST = 7


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    """A GitHub that knows TOKEN as GITHUB_TOKEN."""
    server.pulls.add((REPOSITORY, PULL_REQUEST))
    return server


@pytest.fixture
def waits() -> list[float]:
    """Seconds that the client was made to wait, in order."""
    return []


@pytest.fixture
def github(server: FakeGitHub, waits: list[float]) -> Iterator[GitHub]:
    retry_policy = RetryPolicy(attempts=4, first_s=0.0)
    with GitHub(
        server.address,
        SecretStr(TOKEN),
        retry_policy=retry_policy,
        sleep=noting(waits),
        timeout_s=20.0,
    ) as client:
        yield client
