"""The tables of the first release."""

from typing import Final

from alembic import op

from ciguard.serve.state.schema import METADATA

revision = "0001"
down_revision = None
TABLES: Final = (
    *("repository", "delivery", "work", "lane", "run", "run_suite", "file", "file_run"),
    *("artifact", "history", "token", "session"),
)


def upgrade() -> None:
    """Create the tables. A change of their columns must copy the old columns here first."""
    METADATA.create_all(op.get_bind(), [METADATA.tables[name] for name in TABLES])
