"""Claims of legs for blocks: each claim gets a block or none, also after lost answers.

A leg is one execution of a shard's job, a block a part of its tests that another leg may run. A leg
gets its own blocks first, then one of the leg that ends last, if it ends the block before, or
hardly after, that leg would end alone: else the run would not become shorter.

A leg runs a block as soon as it receives the answer, and confirms it meanwhile. After any failure,
a block may run twice, and each block runs at least once: its owner gets the answer "no block left"
only if a leg has confirmed each of its blocks, or the owner itself has them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy.engine import Connection

from ciguard.errors import InputError
from ciguard.plan.pool_shards import CLAIM_S
from ciguard.serve.state import claim_rows
from ciguard.serve.state.claim_rows import ClaimBlock, ClaimLeg, PlanKey
from ciguard.serve.state.database import read_clock_ms

TOLERANCE: Final = 1.1  # the error of a leg's prediction (`benchmarks/plan_risk.py`)


@dataclass(slots=True)
class LegProgress:
    """The progress of a leg during the run. Times are seconds since the run's first leg began.

    Attributes:
        group: legs exchange blocks only within a group.
        own_s: predicted seconds of the tests that it runs before it asks.
        blocks_s: predicted seconds of its blocks that no leg has taken, in its order.
        began_s: start of the leg; None before.
        ready_s: predicted time of its next question; None before the first question.
        ratio: actual seconds a predicted second until now; None before the first question.
    """

    group: str
    own_s: float
    blocks_s: dict[str, float]
    began_s: float | None = None
    ready_s: float | None = None
    ratio: float | None = None

    def ends_s(self, now_s: float, ratio: float) -> float:
        """Return the time at which the leg would end alone."""
        ready_s = self.ready_s
        if ready_s is None:
            ready_s = (now_s if self.began_s is None else self.began_s) + ratio * self.own_s
        return max(now_s, ready_s) + ratio * sum(self.blocks_s.values())


def choose_block(
    legs: Mapping[str, LegProgress], leg: str, now_s: float, cost_s: float, limit_s: float
) -> str | None:
    """Choose a block, the leg's own first, for a leg; None if it could run none in time.

    Args:
        now_s: seconds since the run's first leg began.
        cost_s: overhead of a block, besides its tests.
        limit_s: seconds until the asking leg stops itself.
    """
    asking = legs[leg]
    if asking.blocks_s:
        return next(iter(asking.blocks_s))
    ratio = common_ratio(tuple(legs.values()))
    others = [
        (other.ends_s(now_s, ratio), name)
        for name, other in legs.items()
        if other.blocks_s and other.group == asking.group
    ]
    if not others:
        return None
    ends_s, latest = max(others)
    begin_s = cost_s + max(now_s, now_s if asking.ready_s is None else asking.ready_s)
    left_s = min(TOLERANCE * ends_s, now_s + limit_s) - begin_s
    fitting = [
        (wall_s, block)
        for block, wall_s in legs[latest].blocks_s.items()
        if ratio * wall_s < left_s
    ]
    return max(fitting)[1] if fitting else None


def common_ratio(legs: Sequence[LegProgress]) -> float:
    """Return actual seconds a predicted second: the median of the legs that have asked."""
    ratios = [leg.ratio for leg in legs if leg.ratio is not None]
    return statistics.median(ratios) if ratios else 1.0


ClaimState = Literal["begins", "asks", "alone"]
MAX_S: Final = 35 * 24 * 3600  # limit of a run on GitHub
LEG: Final = "[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"  # key of a shard, as in `model/shard_names.py`
PlanId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]
LegKey = Annotated[str, StringConstraints(pattern=f"^{LEG}$")]
Seconds = Annotated[float, Field(ge=0, le=MAX_S, allow_inf_nan=False)]
MAX_RATIO: Final = 1000.0  # for legs with predictions near 0 s


class NotRegistered(InputError):
    """The repository, run, plan, leg or block does not exist for the caller."""


class Body(BaseModel):
    """Base of the bodies of requests and answers; keys of later clients are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


class ClaimBody(Body):
    """Message of a leg that begins, asks for a block, or continues without the service."""

    plan: PlanId
    leg: LegKey
    state: ClaimState
    elapsed_s: Seconds  # since the leg began
    ready_in_s: Seconds = 0.0  # predicted, until it can start a block
    done_s: Seconds = 0.0  # predicted, of the tests that it has run
    left_s: Seconds | None = None  # until it stops itself; None if it does not


class ClaimAnswer(Body):
    """A block to run, own blocks with the legs that run them, and other blocks that the leg has."""

    block: str | None
    taken: dict[str, str]
    held: tuple[str, ...]


def answer_claim(connection: Connection, key: PlanKey, claim: ClaimBody) -> ClaimAnswer:
    """Answer a claim in one transaction; all other claims of the plan wait for it.

    "Re-run failed jobs" repeats legs without their plan, so that a run attempt may have no
    registered plan. Then the plan of an earlier attempt counts: the leg learns its earlier blocks,
    and gets no block.

    Raises:
        NotRegistered: no attempt of the run has the plan, or the plan has no such job.
    """
    if not claim_rows.lock(connection, key):
        earlier = claim_rows.earlier_attempt(connection, key)
        if earlier is None:
            raise NotRegistered("the plan is not registered in this run")
        _find_leg(claim_rows.legs_of(connection, earlier), claim.leg)
        blocks = claim_rows.blocks_of(connection, earlier, claim.leg)
        return ClaimAnswer(block=None, taken={}, held=_held(blocks, claim.leg))
    # Read after the lock, so that times have the order of the answers.
    now_ms = read_clock_ms(connection)
    legs = claim_rows.legs_of(connection, key)
    leg = _find_leg(legs, claim.leg)
    blocks = claim_rows.blocks_of(connection, key, claim.leg)
    before = [(block.holder, block.is_confirmed) for block in blocks]
    answer = apply_claim(claim, legs, blocks, now_ms)
    claim_rows.save_leg(connection, key, leg)
    pairs = zip(blocks, before, strict=True)
    changed = [block for block, old in pairs if (block.holder, block.is_confirmed) != old]
    claim_rows.save_blocks(connection, key, changed)
    return answer


def confirm_block(connection: Connection, key: PlanKey, leg: str, block: str) -> bool:
    """Record that a leg runs a block, granted or not; return False if another leg has it.

    Raises:
        NotRegistered: the attempt has no such plan, or the plan no such leg or block.
    """
    if not claim_rows.lock(connection, key):
        raise NotRegistered("the plan is not registered in this run attempt")
    _find_leg(claim_rows.legs_of(connection, key), leg)
    row = claim_rows.block_of(connection, key, block)
    if row is None:
        raise NotRegistered("the plan has no such block")
    if row.holder not in ("", leg):
        return False
    row.holder, row.is_confirmed = leg, True
    claim_rows.save_blocks(connection, key, [row])
    return True


def apply_claim(
    claim: ClaimBody, legs: Mapping[str, ClaimLeg], blocks: Sequence[ClaimBlock], now_ms: int
) -> ClaimAnswer:
    """Change the leg and the blocks by a claim, and answer it. Pure, except for these changes.

    Args:
        legs: all legs of the plan.
        blocks: blocks of the leg by the plan, blocks that it holds, and blocks without holder, in
            their order.
    """
    leg = legs[claim.leg]
    if leg.began_at_ms is None:
        leg.began_at_ms = now_ms - round(claim.elapsed_s * 1000)
    granted = None
    if claim.state == "alone":
        _detach(leg, blocks)
    # A leg that is alone may have a question on the way, for whose answer it does not wait.
    elif claim.state == "asks" and not leg.is_alone:
        granted = _grant(claim, legs, blocks, now_ms)
    taken = {
        block.block: block.holder
        for block in blocks
        if block.leg == leg.leg != block.holder and block.is_confirmed
    }
    name = None if granted is None else granted.block
    held = tuple(held for held in _held(blocks, leg.leg) if held != name)
    return ClaimAnswer(block=name, taken=taken, held=held)


def _find_leg(legs: Mapping[str, ClaimLeg], name: str) -> ClaimLeg:
    if name not in legs:
        raise NotRegistered("the plan has no such job")
    return legs[name]


def _held(blocks: Sequence[ClaimBlock], leg: str) -> tuple[str, ...]:
    return tuple(block.block for block in blocks if block.holder == leg != block.leg)


def _detach(leg: ClaimLeg, blocks: Sequence[ClaimBlock]) -> None:
    """Give a leg that is alone its own blocks; free blocks of others that it has not confirmed."""
    leg.is_alone = True
    for block in blocks:
        if block.is_confirmed:
            continue
        if block.leg == leg.leg:
            block.holder, block.is_confirmed = leg.leg, True
        elif block.holder == leg.leg:
            block.holder = ""


def _grant(
    claim: ClaimBody, legs: Mapping[str, ClaimLeg], blocks: Sequence[ClaimBlock], now_ms: int
) -> ClaimBlock | None:
    """Grant a block to the leg of a claim, and update its progress."""
    leg = legs[claim.leg]
    if claim.done_s > 0:
        leg.ratio = min(claim.elapsed_s / claim.done_s, MAX_RATIO)
    leg.ready_at_ms = now_ms + round(claim.ready_in_s * 1000)
    # A block that the leg holds and has not confirmed: the answer was lost.
    unconfirmed = (block for block in blocks if block.holder == leg.leg and not block.is_confirmed)
    granted = next(unconfirmed, None)
    if granted is None:
        _reclaim(leg, blocks)
    began_ms = min(other.began_at_ms for other in legs.values() if other.began_at_ms is not None)
    free_s: dict[str, dict[str, float]] = {name: {} for name in legs}
    for block in blocks:
        if not block.holder:
            free_s[block.leg][block.block] = block.wall_s
    progress = {name: _progress(other, free_s[name], began_ms) for name, other in legs.items()}
    if granted is None:
        now_s = (now_ms - began_ms) / 1000
        left_s = math.inf if claim.left_s is None else claim.left_s
        choice = choose_block(progress, leg.leg, now_s, CLAIM_S, left_s)
        granted = next((block for block in blocks if block.block == choice), None)
    if granted is not None:
        granted.holder = leg.leg
        ratio = common_ratio(tuple(progress.values()))
        leg.ready_at_ms += round((CLAIM_S + ratio * granted.wall_s) * 1000)
    return granted


def _reclaim(leg: ClaimLeg, blocks: Sequence[ClaimBlock]) -> None:
    """Free the leg's own blocks that others never confirmed, if it has no other block left."""
    own = [block for block in blocks if block.leg == leg.leg]
    if all(block.holder for block in own):
        for block in own:
            if not block.is_confirmed:
                block.holder = ""


def _progress(leg: ClaimLeg, blocks_s: dict[str, float], began_ms: int) -> LegProgress:
    times_ms = (leg.began_at_ms, leg.ready_at_ms)
    began_s, ready_s = (None if ms is None else (ms - began_ms) / 1000 for ms in times_ms)
    return LegProgress(leg.exchange, leg.own_s, blocks_s, began_s, ready_s, leg.ratio)
