"""Workers in threads and processes, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from run.leg_runner import until
from serve.work.interval_worker import INTERVAL, KILLED, make_job, overlaps

from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.models import WorkflowRun
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork, Work
from ciguard.serve.webhooks import lane_of
from ciguard.serve.work.worker import NotDue, Worker

PATIENCE_S = 60.0


def wait_until(is_so: Callable[[], object], what: str) -> None:
    until(is_so, what=what, timeout_s=PATIENCE_S)


def add(database: Database, *runs: int, lane: str = "") -> None:
    entries = [NewWork(RunKey(1, run, 1), lane or f"lane {run}", "webhook") for run in runs]
    with database.write() as connection:
        work_list.add(connection, entries)


def row(database: Database, run: int) -> Any:
    with database.read() as connection:
        query = sa.select(schema.work).where(schema.work.c.run_id == run)
        return connection.execute(query).one()


def states(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(sa.select(schema.work.c.state)).scalars())


@contextlib.contextmanager
def running(*workers: Worker) -> Iterator[None]:
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        for one in threads:
            one.join(PATIENCE_S)
            assert not one.is_alive()


class Blocked:
    """A job that waits until the test lets it end, and says whether the row was still its own."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.held: list[bool] = []

    def __call__(self, _: Work, still_holds: Callable[[], bool]) -> None:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_S)
        self.held.append(still_holds())


@contextlib.contextmanager
def blocked(database: Database, *runs: int, **options: float) -> Iterator[tuple[Worker, Blocked]]:
    """A worker in the midst of its first job, which still has to be let end."""
    add(database, *runs)
    job = Blocked()
    worker = Worker(database, job, **options)
    with running(worker):
        assert job.has_begun.wait(PATIENCE_S)
        yield worker, job


def test_each_outcome_of_a_job_is_written(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def job(work: Work, still_holds: Callable[[], bool]) -> None:
        match work.key.run_id:
            case 1:
                raise ZeroDivisionError("token=hunter2")
            case 2:
                raise InputError("no plan", where="run 2", fix="look")
            case 3:
                raise GitHubError("wait", status=429, wait_s=60)
            case 5:
                raise NotDue("not completed", wait_s=60)
            case _:
                assert still_holds()

    with database.write() as connection:
        repositories.upsert(connection, [Repository(1, "o/r", is_private=False)])
        repositories.set_reconciled(connection, 1)
    add(database, 1, 2, 3, 4)
    with running(Worker(database, job, poll_s=0.05)):
        wait_until(lambda: row(database, 3).problem, "not run")
        assert states(database) == {"waiting"}  # the fourth shares the rate limit of the third
        with database.write() as connection:
            later = sa.update(schema.work).where(schema.work.c.run_id == 3)
            connection.execute(later.values(due_at_ms=1 << 60))
            connection.execute(sa.update(schema.pause).values(until_ms=0))
        wait_until(lambda: row(database, 4).state == "done", "ended by a bad job")
    assert [row(database, run).tries for run in (1, 2, 3, 4)] == [1, 1, 0, 1]
    with database.read() as connection:
        assert pauses.current(connection, sa.true()) == ()  # by the success of the fourth
    add(database, 5, 6)
    with running(Worker(database, job, poll_s=0.05)):
        wait_until(lambda: row(database, 6).state == "done", "waits for the run before it")
    assert (row(database, 5).tries, row(database, 5).problem) == (0, "not completed")
    assert row(database, 1).problem.startswith("ZeroDivisionError: see the log of worker ")
    assert row(database, 2).problem == "run 2: no plan\n  fix: look"
    assert "Traceback" in caplog.text
    with database.read() as connection:
        assert connection.execute(sa.select(schema.lane)).all() == []


def test_a_stopping_worker_finishes_its_job_and_takes_no_other(database: Database) -> None:
    with blocked(database, 1, 2) as (worker, job):
        stop = threading.Thread(target=worker.stop, args=[PATIENCE_S])
        stop.start()
        job.may_end.set()
        stop.join()
        assert worker.stop()
    assert job.held == [True]
    assert (row(database, 1).state, row(database, 2).state) == ("done", "waiting")


def test_a_worker_that_must_stop_gives_its_row_back(database: Database) -> None:
    with blocked(database, 1) as (worker, job):
        assert not worker.stop()
        with database.write() as connection:
            other = work_list.take(connection, "other")
        assert other is not None
        assert other.tries == 1
        job.may_end.set()
    assert job.held == [False]
    assert row(database, 1).state == "running"
    with database.write() as connection:
        assert work_list.finish(connection, other)


def test_a_lease_is_renewed_while_the_job_runs(database: Database) -> None:
    def until_ms() -> int:
        with database.read() as connection:
            return int(connection.execute(sa.select(schema.lane.c.until_ms)).scalar_one())

    with blocked(database, 1, lease_s=2) as (_, job):
        first = until_ms()
        wait_until(lambda: until_ms() > first, "not renewed")
        job.may_end.set()
        wait_until(lambda: row(database, 1).state == "done", "not finished")
    assert job.held == [True]


def test_a_job_whose_lease_expired_is_not_finished(database: Database) -> None:
    """As after a jump of the database's clock: the job may have returned early."""
    with blocked(database, 1, poll_s=0.05) as (_, job):
        with database.write() as connection:
            connection.execute(sa.update(schema.lane).values(until_ms=1))
        job.may_end.set()
        wait_until(lambda: row(database, 1).state == "done", "not done again")
    assert job.held == [False, True]
    assert row(database, 1).tries == 2


def test_a_worker_outlives_an_outage_of_the_database(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    add(database, 1)
    with database.write() as connection:
        connection.execute(sa.text("ALTER TABLE lane RENAME TO away"))
    with running(Worker(database, lambda *_: None, poll_s=0.05)):
        wait_until(lambda: caplog.text.count("worker ") > 1, "no error")
        with database.write() as connection:
            connection.execute(sa.text("ALTER TABLE away RENAME TO lane"))
        wait_until(lambda: row(database, 1).state == "done", "not run")


def test_of_many_workers_no_two_are_in_one_lane(database: Database) -> None:
    """All rows are done, each once, those of a lane in their order."""
    with database.write() as connection:
        INTERVAL.create(connection)
    for lane in range(4):
        add(database, *range(100 + lane, 160, 4), lane=f"lane {lane}")
    job = make_job(database, 0.001)
    with running(*(Worker(database, job, poll_s=0.02) for _ in range(5))):
        wait_until(lambda: states(database) == {"done"}, "not all done")
    with database.read() as connection:
        assert overlaps(connection) == 0
        runs = connection.execute(sa.select(INTERVAL.c.run_id).order_by(INTERVAL.c.id)).scalars()
        by_lane: dict[int, list[int]] = {}
        for run in runs:
            by_lane.setdefault(run % 4, []).append(run)
    assert by_lane == {lane: list(range(100 + lane, 160, 4)) for lane in range(4)}


def test_the_row_of_a_killed_worker_is_done_by_another(
    database: Database, database_url: str
) -> None:
    with database.write() as connection:
        INTERVAL.create(connection)
    add(database, KILLED, KILLED + 1, lane="a")
    program = Path(__file__).with_name("interval_worker.py")
    victim = subprocess.Popen([sys.executable, str(program), database_url], stdin=subprocess.PIPE)
    try:
        wait_until(lambda: row(database, KILLED).state == "running", "not taken")
    finally:
        victim.kill()
        victim.communicate(timeout=PATIENCE_S)
    with running(Worker(database, make_job(database, 0.0), poll_s=0.05)):
        wait_until(lambda: states(database) == {"done"}, "not taken over")
    assert row(database, KILLED).tries == 2
    with database.read() as connection:
        query = sa.select(INTERVAL.c.run_id, INTERVAL.c.ended_at_ms.is_not(None))
        ended = connection.execute(query.order_by(INTERVAL.c.id)).all()
    # The killed one may have died before it wrote that it began. Which of the two comes first is
    # open where the lease ends between the look at crashed rows and that at waiting ones.
    assert sorted(map(tuple, ended[-2:])) == [(KILLED, True), (KILLED + 1, True)]


def test_a_lane_is_a_branch_of_a_workflow() -> None:
    def lane(repository_id: int, path: str, branch: str) -> str:
        run = {"id": 1, "path": path, "head_branch": branch, "repository": {"id": repository_id}}
        return lane_of(repository_id, WorkflowRun.model_validate(run))

    path = ".github/workflows/tests.yml"
    lanes = {
        *(lane(1, path, "7"), lane(2, path, "7"), lane(1, path, "8"), lane(1, "other.yml", "7")),
        lane(1, "w" * 256, "b" * 256),
        lane(1, "w" * 255, "b" * 256),
    }
    assert len(lanes) == 6
    assert max(map(len, lanes)) == 512
