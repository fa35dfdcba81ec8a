"""The state of each repository's base branch, and facts of each run.

The newest run of the base branch gives its state.
"""

from ciguard.serve.state.migrations import sql_upgrade

revision = "0005"
down_revision = "0004"
upgrade = sql_upgrade(__file__)
