"""Migrations of the tables, each with the SQL of its time; `schema.py` has the tables of today."""

from pathlib import Path

from alembic import op


def execute_sql(revision: str) -> None:
    """Execute the SQL file beside the file of a revision; both engines understand it."""
    for statement in Path(revision).with_suffix(".sql").read_text("ascii").split(";\n"):
        if statement.strip():
            op.execute(statement)
