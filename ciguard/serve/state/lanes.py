"""Leases of lanes: who judges the runs of one pull request or branch, one run at a time.

A lease is a row of its own. Its primary key lets one worker in; a condition over rows of `work`
does not: PostgreSQL evaluates it over the rows as they were before the transaction it waited for.
All times are the database's, so a worker's clock does not matter. A lease that has expired is lost
for good, whether or not another worker has taken the lane: who was told so may have given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

LEASE_S: Final = 60.0  # how long the runs of a killed worker wait for another
_LANE: Final = schema.lane.c


def acquire(connection: Connection, key: str, worker: str, lease_s: float = LEASE_S) -> bool:
    """Lease a lane that is free, or this worker's still; False where another has it.

    Args:
        worker: no other worker has this name, and it leases one lane at a time.
    """
    statement = statements.insert(connection, schema.lane).values(
        key=key, worker=worker, until_ms=statements.after_ms(lease_s)
    )
    statement = statement.on_conflict_do_update(
        index_elements=[_LANE.key],
        set_={"worker": statement.excluded.worker, "until_ms": statement.excluded.until_ms},
        # Its own: the database was away, or its disk was full, when it was to be released.
        where=sa.or_(_LANE.until_ms <= now_ms(), _LANE.worker == worker),
    )
    return connection.execute(statement.returning(_LANE.key)).first() is not None


def renew(connection: Connection, key: str, worker: str, lease_s: float = LEASE_S) -> bool:
    """Prolong the lease; False where it is this worker's no more."""
    values = {"until_ms": statements.after_ms(lease_s)}
    update = sa.update(schema.lane).where(_holds(key, worker)).values(values)
    return connection.execute(update).rowcount == 1


def release(connection: Connection, key: str, worker: str) -> bool:
    """End the lease; False where it is this worker's no more."""
    return connection.execute(sa.delete(schema.lane).where(_holds(key, worker))).rowcount == 1


def is_held(connection: Connection, key: str, worker: str) -> bool:
    """Say whether the lease is this worker's; nobody can take it before the transaction ends."""
    query = sa.select(_LANE.key).where(_holds(key, worker)).with_for_update()
    return connection.execute(query).first() is not None


def _holds(key: str, worker: str) -> sa.ColumnElement[bool]:
    return sa.and_(_LANE.key == key, _LANE.worker == worker, _LANE.until_ms > now_ms())
