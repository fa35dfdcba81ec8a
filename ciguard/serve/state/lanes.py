"""Lanes of runs and their leases: one worker at a time judges the runs of a lane.

A lane is a branch of a workflow (`webhooks.lane_of`). A lease is a row with a primary key,
which admits one worker. A condition over rows of `work` would not: PostgreSQL evaluates it over the
rows before the transaction for which it waited. All times are the database's, so clocks of workers
do not matter. An expired lease is lost for good, even if no other worker has taken the lane: its
worker may have given up.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import schema
from ciguard.serve.state.database import after_ms, engine_insert, now_ms

LEASE_S: Final = 60.0  # wait of the runs of a killed worker
_LANE: Final = schema.lane.c


def acquire(connection: Connection, key: str, worker: str, lease_s: float = LEASE_S) -> bool:
    """Lease a lane that is free, or leased by this worker; False if another worker has it.

    Args:
        worker: unique name of a worker, which leases one lane at a time.
    """
    values = {"key": key, "worker": worker, "until_ms": after_ms(lease_s)}
    statement = engine_insert(connection, schema.lane).values(values)
    statement = statement.on_conflict_do_update(
        index_elements=[_LANE.key],
        set_={"worker": statement.excluded.worker, "until_ms": statement.excluded.until_ms},
        # The worker's own lease is left if its release failed: by an outage, or a full disk.
        where=sa.or_(_LANE.until_ms <= now_ms(), _LANE.worker == worker),
    )
    return connection.execute(statement.returning(_LANE.key)).first() is not None


def renew(connection: Connection, key: str, worker: str, lease_s: float = LEASE_S) -> bool:
    """Prolong the lease; False if the worker has lost it."""
    values = {"until_ms": after_ms(lease_s)}
    update = sa.update(schema.lane).where(_holds(key, worker)).values(values)
    return connection.execute(update).rowcount == 1


def release(connection: Connection, key: str, worker: str) -> bool:
    """End the lease; False if the worker has lost it."""
    return connection.execute(sa.delete(schema.lane).where(_holds(key, worker))).rowcount == 1


def is_held(connection: Connection, key: str, worker: str) -> bool:
    """Return whether the worker has the lease; if so, lock it until the transaction ends."""
    query = sa.select(_LANE.key).where(_holds(key, worker)).with_for_update()
    return connection.execute(query).first() is not None


def _holds(key: str, worker: str) -> sa.ColumnElement[bool]:
    return sa.and_(_LANE.key == key, _LANE.worker == worker, _LANE.until_ms > now_ms())
