"""The tables of the service. Results of tests are not in tables, but in immutable files.

Times are integers, milliseconds since 1970 by the database's clock (`database.now_ms`): both
engines compare and add them alike, and several machines share the clock. A repository is identified
by GitHub's number, because its name can change hands; a run by repository, run id and attempt.
"""

from __future__ import annotations

import hashlib
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from ciguard.serve.state.run_key import RUN_COLUMNS

_DIGITS: Final = 16  # of the digest in the substitute of a text


class StoredText(sa.TypeDecorator[str]):
    """A VARCHAR of limited length, for values that are written and values of conditions."""

    impl = sa.String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else storable(value, self.length)


def storable(text: str, length: int) -> str:
    """Return a text that both engines can store: the text itself, or a unique substitute.

    PostgreSQL stores no NUL and no text longer than its column, neither engine lone surrogates.

    Args:
        length: characters, > 16.
    """
    plain = text.encode("utf-8", "replace").decode().replace("\0", "?")
    if plain == text and len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain[: length - _DIGITS - 1]}#{digest}"


# Names of constraints are the same in both engines, so that a migration can name them.
METADATA: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _run_key() -> tuple[sa.Column[int], sa.Column[int], sa.Column[int]]:
    return (
        sa.Column("repository_id", sa.BigInteger, nullable=False),
        sa.Column("run_id", sa.BigInteger, nullable=False),
        sa.Column("run_attempt", sa.Integer, nullable=False),
    )


# `state`: active, or removed (deleted, uninstalled, transferred): a removed repository is not
# shown, and a week later all its data is deleted. `base_state`: waiting (for the first run of the
# default branch), red or green, by the run of `base_run_id`.
repository: Final = sa.Table(
    "repository",
    METADATA,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("full_name", StoredText(256), nullable=False, index=True),
    sa.Column("is_private", sa.Boolean, nullable=False),
    sa.Column("default_branch", StoredText(256), nullable=False),
    sa.Column("installation_id", sa.BigInteger),
    sa.Column("state", StoredText(16), nullable=False),
    sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
    sa.Column("reconciled_at_ms", sa.BigInteger),
    sa.Column("base_state", StoredText(16), nullable=False, server_default="waiting"),
    sa.Column("base_run_id", sa.BigInteger),
    sa.Column("base_run_attempt", sa.Integer),
)

delivery: Final = sa.Table(
    "delivery",
    METADATA,
    sa.Column("id", StoredText(64), primary_key=True),
    sa.Column("event", StoredText(64), nullable=False),
    sa.Column("action", StoredText(64), nullable=False),
    sa.Column("repository_id", sa.BigInteger),
    sa.Column("received_at_ms", sa.BigInteger, nullable=False, index=True),
)

# The work list: completed run attempts without a verdict. `state`: waiting, running, done, dead.
# Runs of one `lane` are judged one at a time: a lane is a branch of a workflow.
work: Final = sa.Table(
    "work",
    METADATA,
    *_run_key(),
    sa.Column("lane", StoredText(512), nullable=False),
    sa.Column("state", StoredText(16), nullable=False),
    sa.Column("source", StoredText(16), nullable=False),  # `work_list.Source`
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("due_at_ms", sa.BigInteger, nullable=False),
    sa.Column("added_at_ms", sa.BigInteger, nullable=False),
    sa.Column("finished_at_ms", sa.BigInteger),
    sa.Column("problem", StoredText(4000), nullable=False),  # of the last try; "" for none
    sa.PrimaryKeyConstraint(*RUN_COLUMNS),
    sa.Index("ix_work_state_due_at_ms", "state", "due_at_ms"),
    sa.Index("ix_work_lane_state_run_id", "lane", "state", "run_id"),
)

# The repositories that GitHub refuses: their work waits until `until_ms`.
pause: Final = sa.Table(
    "pause",
    METADATA,
    sa.Column("repository_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("problem", StoredText(4000), nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
)

# Messages of `notices.py`.
notice: Final = sa.Table(
    "notice",
    METADATA,
    *_run_key(),
    sa.Column("owner", StoredText(256), nullable=False),
    sa.Column("event", StoredText(16), nullable=False),
    sa.Column("workflow", StoredText(256), nullable=False),
    sa.Column("route", StoredText(64), nullable=False),
    sa.Column("content", sa.JSON, nullable=False),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("state", StoredText(16), nullable=False),
    # In the past: when the state was reached.
    sa.Column("due_at_ms", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint(*RUN_COLUMNS, "owner"),
    sa.Index("ix_notice_state_due_at_ms", "state", "due_at_ms"),
)

# A lease is a row: a condition over rows of `work` would admit two workers at once.
lane: Final = sa.Table(
    "lane",
    METADATA,
    sa.Column("key", StoredText(512), primary_key=True),
    sa.Column("worker", StoredText(128), nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
)

# A row for each judged attempt. `verdict`: passed, failed, incomplete, not_evaluated, foreign (the
# run has no plan of ciguard). `answer` is the name of the object with verdict and comparison.
# `facts` are those of `work/run_summary.py`; NULL in rows of a ciguard before this column.
run: Final = sa.Table(
    "run",
    METADATA,
    *_run_key(),
    sa.Column("workflow", StoredText(256), nullable=False),
    sa.Column("event", StoredText(64), nullable=False),
    sa.Column("branch", StoredText(256), nullable=False),
    sa.Column("head_sha", StoredText(64), nullable=False),
    sa.Column("pull_request", sa.Integer),
    sa.Column("is_base_branch", sa.Boolean, nullable=False),
    sa.Column("started_at_ms", sa.BigInteger, nullable=False),
    sa.Column("completed_at_ms", sa.BigInteger, nullable=False),
    sa.Column("judged_at_ms", sa.BigInteger, nullable=False),
    sa.Column("verdict", StoredText(16), nullable=False),
    sa.Column("comparison", StoredText(32), nullable=False),  # worse, better, ...; "" for none
    sa.Column("headline", StoredText(4000), nullable=False),
    sa.Column("exit_code", sa.Integer, nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
    sa.Column("missing", sa.Integer, nullable=False),
    sa.Column("makespan_s", sa.Float),
    sa.Column("bound_s", sa.Float),
    sa.Column("price_usd", sa.Float),
    sa.Column("answer", StoredText(256), nullable=False),  # name of the object; "" for none
    sa.Column("facts", sa.JSON(none_as_null=True)),
    sa.PrimaryKeyConstraint(*RUN_COLUMNS),
    sa.Index("ix_run_repository_id_completed_at_ms", "repository_id", "completed_at_ms"),
)

# A repository may have a hundred runs of other workflows for each planned run. SQLite uses the
# index only if the condition of a query is written as in the index, without a parameter, and the
# index has the whole order.
IS_PLANNED: Final = run.c.verdict != sa.literal_column("'foreign'")
PLANNED_RUNS: Final = sa.Index(
    "ix_run_planned",
    run.c.repository_id,
    run.c.completed_at_ms,
    run.c.run_id,
    run.c.run_attempt,
    sqlite_where=IS_PLANNED,
    postgresql_where=IS_PLANNED,
)

# The cells of a run, one for each suite and variant, as the page of a repository shows them.
run_suite: Final = sa.Table(
    "run_suite",
    METADATA,
    *_run_key(),
    sa.Column("suite", StoredText(256), nullable=False),
    sa.Column("variant", StoredText(256), nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
    sa.Column("missing", sa.Integer, nullable=False),
    sa.Column("counts", sa.JSON, nullable=False),  # outcome -> cases
    sa.Column("wall_s", sa.Float),
    sa.Column("peak_bytes", sa.BigInteger),
    sa.Column("budget_bytes", sa.BigInteger),
    sa.PrimaryKeyConstraint(*RUN_COLUMNS, "suite", "variant"),
    sa.ForeignKeyConstraint(
        RUN_COLUMNS, [f"run.{name}" for name in RUN_COLUMNS], ondelete="CASCADE"
    ),
)

# The manifest: the list of result files. `kind`: arrival, or the files of a pair: by_run and
# by_test, which hold the same rows, messages, troubled and by_day. Unlisted files are deleted.
file: Final = sa.Table(
    "file",
    METADATA,
    sa.Column("name", StoredText(256), primary_key=True),
    sa.Column("kind", StoredText(16), nullable=False),
    sa.Column("pair", StoredText(64), nullable=False),  # of a pair; "" of another
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("sha256", StoredText(64), nullable=False),
    sa.Column("added_at_ms", sa.BigInteger, nullable=False),
    sa.Index("ix_file_kind_added_at_ms", "kind", "added_at_ms"),
)

# The runs whose rows an arrival or a pair holds (`results/manifest.py` defines the file of a pair):
# the pages name them if a file is damaged. `digest` identifies the rows of one verdict.
file_run: Final = sa.Table(
    "file_run",
    METADATA,
    sa.Column("file", StoredText(256), nullable=False),
    *_run_key(),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("digest", StoredText(32), nullable=False),
    sa.PrimaryKeyConstraint("file", *RUN_COLUMNS),
    sa.ForeignKeyConstraint(["file"], ["file.name"], ondelete="CASCADE"),
    sa.Index("ix_file_run_repository_id_run_id", "repository_id", "run_id"),
)

# Raw artifacts as GitHub gave them, stored for 30 days to restore damaged result files.
artifact: Final = sa.Table(
    "artifact",
    METADATA,
    *_run_key(),
    sa.Column("name", StoredText(256), nullable=False),
    sa.Column("object", StoredText(256), nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("sha256", StoredText(64), nullable=False),
    sa.Column("stored_at_ms", sa.BigInteger, nullable=False, index=True),
    sa.PrimaryKeyConstraint(*RUN_COLUMNS, "name"),
)

# The current history of a repository: each version is an object, which the row names. A writer
# replaces the row only if `version` is still the one that it read.
history: Final = sa.Table(
    "history",
    METADATA,
    sa.Column("repository_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("object", StoredText(256), nullable=False),
    sa.Column("sha256", StoredText(64), nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
)

token: Final = sa.Table(
    "token",
    METADATA,
    sa.Column("id", StoredText(16), primary_key=True),
    sa.Column("repository_id", sa.BigInteger, nullable=False),
    sa.Column("sha256", StoredText(64), nullable=False, unique=True),
    sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    sa.Column("revoked_at_ms", sa.BigInteger),
)

# Secret values are stored as digests only.
session: Final = sa.Table(
    "session",
    METADATA,
    sa.Column("sha256", StoredText(64), primary_key=True),
    sa.Column("login", StoredText(64), nullable=False),
    sa.Column("visible", sa.JSON, nullable=False),  # ids of private repositories
    sa.Column("visible_at_ms", sa.BigInteger, nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False, index=True),
)

# A plan whose legs (jobs of the run) take blocks of one another during the run. Every claim of the
# plan locks its row, so that two legs never get one block. `token_sha256`: of the legs' token.
claim_plan: Final = sa.Table(
    "claim_plan",
    METADATA,
    *_run_key(),
    sa.Column("plan", StoredText(32), nullable=False),
    sa.Column("token_sha256", StoredText(64), nullable=False, unique=True),
    sa.Column("registered_at_ms", sa.BigInteger, nullable=False, index=True),
    sa.PrimaryKeyConstraint(*RUN_COLUMNS, "plan"),
)

_PLAN_KEY: Final = (*RUN_COLUMNS, "plan")

# The progress of each leg of a plan; `block_exchange.py` defines the numbers.
claim_leg: Final = sa.Table(
    "claim_leg",
    METADATA,
    *_run_key(),
    sa.Column("plan", StoredText(32), nullable=False),
    sa.Column("leg", StoredText(128), nullable=False),
    sa.Column("exchange", StoredText(256), nullable=False),  # the group; "group" is a word of SQL
    sa.Column("own_s", sa.Float, nullable=False),
    sa.Column("began_at_ms", sa.BigInteger),
    sa.Column("ready_at_ms", sa.BigInteger),
    sa.Column("ratio", sa.Float),
    sa.Column("is_alone", sa.Boolean, nullable=False),
    sa.PrimaryKeyConstraint(*_PLAN_KEY, "leg"),
    sa.ForeignKeyConstraint(
        _PLAN_KEY, [f"claim_plan.{name}" for name in _PLAN_KEY], ondelete="CASCADE"
    ),
)

# `leg`: the owner of the block by the plan; `holder`: the leg that has claimed it, "" for none.
claim_block: Final = sa.Table(
    "claim_block",
    METADATA,
    *_run_key(),
    sa.Column("plan", StoredText(32), nullable=False),
    sa.Column("block", StoredText(128), nullable=False),
    sa.Column("leg", StoredText(128), nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # position among the blocks of its leg
    sa.Column("wall_s", sa.Float, nullable=False),
    sa.Column("holder", StoredText(128), nullable=False),
    sa.Column("is_confirmed", sa.Boolean, nullable=False),
    sa.PrimaryKeyConstraint(*_PLAN_KEY, "block"),
    sa.ForeignKeyConstraint(
        _PLAN_KEY, [f"claim_plan.{name}" for name in _PLAN_KEY], ondelete="CASCADE"
    ),
)
