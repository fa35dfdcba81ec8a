"""Messages to owners: the base branch of a workflow became red with their tests, or recovered.

A row is added in the transaction that records the run, once for each run attempt and owner. It is
marked before its message leaves, and a marked row is not sent again: after a kill in between, the
message may be missing, but never comes twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.render.pages import RunRow
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import engine_insert, now_ms, read_clock_ms
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey, is_run, take_key

Event = Literal["red", "recovered"]
LATEST_S: Final = 86_400  # a message that could not be sent for a day is given up
_NAMES: Final = ("owner", "event", "workflow", "route", "content")
OTHERS: Final = "*"  # stands for all owners without a route, and for tests without an owner
_NOTICE: Final = schema.notice.c


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to an owner, by a route; `content` is JSON."""

    key: RunKey
    owner: str
    event: Event
    workflow: str
    route: str
    content: Mapping[str, Any] = field(hash=False)


def affected_owners(failing: Mapping[str, Collection[str]], run: RunRow) -> dict[str, list[str]]:
    """Return the failed tests of each owner; a red run without failed tests affects OTHERS.

    Args:
        failing: owners of each failed test, by its name.
    """
    affected: dict[str, list[str]] = {}
    for test, owners in failing.items():
        for owner in owners or (OTHERS,):
            affected.setdefault(owner, []).append(test)
    if not affected and run.is_red:
        affected[OTHERS] = []
    return affected


def record(
    connection: Connection,
    run: RunRow,
    affected: Mapping[str, list[str]],
    routes: Mapping[str, str],
    content: Mapping[str, Any],
) -> None:
    """Add the messages of a run of the base branch, unless a newer one of its workflow is known.

    Only a complete run shows that a failure has ended.

    Args:
        affected: tests of each owner, as of `affected_owners`.
        routes: name of the route of each owner that has one; of OTHERS for all others.
    """
    key = run.key
    known = run_rows.newest(
        connection, key.repository_id, is_base_branch=True, workflow=run.workflow
    )
    if any(other.key > key for other in known):
        return
    query = sa.select(_NOTICE.owner, _NOTICE.event).where(
        _NOTICE.repository_id == key.repository_id,
        _NOTICE.workflow == run.workflow,
        ~is_run(schema.notice, key),
    )
    past = dict(map(tuple, connection.execute(query.order_by(_NOTICE.run_id, _NOTICE.run_attempt))))
    tests: dict[str, list[str]] = {}
    for owner, named in affected.items():
        tests.setdefault(owner if owner in routes else OTHERS, []).extend(named)
    red = {owner for owner, event in past.items() if event == "red"}
    events: dict[str, Event] = dict.fromkeys(tests.keys() - red, "red")
    if run.is_complete:
        events |= dict.fromkeys(red - tests.keys(), "recovered")
    for owner, event in events.items():
        if owner in routes:
            values = {**content, "owner": owner, "event": event, "tests": tests.get(owner, [])}
            notice = Notice(key, owner, event, run.workflow, routes[owner], values)
            row = {**asdict(key), **asdict(notice), "created_at_ms": now_ms()}
            del row["key"]
            insert = engine_insert(connection, schema.notice).values(row)
            connection.execute(insert.on_conflict_do_nothing())


def unsent(connection: Connection, limit: int) -> tuple[Notice, ...]:
    """Return messages of the last LATEST_S that have not left, the oldest runs first."""
    columns = [_NOTICE[name] for name in (*RUN_COLUMNS, *_NAMES)]
    is_new = _NOTICE.created_at_ms > read_clock_ms(connection) - LATEST_S * 1000
    waiting = sa.select(*columns).where(_NOTICE.sent_at_ms.is_(None), is_new)
    rows = connection.execute(waiting.order_by(_NOTICE.run_id, _NOTICE.run_attempt).limit(limit))
    values = (row._asdict() for row in rows)
    return tuple(Notice(take_key(row), **row) for row in values)


def mark(connection: Connection, notice: Notice, *, is_sent: bool = True) -> bool:
    """Mark a message before it leaves, or unmark one that has not; False if another has done so."""
    before = _NOTICE.sent_at_ms.is_(None) if is_sent else _NOTICE.sent_at_ms.is_not(None)
    update = sa.update(schema.notice).where(
        is_run(schema.notice, notice.key), _NOTICE.owner == notice.owner, before
    )
    done = connection.execute(update.values(sent_at_ms=now_ms() if is_sent else None))
    return done.rowcount == 1
