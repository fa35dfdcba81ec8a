"""What pages and metrics see of the work list, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import repositories, schema, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import MAX_TRIES, NewWork, WorkState

DAY_MS = 86_400_000


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """One transaction: run 1 is done, run 2 dead, run 3 runs, runs 4 and 5 wait."""
    with database.write() as opened:
        repositories.upsert(opened, [Repository(1, "o/one", False), Repository(2, "o/two", False)])
        opened.execute(sa.update(schema.repository).values(reconciled_at_ms=0))
        add(opened, RunKey(1, 1, 1), RunKey(2, 2, 1))
        for settle in (work_list.finish, kill):
            work = work_list.take(opened, "w")
            assert work is not None
            settle(opened, work)
        add(opened, RunKey(1, 3, 1))
        work_list.take(opened, "w")
        add(opened, RunKey(2, 5, 1), RunKey(1, 4, 1))
        yield opened


def add(connection: Connection, *keys: RunKey) -> None:
    work_list.add(connection, [NewWork(key, f"{key}", "webhook") for key in keys])


def kill(connection: Connection, work: work_list.Work) -> bool:
    connection.execute(sa.update(schema.work).values(tries=MAX_TRIES))
    last = work_list.Work(work.key, work.lane, work.source, MAX_TRIES, work.worker)
    return work_list.fail(connection, last, "no artifacts")


def test_dead_letters_have_their_problem(connection: Connection) -> None:
    (dead,) = work_list.dead_letters(connection, [1, 2])
    assert (dead.key, dead.state, dead.problem) == (RunKey(2, 2, 1), WorkState.DEAD, "no artifacts")
    assert (dead.repository, dead.tries) == ("o/two", MAX_TRIES)
    assert work_list.dead_letters(connection, [2]) == (dead,)
    assert work_list.dead_letters(connection, [1]) == ()


def test_what_runs_comes_before_what_waits(connection: Connection) -> None:
    assert [row.key.run_id for row in work_list.unfinished(connection, [1, 2])] == [3, 4, 5]
    assert [row.key.run_id for row in work_list.unfinished(connection, [2])] == [5]


def test_the_backlog_is_counted(connection: Connection) -> None:
    connection.execute(
        sa.update(schema.work)
        .where(schema.work.c.run_id == 4)
        .values(due_at_ms=schema.work.c.due_at_ms - 5_000)
    )
    rows, oldest_s = work_list.backlog(connection)
    assert rows == {WorkState.WAITING: 2, WorkState.RUNNING: 1, WorkState.DEAD: 1}
    assert 5 <= oldest_s < 60
    connection.execute(sa.delete(schema.work))
    assert work_list.backlog(connection) == (dict.fromkeys(rows, 0), 0)


def test_only_old_rows_that_are_done_are_forgotten(connection: Connection) -> None:
    finished = schema.work.c.finished_at_ms
    connection.execute(sa.update(schema.work).values(finished_at_ms=finished - 3 * DAY_MS))
    assert work_list.prune(connection, days=4) == 0
    assert work_list.prune(connection, days=2) == 1
    assert len(work_list.dead_letters(connection, [1, 2])) == 1


def test_the_rows_of_a_removed_repository_are_forgotten(connection: Connection) -> None:
    repositories.delete_rows(connection, 2)
    assert work_list.dead_letters(connection, [1, 2]) == ()
    assert [row.key.run_id for row in work_list.unfinished(connection, [1, 2])] == [3, 4]
