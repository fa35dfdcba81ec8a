"""The runs of a repository's default branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import schema
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_RUN: Final = schema.run.c


def newest_base_runs(connection: Connection, repository_id: int, limit: int) -> tuple[RunKey, ...]:
    """Those completed last; runs of workflows that are not planned by ciguard are left out."""
    query = (
        sa.select(_RUN.repository_id, _RUN.run_id, _RUN.run_attempt)
        .where(
            _RUN.repository_id == repository_id,
            _RUN.is_base_branch.is_(True),
            schema.IS_PLANNED,
        )
        .order_by(_RUN.completed_at_ms.desc(), _RUN.run_id.desc(), _RUN.run_attempt.desc())
        .limit(limit)
    )
    return tuple(RunKey(*row) for row in connection.execute(query))
