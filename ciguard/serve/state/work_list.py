"""The work list: run attempts that GitHub has completed and that have no verdict yet.

A row is waiting, running, done or dead (given up). A worker takes a row together with the lease of
its lane, and writes the outcome only while it holds that lease. A row whose worker died is still
`running` when the lease ends: it is taken again before the waiting rows, and after a second such
death waits as after a failure. A transaction that needs a row and its lane locks the row first, so
that two transactions never wait for each other.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from ciguard.render.pages import RunNumbers
from ciguard.serve.state import lanes, pauses, schema
from ciguard.serve.state.database import after_ms, engine_insert, is_older, now_ms
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey, is_run, is_same_run, take_key

# backfill: past runs, which fill the history. Other runs of the repository are judged after them.
Source = Literal["webhook", "reconcile", "backfill"]
Ids = Collection[int] | sa.Select[tuple[int]]
LIMIT: Final = 200  # rows shown on a page
# After the first death of its worker, a row is tried again at once; later it waits. A worker judges
# several runs: if one run kills its worker each time, the others succeed only while it waits.
PROMPT_TRIES: Final = 1
MAX_TRIES: Final = 8  # the last about 20 hours after the first: rows survive an outage of a night
FIRST_DELAY_S: Final = 20.0
FACTOR: Final = 4.0
MAX_DELAY_S: Final = 12 * 60 * 60.0
JITTER_RATIO: Final = 0.25  # rows that failed together in an outage are retried at different times
_WORK: Final = schema.work.c
_RUN: Final = schema.run.c


class WorkState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class NewWork:
    """A completed run attempt to add; `lane` is that of `webhooks.lane_of`."""

    key: RunKey
    lane: str
    source: Source


@dataclass(frozen=True, slots=True)
class Work(NewWork):
    """A row that a worker has taken; `tries` includes the current try."""

    tries: int
    worker: str


@dataclass(frozen=True, slots=True)
class WorkRow(RunNumbers):
    """A row of the work list; `problem` is the error of its last try, "" for none."""

    key: RunKey
    repository: str
    state: WorkState
    source: str
    tries: int
    due_at_ms: int
    added_at_ms: int
    finished_at_ms: int | None
    problem: str

    @property
    def repository_id(self) -> int:
        """Return GitHub's number of the repository."""
        return self.key.repository_id


def add(connection: Connection, entries: Sequence[NewWork]) -> int:
    """Add run attempts that have neither a row nor a verdict; return the number of rows added."""
    if not entries:
        return 0
    has_verdict = sa.exists().where(*(_RUN[name] == sa.bindparam(name) for name in RUN_COLUMNS))
    values: dict[str, sa.ColumnElement[Any]] = {
        **{
            name: sa.bindparam(name, type_=_WORK[name].type)
            for name in (*RUN_COLUMNS, "lane", "source")
        },
        "state": sa.literal(WorkState.WAITING.value),
        "tries": sa.literal(0),
        "due_at_ms": now_ms(),
        "added_at_ms": now_ms(),
        "problem": sa.literal(""),
    }
    statement = (
        engine_insert(connection, schema.work)
        .from_select(list(values), sa.select(*values.values()).where(~has_verdict))
        .on_conflict_do_nothing()
    )
    rows = [
        {**asdict(entry.key), "lane": entry.lane, "source": entry.source}
        for entry in sorted(entries, key=lambda entry: entry.key)
    ]
    counted = statement.execution_options(preserve_rowcount=True)
    return connection.execute(counted, rows).rowcount


def take(connection: Connection, worker: str, lease_s: float = lanes.LEASE_S) -> Work | None:
    """Take the row that is due longest; of each free lane, only the oldest run is a candidate.

    Args:
        worker: unique name of a worker, which has one row at a time. It calls `put_off` first:
            rows of workers that died more than once are not taken.
        lease_s: another worker may take the row after this time, unless the lease is renewed.
    """
    is_prompt = _WORK.tries <= PROMPT_TRIES
    for state, condition in ((WorkState.RUNNING, is_prompt), (WorkState.WAITING, _may_begin())):
        while (row := _next(connection, state, condition)) is not None:
            # If the lease is refused, another transaction leased the lane first and has ended: the
            # next query sees its lease and skips the lane.
            if not lanes.acquire(connection, row.lane, worker, lease_s):
                continue
            work = _work(row, worker)
            values = {"state": WorkState.RUNNING, "tries": work.tries}
            connection.execute(_update(work.key).values(values))
            return work
    return None


def _may_begin() -> sa.ColumnElement[bool]:
    """Return the condition for rows of repositories that are not paused, and have their history."""
    past, repository = schema.work.alias("past").c, schema.repository.c
    is_unfinished = past.state.in_((WorkState.WAITING, WorkState.RUNNING))
    # A past run that has failed twice holds up no other.
    failed = past.tries - sa.case((past.state == WorkState.RUNNING, 1), else_=0)
    holds_up = sa.and_(is_unfinished, past.source == "backfill", failed <= PROMPT_TRIES)
    unfilled = sa.select(past.repository_id).where(holds_up)
    unlisted = sa.select(repository.id).where(repository.reconciled_at_ms.is_(None))
    return sa.and_(
        sa.or_(_WORK.source == "backfill", _WORK.repository_id.not_in(unfilled)),
        _WORK.repository_id.not_in(unlisted),
        _WORK.repository_id.not_in(pauses.paused_repositories()),
    )


def put_off(connection: Connection, worker: str) -> bool:
    """Make one row wait whose worker died more than once; False if there is no such row.

    The row may have killed its workers, or it ran beside the row that did. One row a transaction:
    two transactions that lease several lanes could wait for each other.
    """
    row = _next(connection, WorkState.RUNNING, _WORK.tries > PROMPT_TRIES)
    if row is None:
        return False
    if lanes.acquire(connection, row.lane, worker):
        died = replace(_work(row, worker), tries=row.tries)
        fail(connection, died, "the worker ended without an answer")
    return True


def _next(
    connection: Connection, state: WorkState, condition: sa.ColumnElement[bool]
) -> Row[Any] | None:
    """Find the first row in this state that may be taken; lock it if the engine locks rows."""
    # A subquery, evaluated once: PostgreSQL uses no index for a value that may vary by row.
    now = sa.select(now_ms()).scalar_subquery()
    leased = sa.exists().where(schema.lane.c.key == _WORK.lane, schema.lane.c.until_ms > now)
    older = schema.work.alias("older")
    # A worker that skips a row that another worker has locked must not take the lane's next row.
    is_second = sa.exists().where(
        older.c.lane == _WORK.lane,
        older.c.state == state,
        older.c.due_at_ms <= now,
        sa.tuple_(older.c.run_id, older.c.run_attempt) < sa.tuple_(_WORK.run_id, _WORK.run_attempt),
        # Else a past run would wait for an older run that waits for all past runs.
        sa.or_(_WORK.source != "backfill", older.c.source == "backfill"),
    )
    query = (
        sa.select(schema.work)
        .where(_WORK.state == state, condition, _WORK.due_at_ms <= now, ~leased, ~is_second)
        .order_by(_WORK.due_at_ms, _WORK.run_id, _WORK.run_attempt)
        .limit(1)
        .with_for_update(of=schema.work, skip_locked=True)
    )
    return connection.execute(query).first()


def still_holds(connection: Connection, work: Work) -> bool:
    """Return whether the worker still has the row; if so, lock it until the transaction ends.

    A worker that has lost its row leaves the rest of the work to the next worker.
    """
    _lock(connection, work)
    return lanes.is_held(connection, work.lane, work.worker)


def finish(connection: Connection, work: Work) -> bool:
    """End the pause, and mark the row as done; False, and the row as it was, without the lease."""
    pauses.end(connection, [work.key.repository_id])
    values = {"state": WorkState.DONE, "finished_at_ms": now_ms(), "problem": ""}
    return _settle(connection, work, **values)


def fail(
    connection: Connection, work: Work, problem: str, refusal: pauses.Refusal | None = None
) -> bool:
    """Make the row wait for its next try, or give it up after MAX_TRIES; False as `finish`.

    Args:
        refusal: pauses the repository; the try does not count.
    """
    if refusal is not None:
        pauses.start(connection, work.key.repository_id, refusal)
        return postpone(connection, work, 0, problem)
    delay_s = retry_delay_s(work.tries, random.random())
    if delay_s is None:
        values = {"state": WorkState.DEAD, "finished_at_ms": now_ms(), "problem": problem}
        return _settle(connection, work, **values)
    return _settle(connection, work, **_waiting(delay_s, problem))


def retry_delay_s(tries: int, jitter: float) -> float | None:
    """Return how long a row waits after so many failed tries: exponential, with jitter.

    Args:
        tries: >= 1.
        jitter: from 0 to 1; 0.5 changes nothing.

    Returns:
        Seconds; None after MAX_TRIES.
    """
    if tries >= MAX_TRIES:
        return None
    delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * FACTOR ** (tries - 1))
    return delay_s * (1 + JITTER_RATIO * (2 * jitter - 1))


def postpone(connection: Connection, work: Work, wait_s: float, problem: str = "") -> bool:
    """Make the row wait without counting this try: for a pause, or a worker that stops."""
    return _settle(connection, work, tries=work.tries - 1, **_waiting(wait_s, problem))


def retry(
    connection: Connection,
    key: RunKey,
    states: Collection[WorkState] = (WorkState.DEAD, WorkState.DONE),
) -> bool:
    """Make a row in one of these states wait again, without tries; False if none is."""
    is_selected = _WORK.state.in_(states)
    return connection.execute(_update(key).where(is_selected).values(_anew())).rowcount == 1


def retry_uncompared(connection: Connection, key: RunKey) -> None:
    """Have the newer runs of a repository judged again that had too little history to compare.

    Only runs with stored archives: without its artifacts, a run would get a worse verdict.
    """
    has_archives = sa.exists().where(is_same_run(schema.artifact, schema.work))
    is_uncompared = sa.exists().where(
        is_same_run(schema.run, schema.work), _RUN.comparison.in_(("", "inconclusive"))
    )
    is_newer = sa.and_(_WORK.repository_id == key.repository_id, _WORK.run_id > key.run_id)
    is_done = sa.and_(_WORK.state == WorkState.DONE, _WORK.source != "backfill")
    update = sa.update(schema.work).where(is_newer, is_done, is_uncompared, has_archives)
    connection.execute(update.values(_anew()))


def retry_all(connection: Connection, repositories: sa.ColumnElement[bool]) -> int:
    """End the pauses of repositories, and `retry` their rows that were given up; count the rows.

    Args:
        repositories: condition of the rows of repositories.
    """
    ids = sa.select(schema.repository.c.id).where(repositories)
    pauses.end(connection, ids)
    is_dead = sa.and_(_WORK.state == WorkState.DEAD, _WORK.repository_id.in_(ids))
    return connection.execute(sa.update(schema.work).where(is_dead).values(_anew())).rowcount


def _anew() -> dict[str, Any]:
    return {"tries": 0, "finished_at_ms": None, **_waiting(0, "")}


def _work(row: Row[Any], worker: str) -> Work:
    key = RunKey(row.repository_id, row.run_id, row.run_attempt)
    return Work(key, row.lane, row.source, row.tries + 1, worker)


def _update(key: RunKey) -> sa.Update:
    return sa.update(schema.work).where(is_run(schema.work, key))


def _lock(connection: Connection, work: Work) -> None:
    query = sa.select(_WORK.run_id).where(is_run(schema.work, work.key))
    connection.execute(query.with_for_update())


def _settle(connection: Connection, work: Work, **values: Any) -> bool:
    _lock(connection, work)
    if not lanes.release(connection, work.lane, work.worker):
        return False
    connection.execute(_update(work.key).values(values))
    return True


def _waiting(wait_s: float, problem: str) -> dict[str, Any]:
    due_at_ms = after_ms(wait_s)
    return {"state": WorkState.WAITING, "due_at_ms": due_at_ms, "problem": problem}


def dead_letters(connection: Connection, repository_ids: Ids) -> tuple[WorkRow, ...]:
    """List rows of repositories that were given up, the latest first."""
    order = [_WORK.finished_at_ms.desc()]
    return _rows(connection, [WorkState.DEAD], repository_ids, order)


def unfinished(connection: Connection, repository_ids: Ids) -> tuple[WorkRow, ...]:
    """List running rows of repositories, then waiting rows, by the time at which they are due."""
    order = [_WORK.state, _WORK.due_at_ms, _WORK.run_id, _WORK.run_attempt]
    return _rows(connection, [WorkState.RUNNING, WorkState.WAITING], repository_ids, order)


def backlog(connection: Connection) -> tuple[dict[WorkState, int], float]:
    """Count the rows in each state but done, and the seconds that a due row has waited at most."""
    # States by name instead of "not done": the index then skips the many rows that are done.
    states = (WorkState.WAITING, WorkState.RUNNING, WorkState.DEAD)
    counts = sa.select(_WORK.state, sa.func.count()).where(_WORK.state.in_(states))
    counts = counts.group_by(_WORK.state)
    rows = {WorkState(state): count for state, count in connection.execute(counts)}
    age_ms = now_ms() - sa.func.min(_WORK.due_at_ms)
    oldest = sa.select(age_ms).where(_WORK.state == WorkState.WAITING)
    oldest_ms = connection.execute(oldest).scalar_one() or 0
    return {state: rows.get(state, 0) for state in states}, max(0, oldest_ms) / 1000


def prune(connection: Connection, days: float) -> int:
    """Delete rows that were done longer ago, whose runs have verdicts; return their number."""
    is_old = is_older(_WORK.finished_at_ms, days)
    old = sa.delete(schema.work).where(_WORK.state == WorkState.DONE, is_old)
    return connection.execute(old).rowcount


def _rows(
    connection: Connection, states: list[WorkState], repository_ids: Ids, order: list[Any]
) -> tuple[WorkRow, ...]:
    repository = schema.repository.c
    columns = [column for column in _WORK if column.name != "lane"]
    query = sa.select(repository.full_name.label("repository"), *columns).where(
        repository.id == _WORK.repository_id,
        _WORK.repository_id.in_(repository_ids),
        _WORK.state.in_(states),
    )
    rows = [row._asdict() for row in connection.execute(query.order_by(*order).limit(LIMIT))]
    return tuple(
        WorkRow(take_key(row), **{**row, "state": WorkState(row["state"])}) for row in rows
    )
