"""What the tests of the API share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import serving
from serve.api.oidc_issuer import Issuer
from serve.api.registered_run import RegisteredRun, serving_run

from ciguard.serve.api import oidc


@pytest.fixture(autouse=True)
def patience_with_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are enough for GitHub, and not for a machine that runs all tests at once."""
    monkeypatch.setattr(oidc, "FETCH_S", 30.0)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with serving(Issuer().application()) as address:
        yield address


@pytest.fixture
def run(tmp_path: Path, issuer: str, database_url: str) -> Iterator[RegisteredRun]:
    with serving_run(tmp_path / "objects", issuer, database_url) as found:
        yield found
