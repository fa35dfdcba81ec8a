"""GitHub's deliveries that were received: each counts once, however often it is sent.

Source: docs.github.com, "Best practices for using webhooks", `X-GitHub-Delivery`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery, by its headers and payload; `action` is "" for an event that has none."""

    id: str
    event: str
    action: str
    repository_id: int | None


def record(connection: Connection, deliveries: Sequence[Delivery]) -> frozenset[str]:
    """Add those that are not there yet, and give their ids.

    An id that stands twice in `deliveries` is added, and given, once.
    """
    rows = {one.id: one for one in deliveries}
    if not rows:
        return frozenset()
    statement = (
        statements.insert(connection, schema.delivery)
        .values(received_at_ms=now_ms())
        .on_conflict_do_nothing()
        .returning(schema.delivery.c.id)
    )
    values = [asdict(one) for _, one in sorted(rows.items())]
    return frozenset(connection.execute(statement, values).scalars())


def has_received(connection: Connection, events: Sequence[str], since_ms: int) -> bool:
    """Say whether one of these events was received since then, by the database's clock."""
    column = schema.delivery.c
    query = sa.select(column.id).where(column.received_at_ms >= since_ms, column.event.in_(events))
    return connection.execute(query.limit(1)).first() is not None


def prune(connection: Connection, days: float) -> int:
    """Forget those received longer ago, and say how many.

    GitHub sends a delivery again for three days at most, and only where somebody asks for it.
    """
    is_old = statements.is_older(schema.delivery.c.received_at_ms, days)
    return connection.execute(sa.delete(schema.delivery).where(is_old)).rowcount
