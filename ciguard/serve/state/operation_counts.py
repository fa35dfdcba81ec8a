"""Numbers about the whole service for whoever operates it, of tables that all processes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.run_rows import VERDICTS
from ciguard.serve.state.work_list import WorkState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Connection

RECENT_S: Final = 3600.0
_WORK: Final = schema.work.c
_FILE: Final = schema.file.c
_RUN: Final = schema.run.c
_PLAN: Final = schema.claim_plan.c
_BLOCK: Final = schema.claim_block.c


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Result files of one kind."""

    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """Run attempts that became due within RECENT_S and have their verdict.

    Attributes:
        verdicts: how many have each.
        delay_s: from the webhook to the verdict, the mean; None where no webhook told of one.
        longest_delay_s: the same, of the slowest.
    """

    verdicts: Mapping[str, int]
    delay_s: float | None
    longest_delay_s: float | None


def repositories_by_state(connection: Connection) -> dict[str, int]:
    """How many repositories are active, or removed."""
    state = schema.repository.c.state
    rows = connection.execute(sa.select(state, sa.func.count()).group_by(state))
    return {name: count for name, count in rows}  # noqa: C416 - rows are no pairs to mypy


def stored_files(connection: Connection) -> dict[str, StoredFiles]:
    """What the manifest lists, by kind."""
    query = sa.select(
        _FILE.kind, sa.func.count(), sa.func.sum(_FILE.rows), sa.func.sum(_FILE.bytes)
    ).group_by(_FILE.kind)
    return {
        kind: StoredFiles(count, int(rows), int(size))
        for kind, count, rows, size in connection.execute(query)
    }


def recent_runs(connection: Connection) -> RecentRuns:
    """What was judged of late: an index leads to these rows, however many there are of old."""
    is_recent = sa.and_(
        _WORK.state == WorkState.DONE,
        _WORK.due_at_ms >= sa.select(statements.after_ms(-RECENT_S)).scalar_subquery(),
    )
    is_same = sa.and_(*(_WORK[name] == _RUN[name] for name in statements.KEY))
    counts = (
        sa.select(_RUN.verdict, sa.func.count())
        .select_from(schema.work.join(schema.run, is_same))
        .where(is_recent)
        .group_by(_RUN.verdict)
    )
    found = dict(map(tuple, connection.execute(counts)))
    delay_ms = _WORK.finished_at_ms - _WORK.added_at_ms
    delays = sa.select(sa.func.avg(delay_ms), sa.func.max(delay_ms)).where(
        is_recent, _WORK.source == "webhook"
    )
    mean, longest = connection.execute(delays).one()
    return RecentRuns(
        {verdict: found.get(verdict, 0) for verdict in VERDICTS},
        None if mean is None else float(mean) / 1000,
        None if longest is None else longest / 1000,
    )


def recent_blocks(connection: Connection) -> dict[str, int]:
    """How many blocks of plans that were registered within RECENT_S are whose."""
    since = sa.select(statements.after_ms(-RECENT_S)).scalar_subquery()
    is_same = sa.and_(*(_PLAN[name] == _BLOCK[name] for name in (*statements.KEY, "plan")))
    whose = sa.case(
        (_BLOCK.holder == "", "none"), (_BLOCK.holder == _BLOCK.leg, "own"), else_="other"
    ).label("whose")
    query = (
        sa.select(whose, sa.func.count())
        .select_from(schema.claim_plan.join(schema.claim_block, is_same))
        .where(_PLAN.registered_at_ms >= since)
        .group_by("whose")
    )
    found = dict(map(tuple, connection.execute(query)))
    return {whose: found.get(whose, 0) for whose in ("none", "own", "other")}
