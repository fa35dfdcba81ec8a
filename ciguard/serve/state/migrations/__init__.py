"""Migrations of the tables, each with the SQL of its time; `schema.py` has the tables of today."""

from collections.abc import Callable
from pathlib import Path

from alembic import op


def sql_upgrade(revision: str) -> Callable[[], None]:
    """Return the upgrade by the SQL file beside a revision's file; both engines understand it."""

    def upgrade() -> None:
        for statement in Path(revision).with_suffix(".sql").read_text("ascii").split(";\n"):
            if statement.strip():
                op.execute(statement)

    return upgrade
