"""The tables of the service, on SQLite and on PostgreSQL each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serve.conftest import new_database

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ciguard.serve.state.database import Database


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database(request, tmp_path)


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """One transaction for the whole test."""
    with database.write() as opened:
        yield opened
