"""Blocks of a plan that its legs claim during the run: who has which, and how far each leg is.

The token of a plan's legs is stored as a digest, as `state/tokens.py` has it: it is found by the
index, and whoever reads the database has none.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

PREFIX: Final = "cgr_"
MAX_PLANS: Final = 64  # of one run attempt; one a job that plans
_SECRET_BYTES: Final = 32
_PLAN: Final = schema.claim_plan.c
_LEG: Final = schema.claim_leg.c
_BLOCK: Final = schema.claim_block.c
_KEY: Final = (*statements.KEY, "plan")


@dataclass(frozen=True, slots=True)
class PlanKey:
    """A plan of a run attempt: jobs that plan for several matrices make one each."""

    run: RunKey
    plan: str


@dataclass(slots=True)
class ClaimLeg:
    """A leg, as `block_choice.LegProgress` wants it; `is_alone`: it runs its own and asks no more.

    Times are milliseconds since 1970 by the database's clock; None where it has not happened yet.
    """

    leg: str
    exchange: str
    own_s: float
    began_at_ms: int | None = None
    ready_at_ms: int | None = None
    ratio: float | None = None
    is_alone: bool = False


@dataclass(slots=True)
class ClaimBlock:
    """A block of `leg` by the plan, claimed by `holder`, or by no leg ("")."""

    block: str
    leg: str
    place: int
    wall_s: float
    holder: str = ""
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """The token of a plan's legs, which is nowhere else; `is_new`: the plan was not known yet."""

    is_new: bool
    secret: str = field(repr=False)


def register(
    connection: Connection, key: PlanKey, legs: Sequence[ClaimLeg], blocks: Sequence[ClaimBlock]
) -> Registration | None:
    """Write a plan; of one that is known already, only the token is replaced.

    Returns:
        None, and nothing is written, where the run attempt has MAX_PLANS others.
    """
    secret = PREFIX + secrets.token_hex(_SECRET_BYTES)
    values = {**_values(key), "token_sha256": _digest(secret), "registered_at_ms": now_ms()}
    statement = statements.insert(connection, schema.claim_plan).values(values)
    # Of a plan job that is sent twice at once, the second waits here until the first is written.
    statement = statement.on_conflict_do_nothing(index_elements=_KEY).returning(_PLAN.plan)
    is_new = connection.execute(statement).first() is not None
    if not is_new:
        update = sa.update(schema.claim_plan).where(_is_plan(schema.claim_plan, key))
        connection.execute(update.values(token_sha256=_digest(secret)))
        return Registration(False, secret)
    count = sa.select(sa.func.count()).where(statements.is_run(schema.claim_plan, key.run))
    if connection.execute(count).scalar_one() > MAX_PLANS:
        connection.execute(sa.delete(schema.claim_plan).where(_is_plan(schema.claim_plan, key)))
        return None
    for table, rows in ((schema.claim_leg, legs), (schema.claim_block, blocks)):
        if rows:
            connection.execute(sa.insert(table), [{**_values(key), **asdict(one)} for one in rows])
    return Registration(True, secret)


def plan_of(connection: Connection, secret: str) -> PlanKey | None:
    """The plan whose legs have this token; None for one unknown or replaced."""
    query = sa.select(*(_PLAN[name] for name in _KEY)).where(_PLAN.token_sha256 == _digest(secret))
    row = connection.execute(query).first()
    return None if row is None else PlanKey(RunKey(*row[:3]), row[3])


def lock(connection: Connection, key: PlanKey) -> bool:
    """Have all other claims of a plan wait for this transaction; False where there is no plan."""
    query = sa.select(_PLAN.plan).where(_is_plan(schema.claim_plan, key)).with_for_update()
    return connection.execute(query).first() is not None


def earlier_attempt(connection: Connection, key: PlanKey) -> PlanKey | None:
    """The same plan in the newest attempt of the run before this one that has it."""
    run = key.run
    query = sa.select(sa.func.max(_PLAN.run_attempt)).where(
        _PLAN.repository_id == run.repository_id,
        _PLAN.run_id == run.run_id,
        _PLAN.run_attempt < run.run_attempt,
        _PLAN.plan == key.plan,
    )
    found = connection.execute(query).scalar_one()
    return None if found is None else PlanKey(replace(run, run_attempt=found), key.plan)


def legs_of(connection: Connection, key: PlanKey) -> dict[str, ClaimLeg]:
    """All legs of a plan, by name."""
    columns = [_LEG[one.name] for one in fields(ClaimLeg)]
    query = sa.select(*columns).where(_is_plan(schema.claim_leg, key)).order_by(_LEG.leg)
    return {row.leg: ClaimLeg(*row) for row in connection.execute(query)}


def blocks_of(connection: Connection, key: PlanKey, leg: str) -> tuple[ClaimBlock, ...]:
    """The blocks that a leg's claim is about: its own, those it has, and all that none has."""
    is_about = sa.or_(_BLOCK.holder.in_(("", leg)), _BLOCK.leg == leg)
    return _blocks(connection, key, is_about)


def block_of(connection: Connection, key: PlanKey, block: str) -> ClaimBlock | None:
    """One block by its name."""
    return next(iter(_blocks(connection, key, _BLOCK.block == block)), None)


def _blocks(
    connection: Connection, key: PlanKey, where: sa.ColumnElement[bool]
) -> tuple[ClaimBlock, ...]:
    columns = [_BLOCK[one.name] for one in fields(ClaimBlock)]
    query = sa.select(*columns).where(_is_plan(schema.claim_block, key), where)
    rows = connection.execute(query.order_by(_BLOCK.leg, _BLOCK.place))
    return tuple(ClaimBlock(*row) for row in rows)


def save_leg(connection: Connection, key: PlanKey, leg: ClaimLeg) -> None:
    """Write how far a leg is; whoever does holds the lock of the plan."""
    where = sa.and_(_is_plan(schema.claim_leg, key), _LEG.leg == leg.leg)
    connection.execute(sa.update(schema.claim_leg).where(where).values(asdict(leg)))


def save_blocks(connection: Connection, key: PlanKey, blocks: Collection[ClaimBlock]) -> None:
    """Write who has these blocks; whoever does holds the lock of the plan."""
    for one in blocks:
        where = sa.and_(_is_plan(schema.claim_block, key), _BLOCK.block == one.block)
        values = {"holder": one.holder, "is_confirmed": one.is_confirmed}
        connection.execute(sa.update(schema.claim_block).where(where).values(values))


def prune(connection: Connection, days: float) -> None:
    """Forget plans that were registered longer ago, with their legs and blocks."""
    is_old = statements.is_older(_PLAN.registered_at_ms, days)
    connection.execute(sa.delete(schema.claim_plan).where(is_old))


def delete(connection: Connection, repository_id: int) -> None:
    """Forget the plans of a repository that is removed."""
    connection.execute(sa.delete(schema.claim_plan).where(_PLAN.repository_id == repository_id))


def _values(key: PlanKey) -> Mapping[str, Any]:
    return {**asdict(key.run), "plan": key.plan}


def _is_plan(table: sa.Table, key: PlanKey) -> sa.ColumnElement[bool]:
    return sa.and_(statements.is_run(table, key.run), table.c.plan == key.plan)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
