"""The key of a run attempt by GitHub's numbers, and the columns that hold the key in tables."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from ciguard.render.pages import RunKey as RunKey  # noqa: PLC0414 - exported

RUN_COLUMNS: Final = ("repository_id", "run_id", "run_attempt")  # as the fields of RunKey


def key_columns(table: sa.Table) -> list[sa.Column[Any]]:
    return [table.c[name] for name in RUN_COLUMNS]


def is_run(table: sa.Table, key: RunKey) -> sa.ColumnElement[bool]:
    """Return the condition that a row is of this run attempt."""
    return sa.and_(*(table.c[name] == getattr(key, name) for name in RUN_COLUMNS))


def is_same_run(table: sa.Table, other: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that rows of two tables are of the same run attempt."""
    return sa.and_(*(table.c[name] == other.c[name] for name in RUN_COLUMNS))


def take_key(values: dict[str, Any]) -> RunKey:
    """Remove the columns of the key from the values of a row, and return the key."""
    return RunKey(*(values.pop(name) for name in RUN_COLUMNS))
