"""The tables of the service. Results of tests are not in tables, but in immutable files.

Times are integers, milliseconds since 1970 by the database's clock (`database.now_ms`): both
engines compare and add them alike, and several machines share the clock. A repository is identified
by GitHub's number, because its name can change hands; a run by repository, run id and attempt.
"""

from __future__ import annotations

import hashlib
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    TypeDecorator,
    literal_column,
)
from sqlalchemy.engine import Dialect

from ciguard.serve.state.run_key import RUN_COLUMNS

_DIGITS: Final = 16  # of the digest in the substitute of a text


class StoredText(TypeDecorator[str]):
    """A VARCHAR of limited length, for values that are written and values of conditions."""

    impl = String
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
METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _run_key() -> tuple[Column[int], Column[int], Column[int]]:
    return (
        Column("repository_id", BigInteger, nullable=False),
        Column("run_id", BigInteger, nullable=False),
        Column("run_attempt", Integer, nullable=False),
    )


# `state`: active, or removed (deleted, uninstalled, transferred): a removed repository is not
# shown, and a week later all its data is deleted. `base_state`: waiting (for the first run of the
# default branch), red or green, by the run of `base_run_id`.
repository: Final = Table(
    "repository",
    METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("full_name", StoredText(256), nullable=False),
    Column("is_private", Boolean, nullable=False),
    Column("default_branch", StoredText(256), nullable=False),
    Column("installation_id", BigInteger),
    Column("state", StoredText(16), nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("reconciled_at_ms", BigInteger),
    Column("base_state", StoredText(16), nullable=False, server_default="waiting"),
    Column("base_run_id", BigInteger),
    Column("base_run_attempt", Integer),
    Index("ix_repository_full_name", "full_name"),
)

delivery: Final = Table(
    "delivery",
    METADATA,
    Column("id", StoredText(64), primary_key=True),
    Column("event", StoredText(64), nullable=False),
    Column("action", StoredText(64), nullable=False),
    Column("repository_id", BigInteger),
    Column("received_at_ms", BigInteger, nullable=False),
    Index("ix_delivery_received_at_ms", "received_at_ms"),
)

# The work list: completed run attempts without a verdict. `state`: waiting, running, done, dead.
# Runs of one `lane` are judged one at a time: a lane is a branch of a workflow.
work: Final = Table(
    "work",
    METADATA,
    *_run_key(),
    Column("lane", StoredText(512), nullable=False),
    Column("state", StoredText(16), nullable=False),
    Column("source", StoredText(16), nullable=False),  # `work_list.Source`
    Column("tries", Integer, nullable=False),
    Column("due_at_ms", BigInteger, nullable=False),
    Column("added_at_ms", BigInteger, nullable=False),
    Column("finished_at_ms", BigInteger),
    Column("problem", StoredText(4000), nullable=False),  # of the last try; "" for none
    PrimaryKeyConstraint(*RUN_COLUMNS),
    Index("ix_work_state_due_at_ms", "state", "due_at_ms"),
    Index("ix_work_lane_state_run_id", "lane", "state", "run_id"),
)

# The repositories that GitHub refuses: their work waits until `until_ms`.
pause: Final = Table(
    "pause",
    METADATA,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("problem", StoredText(4000), nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)

# Messages of `notices.py`.
notice: Final = Table(
    "notice",
    METADATA,
    *_run_key(),
    Column("owner", StoredText(256), nullable=False),
    Column("event", StoredText(16), nullable=False),
    Column("workflow", StoredText(256), nullable=False),
    Column("route", StoredText(64), nullable=False),
    Column("content", JSON, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("state", StoredText(16), nullable=False),
    Column("due_at_ms", BigInteger, nullable=False),  # in the past: when the state was reached
    PrimaryKeyConstraint(*RUN_COLUMNS, "owner"),
    Index("ix_notice_state_due_at_ms", "state", "due_at_ms"),
)

# A lease is a row: a condition over rows of `work` would admit two workers at once.
lane: Final = Table(
    "lane",
    METADATA,
    Column("key", StoredText(512), primary_key=True),
    Column("worker", StoredText(128), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)

# A row for each judged attempt. `verdict`: passed, failed, incomplete, not_evaluated, foreign (the
# run has no plan of ciguard). `answer` is the name of the object with verdict and comparison.
# `facts` are those of `work/run_summary.py`; NULL in rows of a ciguard before this column.
run: Final = Table(
    "run",
    METADATA,
    *_run_key(),
    Column("workflow", StoredText(256), nullable=False),
    Column("event", StoredText(64), nullable=False),
    Column("branch", StoredText(256), nullable=False),
    Column("head_sha", StoredText(64), nullable=False),
    Column("pull_request", Integer),
    Column("is_base_branch", Boolean, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("completed_at_ms", BigInteger, nullable=False),
    Column("judged_at_ms", BigInteger, nullable=False),
    Column("verdict", StoredText(16), nullable=False),
    Column("comparison", StoredText(32), nullable=False),  # worse, better, ...; "" for none
    Column("headline", StoredText(4000), nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("missing", Integer, nullable=False),
    Column("makespan_s", Float),
    Column("bound_s", Float),
    Column("price_usd", Float),
    Column("answer", StoredText(256), nullable=False),  # name of the object; "" for none
    Column("facts", JSON(none_as_null=True)),
    PrimaryKeyConstraint(*RUN_COLUMNS),
    Index("ix_run_repository_id_completed_at_ms", "repository_id", "completed_at_ms"),
)

# A repository may have a hundred runs of other workflows for each planned run. SQLite uses the
# index only if the condition of a query is written as in the index, without a parameter, and the
# index has the whole order.
IS_PLANNED: Final = run.c.verdict != literal_column("'foreign'")
PLANNED_RUNS: Final = Index(
    "ix_run_planned",
    run.c.repository_id,
    run.c.completed_at_ms,
    run.c.run_id,
    run.c.run_attempt,
    sqlite_where=IS_PLANNED,
    postgresql_where=IS_PLANNED,
)

# The cells of a run, one for each suite and variant, as the page of a repository shows them.
run_suite: Final = Table(
    "run_suite",
    METADATA,
    *_run_key(),
    Column("suite", StoredText(256), nullable=False),
    Column("variant", StoredText(256), nullable=False),
    Column("planned", Integer, nullable=False),
    Column("missing", Integer, nullable=False),
    Column("counts", JSON, nullable=False),  # outcome -> cases
    Column("wall_s", Float),
    Column("peak_bytes", BigInteger),
    Column("budget_bytes", BigInteger),
    PrimaryKeyConstraint(*RUN_COLUMNS, "suite", "variant"),
    ForeignKeyConstraint(RUN_COLUMNS, [f"run.{name}" for name in RUN_COLUMNS], ondelete="CASCADE"),
)

# The manifest: the list of result files. `kind`: arrival, or the files of a pair: by_run and
# by_test, which hold the same rows, messages, troubled and by_day. Unlisted files are deleted.
file: Final = Table(
    "file",
    METADATA,
    Column("name", StoredText(256), primary_key=True),
    Column("kind", StoredText(16), nullable=False),
    Column("pair", StoredText(64), nullable=False),  # of a pair; "" of another
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", StoredText(64), nullable=False),
    Column("added_at_ms", BigInteger, nullable=False),
    Index("ix_file_kind_added_at_ms", "kind", "added_at_ms"),
)

# The runs whose rows an arrival or a pair holds (`results/manifest.py` defines the file of a pair):
# the pages name them if a file is damaged. `digest` identifies the rows of one verdict.
file_run: Final = Table(
    "file_run",
    METADATA,
    Column("file", StoredText(256), nullable=False),
    *_run_key(),
    Column("rows", BigInteger, nullable=False),
    Column("digest", StoredText(32), nullable=False),
    PrimaryKeyConstraint("file", *RUN_COLUMNS),
    ForeignKeyConstraint(["file"], ["file.name"], ondelete="CASCADE"),
    Index("ix_file_run_repository_id_run_id", "repository_id", "run_id"),
)

# Raw artifacts as GitHub gave them, stored for 30 days to restore damaged result files.
artifact: Final = Table(
    "artifact",
    METADATA,
    *_run_key(),
    Column("name", StoredText(256), nullable=False),
    Column("object", StoredText(256), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", StoredText(64), nullable=False),
    Column("stored_at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint(*RUN_COLUMNS, "name"),
    Index("ix_artifact_stored_at_ms", "stored_at_ms"),
)

# The current history of a repository: each version is an object, which the row names. A writer
# replaces the row only if `version` is still the one that it read.
history: Final = Table(
    "history",
    METADATA,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("object", StoredText(256), nullable=False),
    Column("sha256", StoredText(64), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

token: Final = Table(
    "token",
    METADATA,
    Column("id", StoredText(16), primary_key=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("sha256", StoredText(64), nullable=False, unique=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("revoked_at_ms", BigInteger),
)

# Secret values are stored as digests only.
session: Final = Table(
    "session",
    METADATA,
    Column("sha256", StoredText(64), primary_key=True),
    Column("login", StoredText(64), nullable=False),
    Column("visible", JSON, nullable=False),  # ids of private repositories
    Column("visible_at_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Index("ix_session_until_ms", "until_ms"),
)

# A plan whose legs (jobs of the run) take blocks of one another during the run. Every claim of the
# plan locks its row, so that two legs never get one block. `token_sha256`: of the legs' token.
claim_plan: Final = Table(
    "claim_plan",
    METADATA,
    *_run_key(),
    Column("plan", StoredText(32), nullable=False),
    Column("token_sha256", StoredText(64), nullable=False, unique=True),
    Column("registered_at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint(*RUN_COLUMNS, "plan"),
    Index("ix_claim_plan_registered_at_ms", "registered_at_ms"),
)

_PLAN_KEY: Final = (*RUN_COLUMNS, "plan")

# The progress of each leg of a plan; `block_exchange.py` defines the numbers.
claim_leg: Final = Table(
    "claim_leg",
    METADATA,
    *_run_key(),
    Column("plan", StoredText(32), nullable=False),
    Column("leg", StoredText(128), nullable=False),
    Column("exchange", StoredText(256), nullable=False),  # the group; "group" is a word of SQL
    Column("own_s", Float, nullable=False),
    Column("began_at_ms", BigInteger),
    Column("ready_at_ms", BigInteger),
    Column("ratio", Float),
    Column("is_alone", Boolean, nullable=False),
    PrimaryKeyConstraint(*_PLAN_KEY, "leg"),
    ForeignKeyConstraint(
        _PLAN_KEY, [f"claim_plan.{name}" for name in _PLAN_KEY], ondelete="CASCADE"
    ),
)

# `leg`: the owner of the block by the plan; `holder`: the leg that has claimed it, "" for none.
claim_block: Final = Table(
    "claim_block",
    METADATA,
    *_run_key(),
    Column("plan", StoredText(32), nullable=False),
    Column("block", StoredText(128), nullable=False),
    Column("leg", StoredText(128), nullable=False),
    Column("place", Integer, nullable=False),  # position among the blocks of its leg
    Column("wall_s", Float, nullable=False),
    Column("holder", StoredText(128), nullable=False),
    Column("is_confirmed", Boolean, nullable=False),
    PrimaryKeyConstraint(*_PLAN_KEY, "block"),
    ForeignKeyConstraint(
        _PLAN_KEY, [f"claim_plan.{name}" for name in _PLAN_KEY], ondelete="CASCADE"
    ),
)
