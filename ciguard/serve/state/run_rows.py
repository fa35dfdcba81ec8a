"""Rows of judged run attempts, each with a cell for every suite and variant.

The newer of two runs has the higher run id, then the higher attempt: GitHub counts both upwards,
and two runs of one commit can start and end in either order.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from ciguard.render.pages import RunKey, RunRow, RunSuiteRow
from ciguard.serve.state import schema
from ciguard.serve.state.database import engine_insert, now_ms
from ciguard.serve.state.run_key import RUN_COLUMNS, is_run, is_same_run, key_columns, take_key

PAGE: Final = 50
OWNING: Final = 200  # runs by which the owners of tests are known
STATE_MS: Final = 90 * 24 * 3_600_000  # after which a workflow without runs counts as removed
_RUN: Final = schema.run.c
_SUITE: Final = schema.run_suite.c
_OWNERS: Final = sa.cast(_RUN.facts["owners"], sa.Text)
_PLACE: Final = (_RUN.completed_at_ms, _RUN.run_id, _RUN.run_attempt)
_BEFORE: Final = ("before_ms", "before_run", "before_attempt")
# Conditions by the name of their parameter. The owners are JSON, of which an owner is a part.
_CONDITIONS: Final[Mapping[str, sa.ColumnElement[bool]]] = {
    "before": sa.tuple_(*_PLACE)
    < sa.tuple_(*(sa.bindparam(name, type_=sa.BigInteger) for name in _BEFORE)),
    "branch": _RUN.branch == sa.bindparam("branch"),
    "pull_request": _RUN.pull_request == sa.bindparam("pull_request"),
    "is_base_branch": _RUN.is_base_branch == sa.bindparam("is_base_branch"),
    "run": _RUN.run_id == sa.bindparam("run"),
    "workflow": _RUN.workflow == sa.bindparam("workflow"),
    "verdict": _RUN.verdict == sa.bindparam("verdict"),
    "since_ms": _RUN.completed_at_ms >= sa.bindparam("since_ms"),
    "until_ms": _RUN.completed_at_ms < sa.bindparam("until_ms"),
    "owner": sa.func.replace(_OWNERS, sa.bindparam("owner"), "") != _OWNERS,
}


class CommitRun(NamedTuple):
    """The commit of a run; `planned`, the number of its tests, is near that of its results."""

    run_id: int
    run_attempt: int
    branch: str
    head_sha: str
    started_at_ms: int
    planned: int
    is_base_branch: bool


def record_run(connection: Connection, run: RunRow) -> None:
    """Write a run with its cells; replace an earlier row of this attempt."""
    values = {**asdict(run.key), **asdict(run), "judged_at_ms": now_ms()}
    del values["key"], values["cells"]
    statement = engine_insert(connection, schema.run).values(values)
    changed = {name: statement.excluded[name] for name in values if name not in RUN_COLUMNS}
    connection.execute(statement.on_conflict_do_update(index_elements=RUN_COLUMNS, set_=changed))
    connection.execute(sa.delete(schema.run_suite).where(is_run(schema.run_suite, run.key)))
    if run.cells:
        rows = [{**asdict(run.key), **asdict(cell)} for cell in run.cells]
        connection.execute(sa.insert(schema.run_suite), rows)
    if run.is_base_branch and run.verdict != "foreign":
        _set_base_run(connection, run.key.repository_id, run.completed_at_ms - STATE_MS)


def _set_base_run(connection: Connection, repository_id: int, since_ms: int) -> None:
    """Record the state of the default branch: red if the newest run of any workflow is red."""
    newest_of: dict[str, RunRow] = {}
    known = newest_by_workflow(connection, repository_id, since_ms)
    for run in sorted(known, key=lambda run: run.key, reverse=True):
        newest_of.setdefault(run.workflow, run)
    shown = min(newest_of.values(), key=lambda run: not run.is_red)
    state, (_, run_id, attempt) = "red" if shown.is_red else "green", shown.key.numbers()
    update = sa.update(schema.repository).where(schema.repository.c.id == repository_id)
    values = {"base_state": state, "base_run_id": run_id, "base_run_attempt": attempt}
    connection.execute(update.values(values))


def base_runs(connection: Connection, repository_ids: Collection[int]) -> dict[int, RunRow]:
    """Return by repository the run that shows the state of its default branch."""
    of = schema.repository.c
    shown = sa.select(of.id, of.base_run_id, of.base_run_attempt).where(of.id.in_(repository_ids))
    query = sa.select(schema.run).where(sa.tuple_(*key_columns(schema.run)).in_(shown))
    return {run.key.repository_id: run for run in map(_run_row, connection.execute(query))}


def get(connection: Connection, key: RunKey) -> RunRow | None:
    """Return one run attempt, without its cells."""
    row = connection.execute(sa.select(schema.run).where(is_run(schema.run, key)))
    return next(map(_run_row, row), None)


def newest(
    connection: Connection,
    repository_id: int,
    *,
    before: RunRow | None = None,
    limit: int = PAGE,
    **filters: str | int,
) -> tuple[RunRow, ...]:
    """Return a page of a repository's runs that ciguard plans, the last completed first.

    Args:
        before: last run of the previous page; None for the first page.
        filters: values by the names of `_CONDITIONS`: `branch`, `run`, `owner`, ...
    """
    names = (*filters, *(() if before is None else ("before",)))
    values = {**filters, "of": repository_id, "most": limit}
    if "owner" in filters:
        values["owner"] = json.dumps(filters["owner"])
    if before is not None:
        position = (before.completed_at_ms, before.key.run_id, before.key.run_attempt)
        values |= zip(_BEFORE, position, strict=True)
    return tuple(map(_run_row, connection.execute(_newest_query(names), values)))


@functools.cache
def _newest_query(names: tuple[str, ...]) -> sa.Select[Any]:
    """Build and cache the query: a page of repositories runs it twice for each of them."""
    query = sa.select(schema.run).where(
        _RUN.repository_id == sa.bindparam("of"),
        schema.IS_PLANNED,
        *(_CONDITIONS[name] for name in names),
    )
    return query.order_by(*(column.desc() for column in _PLACE)).limit(sa.bindparam("most"))


def ids_of(connection: Connection, repository_id: int, **filters: str | int) -> list[int]:
    """Return the ids of a repository's last 20,000 runs that pass filters, as of `newest`."""
    query = _newest_query(tuple(filters)).with_only_columns(_RUN.run_id)
    return list(connection.scalars(query, {**filters, "of": repository_id, "most": 20_000}))


def newest_by_workflow(
    connection: Connection, repository_id: int, since_ms: int, limit: int = PAGE
) -> tuple[RunRow, ...]:
    """Return the last completed runs of each workflow of the default branch since a time."""
    of_base: dict[str, Any] = {"is_base_branch": True, "since_ms": since_ms}
    query = _newest_query(tuple(of_base)).with_only_columns(_RUN.workflow).order_by(None)
    names = connection.scalars(query.distinct().limit(None), {**of_base, "of": repository_id})
    of_base["limit"] = limit
    pages = (newest(connection, repository_id, workflow=name, **of_base) for name in sorted(names))
    return tuple(run for page in pages for run in page)


def facts_of_tests(connection: Connection, repository_id: int, fact: str) -> dict[str, Any]:
    """Return "owners_of" or "quarantined" of the default branch's tests, by `text.whole_name`."""
    values: dict[str, Any] = {}
    for run in newest(connection, repository_id, is_base_branch=True, limit=OWNING):
        values = {**(run.facts or {}).get(fact, {}), **values}
    return values


def commit_runs(
    connection: Connection, repository_id: int, from_ms: int
) -> list[tuple[str | None, str | None, CommitRun]]:
    """Return the runs since a time; those of the default branch for each suite with results."""
    is_cell = sa.and_(is_same_run(schema.run, schema.run_suite), _RUN.is_base_branch)
    cells = sa.outerjoin(schema.run, schema.run_suite, is_cell & (_SUITE.planned > _SUITE.missing))
    columns = (_RUN[name] for name in CommitRun._fields)
    since = (_RUN.repository_id == repository_id, schema.IS_PLANNED, _RUN.started_at_ms >= from_ms)
    query = sa.select(_SUITE.suite, _SUITE.variant, *columns).select_from(cells).where(*since)
    return [(row[0], row[1], CommitRun(*row[2:])) for row in connection.execute(query)]


def with_cells(connection: Connection, runs: Collection[RunRow]) -> tuple[RunRow, ...]:
    """Return these runs with their cells, sorted by suite and variant."""
    keys = key_columns(schema.run_suite)
    query = (
        sa.select(*keys, *(_SUITE[field.name] for field in fields(RunSuiteRow)))
        .where(sa.tuple_(*keys).in_([run.key.numbers() for run in runs]))
        .order_by(_SUITE.suite, _SUITE.variant)
    )
    cells: dict[tuple[int, ...], list[RunSuiteRow]] = defaultdict(list)
    for repository_id, run_id, attempt, *values in connection.execute(query):
        cells[repository_id, run_id, attempt].append(RunSuiteRow(*values))
    return tuple(replace(run, cells=tuple(cells[run.key.numbers()])) for run in runs)


def answers(connection: Connection, *, before_ms: int | None = None) -> list[tuple[RunKey, str]]:
    """List runs with the names of their answers: all runs, or those that started before a time."""
    columns = [*key_columns(schema.run), _RUN.answer]
    query = sa.select(*columns).where(_RUN.answer != "").order_by(*columns)
    if before_ms is not None:
        query = query.where(_RUN.started_at_ms < before_ms)
    return [(RunKey(*row[:3]), row[3]) for row in connection.execute(query)]


def clear_answers(connection: Connection, deleted: Collection[tuple[RunKey, str]]) -> None:
    """Remove the names of deleted answers from their runs, unless a run has another by now."""
    keys, names = zip(*deleted, strict=True)
    numbers = [key.numbers() for key in keys]
    is_deleted = sa.tuple_(*key_columns(schema.run)).in_(numbers)
    update = sa.update(schema.run).where(is_deleted, _RUN.answer.in_(names))
    connection.execute(update.values(answer=""))


def _run_row(row: Row[Any]) -> RunRow:
    values = row._asdict()
    return RunRow(take_key(values), **values)
