"""The table of repositories that GitHub refuses."""

from ciguard.serve.state.migrations import execute_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    execute_sql(__file__)
