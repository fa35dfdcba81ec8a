"""What a claim of a leg does: which block it gets, what it keeps, and what others have of it.

`block_choice.py` chooses; here is what a lost answer, or a leg without the service, means. A
leg runs a block as soon as it hears of it and confirms it meanwhile. Whatever goes wrong, a block
may run twice, and none is given to nobody: that an owner hears of no block left means that each of
its blocks was confirmed by some leg or given to itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ciguard.errors import InputError
from ciguard.plan.pool_shards import CLAIM_S
from ciguard.serve.block_choice import LegProgress, choose_block, common_ratio
from ciguard.serve.state import claim_rows
from ciguard.serve.state.database import read_clock_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.state.claim_rows import ClaimBlock, ClaimLeg, PlanKey

ClaimState = Literal["begins", "asks", "alone"]
MAX_RATIO: Final = 1000.0  # of a leg whose units were predicted to take next to nothing


class UnknownLeg(InputError):
    """There is no such plan, or no such leg or block in it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A leg's question.

    Attributes:
        elapsed_s: since it began.
        ready_in_s: until it can start a block, as predicted.
        done_s: what was predicted for the units that it has run.
        left_s: until it stops itself; infinite if it does not.
    """

    leg: str
    state: ClaimState
    elapsed_s: float
    ready_in_s: float = 0.0
    done_s: float = 0.0
    left_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """`taken`: own blocks, each with the leg that runs it; `held`: others' that it had before."""

    block: str | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()


def answer_claim(connection: Connection, key: PlanKey, claim: Claim) -> Answer:
    """Answer in one transaction, which all other claims of the plan wait for.

    A run attempt in which nothing was registered has the legs of an earlier one: "Re-run failed
    jobs" repeats them without their plan. Such a leg hears what it had, and gets nothing.

    Raises:
        UnknownLeg: no attempt of the run has the plan, or the plan has no such leg.
    """
    if not claim_rows.lock(connection, key):
        earlier = claim_rows.earlier_attempt(connection, key)
        if earlier is None:
            raise UnknownLeg("the plan is not registered in this run")
        _find_leg(claim_rows.legs_of(connection, earlier), claim.leg)
        blocks = claim_rows.blocks_of(connection, earlier, claim.leg)
        return Answer(held=_held(blocks, claim.leg))
    # After the lock, so that time passes in the order of the answers.
    now_ms = read_clock_ms(connection)
    legs = claim_rows.legs_of(connection, key)
    leg = _find_leg(legs, claim.leg)
    blocks = claim_rows.blocks_of(connection, key, claim.leg)
    before = [(one.holder, one.is_confirmed) for one in blocks]
    found = apply_claim(claim, legs, blocks, now_ms)
    claim_rows.save_leg(connection, key, leg)
    pairs = zip(blocks, before, strict=True)
    changed = [one for one, was in pairs if (one.holder, one.is_confirmed) != was]
    claim_rows.save_blocks(connection, key, changed)
    return found


def confirm_block(connection: Connection, key: PlanKey, leg: str, block: str) -> bool:
    """Say that a leg runs a block, whether it was given to it or not; False: another has it.

    Raises:
        UnknownLeg: there is no such plan in this attempt, or no such leg or block in it.
    """
    if not claim_rows.lock(connection, key):
        raise UnknownLeg("the plan is not registered in this run attempt")
    _find_leg(claim_rows.legs_of(connection, key), leg)
    found = claim_rows.block_of(connection, key, block)
    if found is None:
        raise UnknownLeg("the plan has no such block")
    if found.holder not in ("", leg):
        return False
    found.holder, found.is_confirmed = leg, True
    claim_rows.save_blocks(connection, key, [found])
    return True


def apply_claim(
    claim: Claim, legs: Mapping[str, ClaimLeg], blocks: Sequence[ClaimBlock], now_ms: int
) -> Answer:
    """Change the leg and the blocks as a claim does, and answer it. Pure but for that.

    Args:
        legs: all of the plan.
        blocks: those of the leg, those that it has and those that no leg has, in their order.
    """
    leg = legs[claim.leg]
    if leg.began_at_ms is None:
        leg.began_at_ms = now_ms - round(claim.elapsed_s * 1000)
    chosen = None
    if claim.state == "alone":
        _leave(leg, blocks)
    # A question that arrives after it was given up: nobody waits for the answer.
    elif claim.state == "asks" and not leg.is_alone:
        chosen = _give(claim, legs, blocks, now_ms)
    taken = {
        one.block: one.holder
        for one in blocks
        if one.leg == leg.leg != one.holder and one.is_confirmed
    }
    block = None if chosen is None else chosen.block
    return Answer(block, taken, tuple(one for one in _held(blocks, leg.leg) if one != block))


def _find_leg(legs: Mapping[str, ClaimLeg], name: str) -> ClaimLeg:
    if name not in legs:
        raise UnknownLeg("the plan has no such leg")
    return legs[name]


def _held(blocks: Sequence[ClaimBlock], leg: str) -> tuple[str, ...]:
    return tuple(one.block for one in blocks if one.holder == leg != one.leg)


def _leave(leg: ClaimLeg, blocks: Sequence[ClaimBlock]) -> None:
    """It runs all of its own blocks, whatever it was told, and never heard of what it was given."""
    leg.is_alone = True
    for one in blocks:
        if one.is_confirmed:
            continue
        if one.leg == leg.leg:
            one.holder, one.is_confirmed = leg.leg, True
        elif one.holder == leg.leg:
            one.holder = ""


def _give(
    claim: Claim, legs: Mapping[str, ClaimLeg], blocks: Sequence[ClaimBlock], now_ms: int
) -> ClaimBlock | None:
    leg = legs[claim.leg]
    if claim.done_s > 0:
        leg.ratio = min(claim.elapsed_s / claim.done_s, MAX_RATIO)
    leg.ready_at_ms = now_ms + round(claim.ready_in_s * 1000)
    # What it has and never heard of: the answer was lost.
    given = next((one for one in blocks if one.holder == leg.leg and not one.is_confirmed), None)
    if given is None:
        _give_back(leg, blocks)
    began_ms = min(one.began_at_ms for one in legs.values() if one.began_at_ms is not None)
    free_s: dict[str, dict[str, float]] = {name: {} for name in legs}
    for one in blocks:
        if not one.holder:
            free_s[one.leg][one.block] = one.wall_s
    progress = {name: _progress(one, free_s[name], began_ms) for name, one in legs.items()}
    if given is None:
        now_s = (now_ms - began_ms) / 1000
        choice = choose_block(progress, leg.leg, now_s, CLAIM_S, claim.left_s)
        given = next((one for one in blocks if choice and one.block == choice.block), None)
    if given is not None:
        given.holder = leg.leg
        ratio = common_ratio(tuple(progress.values()))
        leg.ready_at_ms += round((CLAIM_S + ratio * given.wall_s) * 1000)
    return given


def _give_back(leg: ClaimLeg, blocks: Sequence[ClaimBlock]) -> None:
    """What others claimed and never confirmed is its own again, where it has nothing else left."""
    own = [one for one in blocks if one.leg == leg.leg]
    if all(one.holder for one in own):
        for one in own:
            if not one.is_confirmed:
                one.holder = ""


def _progress(leg: ClaimLeg, blocks_s: dict[str, float], began_ms: int) -> LegProgress:
    def since_s(time_ms: int | None) -> float | None:
        return None if time_ms is None else (time_ms - began_ms) / 1000

    return LegProgress(
        leg.exchange,
        leg.own_s,
        blocks_s,
        since_s(leg.began_at_ms),
        since_s(leg.ready_at_ms),
        leg.ratio,
    )
