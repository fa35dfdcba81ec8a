"""The key of a run attempt by GitHub's numbers, and the columns that hold the key in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

RUN_COLUMNS: Final = ("repository_id", "run_id", "run_attempt")  # as the fields of RunKey


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """A run attempt; attempts of one repository are ordered from old to new."""

    repository_id: int
    run_id: int
    run_attempt: int

    def __str__(self) -> str:
        return f"run {self.run_id}/{self.run_attempt} of repository {self.repository_id}"

    def numbers(self) -> tuple[int, int, int]:
        """Return the values of RUN_COLUMNS."""
        return self.repository_id, self.run_id, self.run_attempt


class RunNumbers:
    """Base of rows of a run attempt: gives their JSON and templates the numbers of the key."""

    __slots__ = ()
    key: RunKey

    @property
    def run_id(self) -> int:
        """Return GitHub's number of the run."""
        return self.key.run_id

    @property
    def run_attempt(self) -> int:
        """Return the number of the attempt, from 1."""
        return self.key.run_attempt


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
