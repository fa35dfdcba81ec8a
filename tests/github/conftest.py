"""A fake GitHub with one pull request, and a client of it that waits for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakegithub.conformance import description_path, mistakes, read_description
from fakegithub.fake_clock import noting
from fakegithub.server import serving
from fakegithub.state import FakeGitHub, Login
from pydantic import SecretStr

from ciguard.github.client import GitHub
from ciguard.github.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openapi_core import OpenAPI

TOKEN = "ghs_TheTokenThatMustStaySecret"
REPOSITORY = "octo-org/shop"
PULL_REQUEST = 7


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def description() -> OpenAPI | None:
    """GitHub's own description of its API, where it lies beside the project."""
    path = description_path()
    return read_description(path) if path.is_file() else None


@pytest.fixture
def server(description: OpenAPI | None) -> Iterator[FakeGitHub]:
    """A GitHub that knows TOKEN as GITHUB_TOKEN; afterwards all that was said must be allowed."""
    with serving() as github:
        github.tokens[TOKEN] = Login()
        github.pulls.add((REPOSITORY, PULL_REQUEST))
        yield github
    if description is not None:
        assert mistakes(description, github.exchanges) == []


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
