"""The tables of the first release."""

from alembic import op

from ciguard.serve.state.schema import METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them. A later version of the tables freezes this list here first."""
    METADATA.create_all(op.get_bind())
