"""The tables of the first release."""

from ciguard.serve.state.migrations import execute_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    execute_sql(__file__)
