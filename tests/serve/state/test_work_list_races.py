"""Two transactions that take from the work list at once, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
import time

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import work_list
from ciguard.serve.state.database import Database
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
