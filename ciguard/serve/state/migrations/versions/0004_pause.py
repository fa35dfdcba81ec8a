"""The table of repositories that GitHub refuses."""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0004"
down_revision = "0003"
upgrade = sql_upgrade(__file__)
