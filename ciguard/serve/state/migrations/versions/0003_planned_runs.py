"""The index over runs that ciguard planned."""

from alembic import op

from ciguard.serve.state.schema import PLANNED_RUNS

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the index in databases whose tables are older."""
    PLANNED_RUNS.create(op.get_bind(), checkfirst=True)
