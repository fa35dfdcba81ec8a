"""The work list, on SQLite and on PostgreSQL: what is taken, by whom, and what becomes of it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import lanes, schema, work_list
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import MAX_TRIES, PROMPT_TRIES, NewWork, Work


def key(run: int, attempt: int = 1) -> RunKey:
    return RunKey(1, run, attempt)


def add(connection: Connection, lane: str, *runs: int) -> None:
    entries = [NewWork(key(run), lane, "webhook") for run in runs]
    assert work_list.add(connection, entries) == len(runs)


def taken(connection: Connection, worker: str = "w") -> int | None:
    work = work_list.take(connection, worker)
    return None if work is None else work.key.run_id


def take(connection: Connection, worker: str = "w") -> Work:
    work = work_list.take(connection, worker)
    assert work is not None
    return work


def row(connection: Connection, run: int) -> Any:
    query = sa.select(schema.work).where(schema.work.c.run_id == run)
    return connection.execute(query).one()


def wait(connection: Connection, seconds: float) -> None:
    """Let time pass: everything that the database holds becomes older."""
    for table, columns in (
        (schema.work, ("due_at_ms", "added_at_ms")),
        (schema.lane, ("until_ms",)),
    ):
        older = {column: table.c[column] - round(seconds * 1000) for column in columns}
        connection.execute(sa.update(table).values(older))


def test_what_is_there_or_has_a_verdict_is_not_added(connection: Connection) -> None:
    add(connection, "a", 1)
    run: dict[str, Any] = dict.fromkeys(schema.run.c.keys(), "")
    numbers = [
        *("pull_request", "started_at_ms", "completed_at_ms", "judged_at_ms", "exit_code"),
        *("planned", "missing"),
    ]
    run |= dict.fromkeys(numbers, 0) | dict.fromkeys(["makespan_s", "bound_s", "price_usd"])
    run |= {"repository_id": 1, "run_id": 2, "run_attempt": 1, "is_base_branch": False}
    connection.execute(schema.run.insert().values(run))
    entries = [NewWork(one, "b", "reconcile") for one in (key(2, 2), key(2), key(1), key(1))]
    assert work_list.add(connection, entries) == 1
    assert work_list.add(connection, entries) == 0
    assert row(connection, 1).lane == "a"
    assert row(connection, 2).run_attempt == 2


def test_the_oldest_run_of_a_lane_is_taken_and_leases_the_lane(connection: Connection) -> None:
    add(connection, "a", 3)
    add(connection, "a", 1, 2)
    add(connection, "b", 4)
    work = take(connection, "first")
    assert work == Work(key(1), "a", "webhook", 1, "first")
    assert row(connection, 1).state == "running"
    assert taken(connection, "second") == 4
    assert taken(connection, "third") is None
    assert work_list.finish(connection, work)
    assert row(connection, 1).state == "done"
    assert taken(connection, "third") == 2


def test_attempts_of_a_run_are_taken_in_their_order(connection: Connection) -> None:
    work_list.add(connection, [NewWork(key(1, attempt), "a", "webhook") for attempt in (2, 10, 1)])
    for attempt in (1, 2, 10):
        work = take(connection)
        assert work.key.run_attempt == attempt
        work_list.finish(connection, work)


def test_a_row_that_fails_each_time_dies_and_can_be_revived(connection: Connection) -> None:
    add(connection, "a", 1)
    for tries in range(1, MAX_TRIES + 1):
        work = take(connection)
        assert work.tries == tries
        assert not work_list.retry(connection, work.key)
        assert work_list.fail(connection, work, "no \0 and no \ud800" + "x" * 9_999)
        wait(connection, 60 * 60 * 24)
    assert taken(connection) is None
    dead = row(connection, 1)
    assert (dead.state, dead.problem[:17]) == ("dead", "no ? and no ?xxxx")
    assert dead.finished_at_ms is not None
    assert work_list.retry(connection, key(1))
    assert take(connection).tries == 1


def test_the_row_of_a_dead_worker_is_taken_first(connection: Connection) -> None:
    add(connection, "a", 1, 2)
    add(connection, "b", 3)
    lost = take(connection, "first")
    wait(connection, lanes.LEASE_S - 1)
    assert work_list.still_holds(connection, lost)
    assert lanes.renew(connection, lost.lane, lost.worker)
    wait(connection, lanes.LEASE_S + 1)
    assert not work_list.still_holds(connection, lost)
    work = take(connection, "second")
    assert (work.key, work.tries) == (key(1), 2)


def test_a_row_that_kills_each_worker_dies(connection: Connection) -> None:
    add(connection, "a", 1)
    for _ in range(MAX_TRIES):
        assert taken(connection) == 1
        wait(connection, lanes.LEASE_S + 1)
        if row(connection, 1).tries > PROMPT_TRIES:
            assert taken(connection) is None
            assert work_list.put_off(connection, "w")
            wait(connection, 60 * 60 * 24)
    add(connection, "a", 2)
    assert taken(connection) == 2
    assert row(connection, 1).state == "dead"
    assert "worker" in row(connection, 1).problem


def test_a_row_that_kills_its_workers_takes_no_other_with_it(connection: Connection) -> None:
    """Both were taken by threads of one process, which the first one ends each time."""
    add(connection, "poison", 1)
    add(connection, "b", 2)
    for _ in range(PROMPT_TRIES + 1):
        assert {taken(connection, "x"), taken(connection, "y")} == {1, 2}
        wait(connection, lanes.LEASE_S + 1)
    assert [work_list.put_off(connection, "x") for _ in range(3)] == [True, True, False]
    assert taken(connection) is None  # both wait, for times that jitter sets apart
    delays = [one.due_at_ms for one in (row(connection, 1), row(connection, 2))]
    assert delays[0] != delays[1]
    assert [row(connection, number).tries for number in (1, 2)] == [PROMPT_TRIES + 1] * 2


def test_delays_grow_to_about_a_day_in_all_with_a_quarter_of_jitter() -> None:
    delays = [work_list.retry_delay_s(tries, 0.5) for tries in range(1, MAX_TRIES + 2)]
    assert delays == [20, 80, 320, 1_280, 5_120, 20_480, 43_200, None, None]
    assert [work_list.retry_delay_s(1, jitter) for jitter in (0.0, 1.0)] == [15, 25]
