"""What the tests of the API share."""

from __future__ import annotations

import pytest

from ciguard.serve.api import oidc


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are enough for GitHub, and not for a machine that runs all tests at once."""
    monkeypatch.setattr(oidc, "FETCH_S", 30.0)
