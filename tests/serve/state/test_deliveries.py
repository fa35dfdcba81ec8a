"""Deliveries, each once, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading

import sqlalchemy as sa

from ciguard.serve.state import deliveries, schema
from ciguard.serve.state.database import Database
from ciguard.serve.state.deliveries import Delivery


def delivery(id: str) -> Delivery:
    return Delivery(id, "workflow_run", "completed", 1)


def test_a_delivery_is_new_once(database: Database) -> None:
    with database.write() as connection:
        both = deliveries.record(connection, [delivery("b"), delivery("a"), delivery("a")])
        assert both == {"a", "b"}
        assert deliveries.record(connection, [delivery("b"), delivery("c")]) == {"c"}
        assert deliveries.record(connection, []) == frozenset()


def test_threads_that_get_the_same_deliveries_agree_on_one(database: Database) -> None:
    ids = [f"{number:03}" for number in range(400)]
    new: list[str] = []

    def record(order: list[str]) -> None:
        with database.write() as connection:
            new.extend(deliveries.record(connection, [delivery(id) for id in order]))

    threads = [threading.Thread(target=record, args=[ids[:: 1 - 2 * (n % 2)]]) for n in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(new) == ids


def test_old_deliveries_are_forgotten(database: Database) -> None:
    with database.write() as connection:
        deliveries.record(connection, [delivery("old"), delivery("new")])
        connection.execute(
            sa.update(schema.delivery)
            .where(schema.delivery.c.id == "old")
            .values(received_at_ms=schema.delivery.c.received_at_ms - 3 * 86_400_000)
        )
        assert deliveries.prune(connection, days=4) == 0
        assert deliveries.prune(connection, days=2) == 1
        assert connection.execute(sa.select(schema.delivery.c.id)).scalars().all() == ["new"]
