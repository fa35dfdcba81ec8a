"""The index over runs that ciguard planned."""

from ciguard.serve.state.migrations import execute_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the index, which databases made by some versions before this revision have already."""
    execute_sql(__file__)
