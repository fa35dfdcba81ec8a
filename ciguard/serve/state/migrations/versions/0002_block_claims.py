"""The tables of blocks that legs claim during a run."""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0002"
down_revision = "0001"
upgrade = sql_upgrade(__file__)
