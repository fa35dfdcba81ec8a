"""The work list as people look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ciguard.serve.state import schema

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.engine import Connection, Row

MOST_IDS: Final = 30_000  # parameters of a statement: SQLite has 32,766, PostgreSQL 65,535
_WORK: Final = schema.work.c


def count_by_state(connection: Connection, repository_ids: Collection[int]) -> dict[str, int]:
    """Rows of these repositories in each state that has any."""
    query = (
        sa.select(_WORK.state, sa.func.count())
        .where(_WORK.repository_id.in_(list(repository_ids)[:MOST_IDS]))
        .group_by(_WORK.state)
    )
    return {state: number for state, number in connection.execute(query)}  # noqa: C416


def work_rows(
    connection: Connection, repository_ids: Collection[int], state: str, *, limit: int, offset: int
) -> Sequence[Row[Any]]:
    """A page of these repositories' rows in a state, those added last first."""
    query = (
        sa.select(schema.work)
        .where(_WORK.repository_id.in_(list(repository_ids)[:MOST_IDS]), _WORK.state == state)
        .order_by(_WORK.added_at_ms.desc(), _WORK.run_id.desc(), _WORK.run_attempt.desc())
        .limit(limit)
        .offset(offset)
    )
    return connection.execute(query).all()
