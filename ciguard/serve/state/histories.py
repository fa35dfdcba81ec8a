"""Which object holds a repository's history now: one row, replaced by compare-and-swap."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from ciguard.serve.state.database import now_ms
from ciguard.serve.state.schema import history as table

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A history file: the object that holds it, and what it must be. The first version is 1."""

    repository_id: int
    object: str
    sha256: str
    bytes: int
    version: int


_SELECT: Final = sa.select(*(table.c[one.name] for one in fields(HistoryRow)))


def current(connection: Connection, repository_id: int) -> HistoryRow | None:
    """The row of a repository; None before its first run."""
    rows = connection.execute(_SELECT.where(table.c.repository_id == repository_id))
    return next((HistoryRow(**row) for row in rows.mappings()), None)


def all_current(connection: Connection) -> tuple[HistoryRow, ...]:
    """The rows of all repositories, by their ids."""
    rows = connection.execute(_SELECT.order_by(table.c.repository_id))
    return tuple(HistoryRow(**row) for row in rows.mappings())


def replace(connection: Connection, row: HistoryRow, expected_version: int) -> bool:
    """Put the row in place of the expected version (0: there is none yet).

    Returns:
        False, and nothing is done, where another version is there now.
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
    """Forget the history of a repository that is removed."""
    connection.execute(sa.delete(table).where(table.c.repository_id == repository_id))
