"""The tables of blocks that legs claim during a run."""

from typing import Final

from alembic import op

from ciguard.serve.state.schema import METADATA

revision = "0002"
down_revision = "0001"
TABLES: Final = ("claim_plan", "claim_leg", "claim_block")


def upgrade() -> None:
    """Create the tables. A change of their columns must copy the old columns here first."""
    METADATA.create_all(op.get_bind(), [METADATA.tables[name] for name in TABLES])
