"""Leases, and two transactions that take from the work list at once, on both engines."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import lanes, schema, work_list
from ciguard.serve.state.database import Database, now_ms
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork, Work

PATIENCE_S = 30.0


def add(connection: Connection, lane: str, *runs: int) -> None:
    work_list.add(connection, [NewWork(RunKey(1, run, 1), lane, "webhook") for run in runs])


class Taking(threading.Thread):
    """Another worker, which takes a row in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.work: Work | None = None

    def run(self) -> None:
        with self.database.write() as connection:
            self.work = work_list.take(connection, "other")

    def wait_until_blocked(self) -> None:
        """On SQLite at once: the other's whole transaction waits for ours."""
        deadline = time.monotonic() + PATIENCE_S
        while self.is_alive() and self.database.is_shared:
            with self.database.read() as connection:
                waiting = sa.text(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                if connection.execute(waiting).scalar_one():
                    return
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_the_lease_decides_where_a_row_is_not_seen_yet(database: Database) -> None:
    """The other sees neither run 1 nor the lease, and would take run 2 beside it."""
    with database.write() as connection:
        add(connection, "a", 2)
    other = Taking(database)
    with database.write() as connection:
        add(connection, "a", 1)
        work = work_list.take(connection, "first")
        assert work is not None
        assert work.key.run_id == 1
        other.start()
        other.wait_until_blocked()
    other.join(PATIENCE_S)
    assert other.work is None


def test_the_second_row_of_a_lane_is_not_taken_while_the_first_is_locked(
    database: Database,
) -> None:
    with database.write() as connection:
        add(connection, "a", 1, 2)
        add(connection, "b", 3)
    other = Taking(database)
    with database.write() as connection:
        work = work_list.take(connection, "first")
        assert work is not None
        assert work.key.run_id == 1
        other.start()
        if database.is_shared:
            other.join(PATIENCE_S)  # it waits for nobody
    other.join(PATIENCE_S)
    assert other.work is not None
    assert other.work.key.run_id == 3


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

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(acquire, [f"w{number}" for number in range(6)]))
    assert sorted(winners) == ["a", "b", "c"]
