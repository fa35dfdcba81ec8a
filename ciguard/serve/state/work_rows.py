"""The work list as people see it, and the rows of it that are forgotten."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms
from ciguard.serve.state.work_list import WorkState

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Row

    from ciguard.serve.state.run_key import RunKey

LIMIT: Final = 200
Ids = Collection[int] | sa.Select[tuple[int]]
_WORK: Final = schema.work.c


@dataclass(frozen=True, slots=True)
class WorkRow:
    """A row of the work list; `problem` is of its last try, "" for none."""

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

    @property
    def run_id(self) -> int:
        """Return GitHub's number of the run."""
        return self.key.run_id

    @property
    def run_attempt(self) -> int:
        """Return the number of the attempt, from 1."""
        return self.key.run_attempt


@dataclass(frozen=True, slots=True)
class Backlog:
    """Numbers of rows in each state but done, and the time that the first due row has waited."""

    rows: dict[WorkState, int]
    oldest_s: float


def dead_letters(
    connection: Connection, repository_ids: Ids | None = None, limit: int = LIMIT
) -> tuple[WorkRow, ...]:
    """List rows that are tried no more, the last to die first; `work_list.retry` revives one.

    Args:
        repository_ids: of these only, or of those that a query finds; None for all.
    """
    query = _rows([WorkState.DEAD], repository_ids).order_by(_WORK.finished_at_ms.desc())
    return tuple(map(_work_row, connection.execute(query.limit(limit))))


def unfinished(
    connection: Connection, repository_ids: Ids | None = None, limit: int = LIMIT
) -> tuple[WorkRow, ...]:
    """List rows that run, then those that wait, by the time at which they are due.

    Args:
        repository_ids: of these only, or of those that a query finds; None for all.
    """
    query = _rows([WorkState.RUNNING, WorkState.WAITING], repository_ids)
    query = query.order_by(_WORK.state, _WORK.due_at_ms, _WORK.run_id, _WORK.run_attempt)
    return tuple(map(_work_row, connection.execute(query.limit(limit))))


def backlog(connection: Connection) -> Backlog:
    """Count the rows, for the metrics."""
    # The others by name, not "not done": an index leads to them past the many that are.
    states = (WorkState.WAITING, WorkState.RUNNING, WorkState.DEAD)
    counts = sa.select(_WORK.state, sa.func.count()).where(_WORK.state.in_(states))
    counts = counts.group_by(_WORK.state)
    found = {WorkState(state): count for state, count in connection.execute(counts)}
    age_ms = now_ms() - sa.func.min(_WORK.due_at_ms)
    oldest = sa.select(age_ms).where(_WORK.state == WorkState.WAITING)
    oldest_ms = connection.execute(oldest).scalar_one() or 0
    return Backlog({state: found.get(state, 0) for state in states}, max(0, oldest_ms) / 1000)


def prune(connection: Connection, days: float) -> int:
    """Forget rows that were done longer ago, and say how many; their verdict says the same."""
    is_old = statements.is_older(_WORK.finished_at_ms, days)
    old = sa.delete(schema.work).where(_WORK.state == WorkState.DONE, is_old)
    return connection.execute(old).rowcount


def forget(connection: Connection, repository_id: int) -> int:
    """Forget the rows of a repository that was removed; a job that runs ends by itself."""
    return connection.execute(
        sa.delete(schema.work).where(_WORK.repository_id == repository_id)
    ).rowcount


def _rows(states: list[WorkState], repository_ids: Ids | None) -> sa.Select[Any]:
    repository = schema.repository.c
    columns = [column for column in _WORK if column.name != "lane"]
    query = sa.select(repository.full_name.label("repository"), *columns).where(
        repository.id == _WORK.repository_id, _WORK.state.in_(states)
    )
    return query if repository_ids is None else query.where(_WORK.repository_id.in_(repository_ids))


def _work_row(row: Row[Any]) -> WorkRow:
    values = row._asdict()
    return WorkRow(statements.take_key(values), **{**values, "state": WorkState(values["state"])})
