"""Messages to owners: the base branch of a workflow became red with their tests, or recovered.

A row is added in the transaction that records the run, once for each run attempt and owner. It is
"sending" before its message leaves, and waits again only if the message surely has not: after a
kill in between, the message may be missing, but never comes twice. The messages of a workflow to an
owner leave in the order of its runs. A recovery whose red message has not left is dropped with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.render.pages import RunRow
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import after_ms, engine_insert, now_ms, read_clock_ms
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey, is_run, key_columns, take_key

Event = Literal["red", "recovered"]
Message = tuple[RunKey, str]  # of an owner
State = Literal["waiting", "sending", "sent", "dropped", "given_up"]
LATEST_S: Final = 86_400  # a message that could not be sent for a day is given up
FIRST_S: Final = 30.0  # until the second try; then as long as the message has waited
LONGEST_S: Final = 3600.0
SENDING_S: Final = 600.0  # after which a message counts as sent: its worker was killed
MAX_TESTS: Final = 100  # that a message names
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
    age_s: int = 0


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
    runs = run_rows.newest(
        connection, key.repository_id, is_base_branch=True, workflow=run.workflow
    )
    if any(other.key > key for other in runs):
        return
    query = sa.select(*key_columns(schema.notice), _NOTICE.owner, _NOTICE.event).where(
        _NOTICE.repository_id == key.repository_id,
        _NOTICE.workflow == run.workflow,
        ~is_run(schema.notice, key),
    )
    rows = connection.execute(query.order_by(_NOTICE.run_id, _NOTICE.run_attempt))
    past = {row.owner: row for row in rows}
    tests: dict[str, list[str]] = {}
    for owner, named in affected.items():
        tests.setdefault(owner if owner in routes else OTHERS, []).extend(named)
    red = {owner for owner, row in past.items() if row.event == "red"}
    events: dict[str, Event] = dict.fromkeys(tests.keys() - red, "red")
    if run.is_complete:
        events |= dict.fromkeys(red - tests.keys(), "recovered")
    for owner, event in events.items():
        if owner in routes:
            names = list(dict.fromkeys(tests.get(owner, ())))
            values = {**content, "owner": owner, "event": event, "tests": names[:MAX_TESTS]}
            values["test_count"] = len(names)
            notice = Notice(key, owner, event, run.workflow, routes[owner], values)
            row = {**asdict(key), **asdict(notice), "state": "waiting"}
            row |= dict.fromkeys(("created_at_ms", "due_at_ms"), now_ms())
            del row["key"], row["age_s"]
            if event == "recovered":
                last = (RunKey(*past[owner][:3]), owner)
                if change(connection, last, ("waiting", "given_up"), "dropped"):
                    row["state"] = "dropped"
            insert = engine_insert(connection, schema.notice).values(row)
            connection.execute(insert.on_conflict_do_nothing())


def unsent(connection: Connection, limit: int) -> tuple[Notice, ...]:
    """Return the messages that are due, by that time; only the first to an owner on a workflow."""
    age_s = ((now_ms() - _NOTICE.created_at_ms) // 1000).label("age_s")
    columns = [_NOTICE[name] for name in (*RUN_COLUMNS, *_NAMES)]
    clock_ms, other = read_clock_ms(connection), schema.notice.alias().c
    is_earlier = sa.exists().where(
        *(other[name] == _NOTICE[name] for name in ("repository_id", "workflow", "owner")),
        sa.tuple_(other.run_id, other.run_attempt) < sa.tuple_(_NOTICE.run_id, _NOTICE.run_attempt),
        (other.state == "waiting") | ((other.state == "sending") & (other.due_at_ms > clock_ms)),
    )
    is_due = (_NOTICE.state == "waiting") & (_NOTICE.due_at_ms <= clock_ms)
    query = sa.select(*columns, age_s).where(is_due, ~is_earlier).order_by(_NOTICE.due_at_ms)
    values = (row._asdict() for row in connection.execute(query.limit(limit)))
    return tuple(Notice(take_key(row), **row) for row in values)


def change(
    connection: Connection, key: Message, before: Collection[State], after: State, wait_s: float = 0
) -> bool:
    """Change the state of a message; return False, with no change, if it is in another one."""
    is_message = is_run(schema.notice, key[0]) & (_NOTICE.owner == key[1])
    update = sa.update(schema.notice).where(is_message, _NOTICE.state.in_(before))
    done = connection.execute(update.values(state=after, due_at_ms=after_ms(wait_s)))
    return done.rowcount == 1
