"""Rows of current histories: the object that holds each, replaced by compare-and-swap."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from ciguard.serve.state.database import now_ms
from ciguard.serve.state.schema import history as table


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A history file: its object, digest and size. The first version is 1."""

    repository_id: int
    object: str
    sha256: str
    bytes: int
    version: int


_SELECT: Final = sa.select(*(table.c[column.name] for column in fields(HistoryRow)))


def current(connection: Connection, repository_id: int) -> HistoryRow | None:
    """Return the row of a repository; None before its first run."""
    rows = connection.execute(_SELECT.where(table.c.repository_id == repository_id))
    return next((HistoryRow(**row) for row in rows.mappings()), None)


def all_current(connection: Connection) -> tuple[HistoryRow, ...]:
    """Return the rows of all repositories, by their ids."""
    rows = connection.execute(_SELECT.order_by(table.c.repository_id))
    return tuple(HistoryRow(**row) for row in rows.mappings())


def replace(connection: Connection, row: HistoryRow, expected_version: int) -> bool:
    """Replace the row of the expected version; 0 adds the first row.

    Returns:
        False, with nothing changed, if the current version is another.
    """
    values = {**asdict(row), "updated_at_ms": now_ms()}
    if expected_version:
        is_expected = (table.c.repository_id == row.repository_id) & (
            table.c.version == expected_version
        )
        return connection.execute(sa.update(table).where(is_expected).values(values)).rowcount == 1
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(table).values(values))
    except IntegrityError:  # the primary key: another writer was first
        return False
    return True


def delete(connection: Connection, repository_id: int) -> None:
    connection.execute(sa.delete(table).where(table.c.repository_id == repository_id))
