"""The index over runs that ciguard planned.

Databases made by some versions before this revision have the index already.
"""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0003"
down_revision = "0002"
upgrade = sql_upgrade(__file__)
