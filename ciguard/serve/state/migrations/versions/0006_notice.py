"""Messages to owners."""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0006"
down_revision = "0005"
upgrade = sql_upgrade(__file__)
