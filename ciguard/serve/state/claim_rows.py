"""Tables of the blocks that legs claim during a run: holder of each block, progress of each leg.

A leg is one execution of a shard's job; a block is a part of a shard's tests that another leg may
run. The token of a plan's legs is stored as a digest, as in `state/tokens.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import schema
from ciguard.serve.state.database import engine_insert, is_older, now_ms
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey, is_run
from ciguard.serve.state.tokens import SECRET_BYTES, digest

PREFIX: Final = "cgr_"
MAX_PLANS: Final = 64  # of one run attempt; one a job that plans
_PLAN: Final = schema.claim_plan.c
_LEG: Final = schema.claim_leg.c
_BLOCK: Final = schema.claim_block.c
_KEY: Final = (*RUN_COLUMNS, "plan")


@dataclass(frozen=True, slots=True)
class PlanKey:
    """A plan of a run attempt, which has one for each job that plans a matrix."""

    run: RunKey
    plan: str


@dataclass(slots=True)
class ClaimLeg:
    """A leg, with the values of `block_exchange.LegProgress`.

    `is_alone`: the leg runs its own blocks only and asks no more. Times are milliseconds since 1970
    by the database's clock; None for an event that has not happened yet.
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
    """The token of a plan's legs, which is stored nowhere; `is_new`: the plan was unknown."""

    is_new: bool
    secret: str = field(repr=False)


def register(
    connection: Connection, key: PlanKey, legs: Sequence[ClaimLeg], blocks: Sequence[ClaimBlock]
) -> Registration | None:
    """Write a plan; of a plan that is known already, replace only the token.

    Returns:
        None, with nothing written, if the run attempt has MAX_PLANS other plans.
    """
    secret = PREFIX + secrets.token_hex(SECRET_BYTES)
    values = {**_values(key), "token_sha256": digest(secret), "registered_at_ms": now_ms()}
    statement = engine_insert(connection, schema.claim_plan).values(values)
    # If a plan arrives twice at once, the second waits here until the first is written.
    statement = statement.on_conflict_do_nothing(index_elements=_KEY).returning(_PLAN.plan)
    is_new = connection.execute(statement).first() is not None
    if not is_new:
        update = sa.update(schema.claim_plan).where(_is_plan(schema.claim_plan, key))
        connection.execute(update.values(token_sha256=digest(secret)))
        return Registration(False, secret)
    count = sa.select(sa.func.count()).where(is_run(schema.claim_plan, key.run))
    if connection.execute(count).scalar_one() > MAX_PLANS:
        connection.execute(sa.delete(schema.claim_plan).where(_is_plan(schema.claim_plan, key)))
        return None
    for table, rows in ((schema.claim_leg, legs), (schema.claim_block, blocks)):
        if rows:
            connection.execute(sa.insert(table), [{**_values(key), **asdict(row)} for row in rows])
    return Registration(True, secret)


def plan_of(connection: Connection, secret: str) -> PlanKey | None:
    """Return the plan whose legs have this token; None if the token is unknown or replaced."""
    query = sa.select(*(_PLAN[name] for name in _KEY)).where(_PLAN.token_sha256 == digest(secret))
    row = connection.execute(query).first()
    return None if row is None else PlanKey(RunKey(*row[:3]), row[3])


def lock(connection: Connection, key: PlanKey) -> bool:
    """Make other claims of a plan wait for this transaction; False if the plan is unknown."""
    query = sa.select(_PLAN.plan).where(_is_plan(schema.claim_plan, key)).with_for_update()
    return connection.execute(query).first() is not None


def earlier_attempt(connection: Connection, key: PlanKey) -> PlanKey | None:
    """Return the same plan in the newest earlier attempt of the run that has it."""
    run = key.run
    query = sa.select(sa.func.max(_PLAN.run_attempt)).where(
        _PLAN.repository_id == run.repository_id,
        _PLAN.run_id == run.run_id,
        _PLAN.run_attempt < run.run_attempt,
        _PLAN.plan == key.plan,
    )
    attempt = connection.execute(query).scalar_one()
    return None if attempt is None else PlanKey(replace(run, run_attempt=attempt), key.plan)


def legs_of(connection: Connection, key: PlanKey) -> dict[str, ClaimLeg]:
    columns = [_LEG[column.name] for column in fields(ClaimLeg)]
    query = sa.select(*columns).where(_is_plan(schema.claim_leg, key)).order_by(_LEG.leg)
    return {row.leg: ClaimLeg(*row) for row in connection.execute(query)}


def blocks_of(connection: Connection, key: PlanKey, leg: str) -> tuple[ClaimBlock, ...]:
    """Return the blocks of a leg by the plan, those that it holds, and those without holder."""
    concerns_leg = sa.or_(_BLOCK.holder.in_(("", leg)), _BLOCK.leg == leg)
    return _blocks(connection, key, concerns_leg)


def block_of(connection: Connection, key: PlanKey, block: str) -> ClaimBlock | None:
    """Return a block by its name; None if the plan has no such block."""
    return next(iter(_blocks(connection, key, _BLOCK.block == block)), None)


def _blocks(
    connection: Connection, key: PlanKey, where: sa.ColumnElement[bool]
) -> tuple[ClaimBlock, ...]:
    columns = [_BLOCK[column.name] for column in fields(ClaimBlock)]
    query = sa.select(*columns).where(_is_plan(schema.claim_block, key), where)
    rows = connection.execute(query.order_by(_BLOCK.leg, _BLOCK.place))
    return tuple(ClaimBlock(*row) for row in rows)


def save_leg(connection: Connection, key: PlanKey, leg: ClaimLeg) -> None:
    """Write the progress of a leg; the transaction holds the lock of the plan."""
    where = sa.and_(_is_plan(schema.claim_leg, key), _LEG.leg == leg.leg)
    connection.execute(sa.update(schema.claim_leg).where(where).values(asdict(leg)))


def save_blocks(connection: Connection, key: PlanKey, blocks: Collection[ClaimBlock]) -> None:
    """Write the holders of these blocks; the transaction holds the lock of the plan."""
    for block in blocks:
        where = sa.and_(_is_plan(schema.claim_block, key), _BLOCK.block == block.block)
        values = {"holder": block.holder, "is_confirmed": block.is_confirmed}
        connection.execute(sa.update(schema.claim_block).where(where).values(values))


def prune(connection: Connection, days: float) -> None:
    """Delete plans that were registered longer ago, with their legs and blocks."""
    is_old = is_older(_PLAN.registered_at_ms, days)
    connection.execute(sa.delete(schema.claim_plan).where(is_old))


def _values(key: PlanKey) -> Mapping[str, Any]:
    return {**asdict(key.run), "plan": key.plan}


def _is_plan(table: sa.Table, key: PlanKey) -> sa.ColumnElement[bool]:
    return sa.and_(is_run(table, key.run), table.c.plan == key.plan)
