"""Leases, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import lanes, schema
from ciguard.serve.state.database import Database, now_ms


def expire(connection: Connection, key: str) -> None:
    connection.execute(sa.update(schema.lane).where(schema.lane.c.key == key).values(until_ms=1))


def test_a_lease_is_one_workers_until_it_is_released(database: Database) -> None:
    with database.write() as connection:
        assert lanes.acquire(connection, "a", "first")
        assert not lanes.acquire(connection, "a", "second")
        assert lanes.acquire(connection, "a", "first")
        assert lanes.acquire(connection, "b", "second")
        assert not lanes.release(connection, "a", "second")
        assert lanes.is_held(connection, "a", "first")
        assert not lanes.is_held(connection, "a", "second")
        assert lanes.release(connection, "a", "first")
        assert not lanes.is_held(connection, "a", "first")
        assert lanes.acquire(connection, "a", "second")


def test_an_expired_lease_is_anothers_for_the_taking(database: Database) -> None:
    with database.write() as connection:
        lanes.acquire(connection, "a", "first")
        expire(connection, "a")
        assert not lanes.is_held(connection, "a", "first")
        assert lanes.acquire(connection, "a", "second")
        assert not lanes.renew(connection, "a", "first")
        assert not lanes.release(connection, "a", "first")
        assert lanes.is_held(connection, "a", "second")


def test_a_lease_is_renewed_in_time_or_not_at_all(database: Database) -> None:
    with database.write() as connection:
        lanes.acquire(connection, "a", "first", lease_s=50)
        assert lanes.renew(connection, "a", "first", lease_s=5_000)
        until_ms = connection.execute(sa.select(schema.lane.c.until_ms)).scalar_one()
        now = connection.execute(sa.select(now_ms())).scalar_one()
        assert 4_900_000 < until_ms - now <= 5_000_000
        expire(connection, "a")
        # Nobody has taken it, but who was told that it is lost may have given up.
        assert not lanes.renew(connection, "a", "first")
        assert not lanes.release(connection, "a", "first")


def test_of_threads_that_want_one_lane_one_gets_it(database: Database) -> None:
    winners: list[str] = []
    start = threading.Barrier(6)

    def acquire(worker: str) -> None:
        start.wait(timeout=30)
        for lane in ("a", "b", "c"):
            with database.write() as connection:
                if lanes.acquire(connection, lane, worker):
                    winners.append(lane)

    threads = [threading.Thread(target=acquire, args=[f"w{number}"]) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(winners) == ["a", "b", "c"]
