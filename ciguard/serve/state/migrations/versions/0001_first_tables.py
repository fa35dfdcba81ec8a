"""The tables of the first release."""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0001"
down_revision = None
upgrade = sql_upgrade(__file__)
