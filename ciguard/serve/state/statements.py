"""SQL that several tables need, or that the two engines write differently.

Locks of PostgreSQL: whoever needs a row of `work` and its lane locks the row of `work` first, so
that two transactions never wait for each other; many rows are inserted in the order of their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ciguard.serve.state.database import now_ms
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

KEY: Final = ("repository_id", "run_id", "run_attempt")  # as the fields of RunKey
DAY_S: Final = 24 * 60 * 60


def insert(connection: Connection, table: sa.Table) -> Any:
    """Give an INSERT of this engine, which has `on_conflict_do_nothing` and `_do_update`."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def is_run(table: sa.Table, key: RunKey) -> sa.ColumnElement[bool]:
    """Say whether a row is of this run attempt."""
    return sa.and_(*(table.c[name] == getattr(key, name) for name in KEY))


def take_key(values: dict[str, Any]) -> RunKey:
    """Remove the columns of the run attempt from the values of a row, and give them as one."""
    return RunKey(*(values.pop(name) for name in KEY))


def after_ms(wait_s: float) -> sa.ColumnElement[int]:
    """So many seconds from now, by the database's clock."""
    return now_ms() + round(wait_s * 1000)


def is_older(time_ms: sa.ColumnElement[int], days: float) -> sa.ColumnElement[bool]:
    """Say whether a time is more than so many days ago."""
    return time_ms < after_ms(-days * DAY_S)
