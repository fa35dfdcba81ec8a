"""Messages to owners."""

from ciguard.serve.state.migrations import execute_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table."""
    execute_sql(__file__)
