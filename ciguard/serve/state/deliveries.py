"""Rows of received webhook deliveries: each counts once, however often GitHub sends it.

Source: docs.github.com, "Best practices for using webhooks", `X-GitHub-Delivery`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import schema
from ciguard.serve.state.database import engine_insert, is_older, now_ms


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery, by its headers and payload; `action` is "" for an event that has none."""

    id: str
    event: str
    action: str
    repository_id: int | None


def record(connection: Connection, deliveries: Sequence[Delivery]) -> frozenset[str]:
    """Add new deliveries, and return their ids; an id may occur several times in `deliveries`."""
    rows = {delivery.id: delivery for delivery in deliveries}
    if not rows:
        return frozenset()
    statement = (
        engine_insert(connection, schema.delivery)
        .values(received_at_ms=now_ms())
        .on_conflict_do_nothing()
        .returning(schema.delivery.c.id)
    )
    values = [asdict(delivery) for _, delivery in sorted(rows.items())]
    return frozenset(connection.execute(statement, values).scalars())


def has_received(connection: Connection, events: Sequence[str], since_ms: int) -> bool:
    """Return whether one of these events was received since a time of the database."""
    column = schema.delivery.c
    query = sa.select(column.id).where(column.received_at_ms >= since_ms, column.event.in_(events))
    return connection.execute(query.limit(1)).first() is not None


def prune(connection: Connection, days: float) -> int:
    """Delete deliveries that were received longer ago; return their number.

    GitHub redelivers for three days at most, and only on request.
    """
    is_old = is_older(schema.delivery.c.received_at_ms, days)
    return connection.execute(sa.delete(schema.delivery).where(is_old)).rowcount
