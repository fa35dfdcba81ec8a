"""Pauses: repositories that GitHub refuses for its credentials, permissions or rate.

Their work waits, and loses no tries. When a pause is over, the next request is the probe: its
success ends the pause, and a refusal prolongs it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state.database import engine_insert, now_ms, read_clock_ms
from ciguard.serve.state.schema import pause as table
from ciguard.serve.state.schema import repository as repository_table

_LOG: Final = logging.getLogger(__name__)
FIRST_S: Final = 60.0  # of a refusal that names no time; then as long as the pause has lasted
LONGEST_S: Final = 3600.0
_PAUSE: Final = table.c
_REPOSITORY: Final = repository_table.c


class Refusal(NamedTuple):
    """A refusal of one repository, or of all that its installation has, for `wait_s` if known.

    `problem` names no path, because those who see it may not see every repository.
    """

    problem: str
    wait_s: float | None = None
    is_of_repository: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A problem, the number of repositories that have it, the name of one, and its times."""

    problem: str
    repositories: int
    repository: str
    since_ms: int
    until_ms: int


def start(connection: Connection, repository_id: int, refusal: Refusal) -> None:
    """Pause the repository, or all of its installation (without an App: all of the token)."""
    began_ms = sa.select(_PAUSE.since_ms).where(_PAUSE.repository_id == repository_id)
    clock_ms = read_clock_ms(connection)
    since_ms = connection.execute(began_ms).scalar() or clock_ms
    wait_s = refusal.wait_s
    if wait_s is None:
        wait_s = min(LONGEST_S, max(FIRST_S, (clock_ms - since_ms) / 1000))
    is_here = _REPOSITORY.id == repository_id
    installation = sa.select(_REPOSITORY.installation_id).where(is_here).scalar_subquery()
    is_same = _REPOSITORY.installation_id.is_not_distinct_from(installation)
    until_ms = clock_ms + round(wait_s * 1000)
    times = (sa.literal(time_ms, sa.BigInteger) for time_ms in (since_ms, until_ms))
    paused = sa.select(_REPOSITORY.id, sa.literal(refusal.problem), *times)
    paused = paused.where(is_here if refusal.is_of_repository else is_same)
    paused = paused.order_by(_REPOSITORY.id)  # two transactions lock the rows in one order
    statement = engine_insert(connection, table).from_select(list(_PAUSE.keys()), paused)
    changed = {name: statement.excluded[name] for name in ("problem", "until_ms")}
    statement = statement.on_conflict_do_update(index_elements=[_PAUSE.repository_id], set_=changed)
    connection.execute(statement)
    scope = "repository" if refusal.is_of_repository else "installation of repository"
    _LOG.warning("%s %d: paused for %.0f s: %s", scope, repository_id, wait_s, refusal.problem)


def end(connection: Connection, repository_ids: sa.Select[tuple[int]] | list[int]) -> None:
    """End the pauses of repositories."""
    connection.execute(sa.delete(table).where(_PAUSE.repository_id.in_(repository_ids)))


def paused_repositories() -> sa.Select[tuple[int]]:
    """Return the query for the repositories whose pause is not over."""
    now = sa.select(now_ms()).scalar_subquery()
    return sa.select(_PAUSE.repository_id).where(_PAUSE.until_ms > now)


def current(connection: Connection, repositories: sa.ColumnElement[bool]) -> tuple[Pause, ...]:
    """List the problems of repositories, by a condition of their rows, the oldest first."""
    since_ms, name = sa.func.min(_PAUSE.since_ms), sa.func.min(_REPOSITORY.full_name)
    columns = (_PAUSE.problem, sa.func.count(), name, since_ms, sa.func.min(_PAUSE.until_ms))
    joined = sa.select(*columns).join(table, _PAUSE.repository_id == _REPOSITORY.id)
    query = joined.where(repositories).group_by(_PAUSE.problem).order_by(since_ms)
    return tuple(Pause(*row) for row in connection.execute(query))
