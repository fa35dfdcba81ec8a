"""A worker whose job writes when it began and when it ended; also a program, to be killed.

    interval_worker.py DATABASE_URL

A job of a run whose id is KILLED never ends at its first try.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import work_list
from ciguard.serve.state.database import Database, now_ms, open_database
from ciguard.serve.state.work_list import Work
from ciguard.serve.work.worker import Worker

KILLED: Final = 13
INTERVAL: Final = sa.Table(
    "interval",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.BigInteger),
    sa.Column("lane", sa.String(512)),
    sa.Column("began_at_ms", sa.BigInteger),
    sa.Column("ended_at_ms", sa.BigInteger),
)


def make_job(database: Database, job_s: float) -> Callable[[Work, Callable[[], bool]], None]:
    """A job of so many seconds; it says that it ended only while the row is its own."""

    def job(work: Work, _: Callable[[], bool]) -> None:
        values = {"run_id": work.key.run_id, "lane": work.lane, "began_at_ms": now_ms()}
        with database.write() as connection:
            id = connection.execute(
                INTERVAL.insert().values(values).returning(INTERVAL.c.id)
            ).scalar_one()
        is_over = threading.Event()
        is_over.wait(600 if work.key.run_id == KILLED and work.tries == 1 else job_s)
        with database.write() as connection:
            if work_list.still_holds(connection, work):
                ended = INTERVAL.update().where(INTERVAL.c.id == id)
                connection.execute(ended.values(ended_at_ms=now_ms()))

    return job


def overlaps(connection: Connection) -> int:
    """How many pairs of jobs of one lane ran at once."""
    one, other = INTERVAL.alias("one"), INTERVAL.alias("other")
    pairs = sa.select(sa.func.count()).where(
        one.c.lane == other.c.lane,
        one.c.id < other.c.id,
        one.c.began_at_ms < other.c.ended_at_ms,
        other.c.began_at_ms < one.c.ended_at_ms,
    )
    return connection.execute(pairs).scalar_one()


def main() -> None:
    database = open_database(sys.argv[1])
    worker = Worker(database, make_job(database, 0.0), poll_s=0.1, lease_s=0.5)
    threading.Thread(target=worker.run).start()
    parent = sys.stdin.readline  # ends with the process that started it
    while parent():
        time.sleep(0.01)
    worker.stop()


if __name__ == "__main__":
    main()
