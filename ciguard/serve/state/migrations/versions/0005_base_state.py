"""The state of each repository's base branch, and facts of each run."""

from ciguard.serve.state.migrations import execute_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; the newest run of the base branch gives its state."""
    execute_sql(__file__)
