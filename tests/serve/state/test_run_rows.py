"""Judged runs, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.github.models import MAX_ATTEMPT, MAX_NUMBER
from ciguard.render.pages import RunRow, RunSuiteRow
from ciguard.serve.state import run_rows
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.run_rows import record_run

RUN = RunRow(
    key=RunKey(1, 10, 1),
    workflow=".github/workflows/tests.yml",
    event="pull_request",
    branch="feature",
    head_sha="a" * 40,
    pull_request=7,
    is_base_branch=False,
    started_at_ms=1_000,
    completed_at_ms=2_000,
    verdict="passed",
    comparison="better",
    headline="all 20 tests ran",
    exit_code=0,
    planned=20,
    missing=0,
    makespan_s=9.5,
    bound_s=None,
    price_usd=0.25,
    answer="answers/1/10/1.json",
)
UNIT = RunSuiteRow("unit", "py311", 20, 0, {"passed": 19, "failed": 1}, 9.5, 2**33, None)


def run(number: int, attempt: int = 1, **changes: Any) -> RunRow:
    values: dict[str, Any] = {"completed_at_ms": 1_000 * number, **changes}
    return replace(RUN, key=RunKey(1, number, attempt), **values)


def test_a_run_is_recorded_with_its_suites_however_often(connection: Connection) -> None:
    e2e = replace(UNIT, suite="e2e", wall_s=None)
    other = replace(RUN, key=RunKey(1, 11, 1))
    for judged in (RUN, RUN, other):
        record_run(connection, replace(judged, cells=(UNIT, e2e) if judged is RUN else ()))
    stored = run_rows.get(connection, RUN.key)
    assert stored == RUN
    assert stored.judged_at_ms > 1_700_000_000_000
    assert run_rows.with_cells(connection, [RUN, other]) == (replace(RUN, cells=(e2e, UNIT)), other)
    assert run_rows.get(connection, RunKey(1, 12, 1)) is None


def test_names_that_a_pull_request_makes_up_are_stored(connection: Connection) -> None:
    names = ("a\0b", "a?b", "a\ud800b", "a" * 256, "a" * 257, "a" * 258)
    cells = tuple(replace(UNIT, suite=name) for name in names)
    record_run(connection, replace(RUN, cells=cells))
    stored = {cell.suite for cell in run_rows.with_cells(connection, [RUN])[0].cells}
    assert {"a?b", "a" * 256} < stored
    assert len(stored) == len(names)
    assert run_rows.newest(connection, 1, branch="feature\0") == ()


def test_a_second_judgement_replaces_the_first(connection: Connection) -> None:
    record_run(connection, replace(RUN, cells=(UNIT,)))
    failed = replace(RUN, verdict="failed", comparison="", makespan_s=None)
    record_run(connection, failed)
    assert run_rows.get(connection, RUN.key) == failed
    assert run_rows.with_cells(connection, [failed]) == (failed,)
    assert run_rows.with_cells(connection, []) == ()


def test_runs_are_paged_from_the_last_completed(connection: Connection) -> None:
    # Two that were completed together are on one side of the page's end each.
    runs = [run(1), run(2, completed_at_ms=5_000), run(3, completed_at_ms=5_000), run(4)]
    for one in runs:
        record_run(connection, one)
    record_run(connection, replace(RUN, key=RunKey(2, 1, 1)))
    first = run_rows.newest(connection, 1, limit=1)
    assert first == (runs[2],)
    assert run_rows.newest(connection, 1, before=first[-1]) == (runs[1], runs[3], runs[0])
    assert run_rows.newest(connection, 1, before=runs[0]) == ()


def test_runs_are_filtered(connection: Connection) -> None:
    pull, push = run(1), run(2, branch="main", is_base_branch=True, pull_request=None)
    foreign = run(3, verdict="foreign")
    for one in (pull, push, foreign):
        record_run(connection, one)
    assert run_rows.newest(connection, 1) == (push, pull)
    assert run_rows.newest(connection, 1, branch="main") == (push,)
    assert run_rows.newest(connection, 1, is_base_branch=True) == (push,)
    assert run_rows.newest(connection, 1, pull_request=7) == (pull,)
    owned = replace(pull, facts={"owners": ["@o/team_a", 'an "\u00e9\\']})
    run_rows.record_run(connection, owned)
    for owner, found in (("@o/team_a", 1), ("@o/team", 0), ("@o/team%a", 0), ('an "\u00e9\\', 1)):
        assert len(run_rows.newest(connection, 1, owner=owner, verdict=pull.verdict)) == found
    assert run_rows.newest(connection, 1, since_ms=push.completed_at_ms + 1) == ()


def test_runs_of_other_workflows_are_not_read(connection: Connection) -> None:
    """A repository may have a hundred of them for each of ours: a page would read them all."""
    record_run(connection, run(1, is_base_branch=True))
    for number in range(2, 200):
        record_run(connection, run(number, verdict="foreign", is_base_branch=True))
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, sql: str, values: Any, *___: object) -> None:
        asked.append((sql, values))

    sa.event.listen(connection, "before_cursor_execute", note)
    assert [one.key.run_id for one in run_rows.newest(connection, 1, limit=1)] == [1]
    of_base = run_rows.newest(connection, 1, is_base_branch=True, limit=1)
    assert [one.key.run_id for one in of_base] == [1]
    sa.event.remove(connection, "before_cursor_execute", note)
    assert len(asked) == 2
    if connection.dialect.name == "sqlite":
        for sql, values in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
            assert "ix_run_planned" in plan[0][3]


def test_the_largest_numbers_of_an_address_can_be_asked_for(connection: Connection) -> None:
    assert run_rows.get(connection, RunKey(1, MAX_NUMBER, MAX_ATTEMPT)) is None
