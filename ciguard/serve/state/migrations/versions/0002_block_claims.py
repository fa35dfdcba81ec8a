"""The tables of blocks that legs claim during a run."""

from ciguard.serve.state.migrations import execute_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    execute_sql(__file__)
