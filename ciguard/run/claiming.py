"""A leg that asks for blocks of units: when it may, and what an answer makes of its record.

Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Mapping, Optional, Tuple
from urllib.parse import quote

from ciguard.model import EventLine, Line, Plan, PlannedUnit, Shard, ShardLine
from ciguard.model.service_address import is_safe
from ciguard.run.claim_client import TOKEN_VARIABLE, ClaimClient, ClaimingLeg, token_of
from ciguard.run.output.view import describe_claim, describe_claims_end, describe_taken

if TYPE_CHECKING:
    from ciguard.run.claim_client import ClaimAnswer, EndReason
    from ciguard.run.output.leg_console import Console
    from ciguard.run.policy.actions import Claim
    from ciguard.run.policy.state import State

# Why a leg asks for nothing from the start.
PART_OF_SHARD = "it runs a part of its shard"
NOT_ON_GITHUB = "it belongs to no run on GitHub"
UNSAFE = "the service has no https address"


class Claiming:
    """What the supervisor of a leg asks a service, and writes down of its answers.

    Args:
        client: None for a leg that can ask nobody.
        observed: writes a line that the rules look at.
    """

    def __init__(
        self,
        client: Optional[ClaimClient],
        state: State,
        console: Console,
        observed: Callable[[Line], None],
    ) -> None:
        self._client = client
        self._state = state
        self._console = console
        self._observed = observed

    def begin(self) -> None:
        """Say that the leg begins, or that it asks for nothing; nothing waits for the answer."""
        if self._client is not None and self._client.asks:
            self._client.begin()
        elif self._client is not None:
            self._client.go_alone()

    def ask(self, claim: Claim) -> None:
        """Carry out the rules' decision to ask."""
        if self._client is not None:
            self._client.ask(claim)

    def poll(self, now_s: float) -> None:
        """Take in what has been answered, or that the time for it is over; never waits."""
        if self._client is None:
            return
        answer = self._client.poll()
        if answer is not None:
            self._take(answer, now_s)
        greeting = self._client.poll_greeting()
        if greeting is not None:
            self._claim_held(greeting, now_s)

    def _take(self, answer: ClaimAnswer, now_s: float) -> None:
        assert self._client is not None
        for block, shard in answer.taken.items():
            if block in self._state.claims.held:
                units = len(self._state.claims.held[block])
                self._observed(EventLine("taken", now_s, block=block, shard=shard))
                self._console.print_line(describe_taken(block, shard, units))
        self._claim_held(answer, now_s)
        if answer.block is not None:
            self._claim(answer.block, now_s)
            self._client.confirm(answer.block)
            return
        reason = answer.problem or "nothing_left"
        if answer.problem is not None:
            self._client.go_alone()
        left = sum(map(len, self._state.claims.held.values()))
        self._observed(_claims_ended(reason, answer.detail, at_s=now_s))
        self._console.print_line(describe_claims_end(reason, answer.detail, left))

    def _claim_held(self, answer: ClaimAnswer, now_s: float) -> None:
        """Run what an earlier attempt of this leg had claimed: others leave it to this one."""
        for block in answer.held:
            if block not in self._state.claims.claimed:
                self._claim(block, now_s)

    def _claim(self, block: str, now_s: float) -> None:
        claims = self._state.claims
        units = claims.others.get(block) or claims.held.get(block) or claims.moved.get(block) or ()
        self._observed(EventLine("claimed", now_s, block=block))
        is_own = block not in claims.others
        self._console.print_line(describe_claim(block, len(units), is_own=is_own))


def _claims_ended(reason: EndReason, detail: str, *, at_s: float) -> EventLine:
    return EventLine("claims_ended", at_s, detail=detail, reason=reason)


def claim_client(
    plan: Plan,
    shard: Shard,
    others: Mapping[str, Tuple[PlannedUnit, ...]],
    head: ShardLine,
    environ: Mapping[str, str],
    *,
    is_part: bool,
    origin_s: float,
) -> Tuple[Optional[ClaimClient], Tuple[EventLine, ...]]:
    """What asks for blocks, and the lines that say why the leg of a plan with blocks asks for none.

    Args:
        others: blocks of other shards that the leg may run.
        is_part: units of the shard were chosen, or it goes on from earlier legs.
    """
    if not (plan.claims and (shard.blocks or others)):
        return None, ()
    reason: EndReason = "not_asked"
    if plan.policy.lists:
        detail = PART_OF_SHARD
    elif not (head.repository and head.run_id and head.run_attempt):
        detail = NOT_ON_GITHUB
    elif not is_safe(plan.claims):
        detail = UNSAFE
    elif not token_of(environ):
        reason, detail = "no_token", f"{TOKEN_VARIABLE} is not set to a token"
    else:
        run = f"{quote(head.repository)}/runs/{head.run_id}/{head.run_attempt}"
        address = f"{plan.claims}/api/v1/repos/{run}"
        own = shard.units_by_block().keys()
        shards = {one.key for one in plan.shards} - {shard.key}
        leg = ClaimingLeg(address, plan.id, shard.key, own, others.keys(), shards)
        client = ClaimClient(leg, environ, origin_s=origin_s)
        client.asks = not is_part
        return client, (_claims_ended(reason, PART_OF_SHARD, at_s=0.0),) if is_part else ()
    return None, (_claims_ended(reason, detail, at_s=0.0),)
