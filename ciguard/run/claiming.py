"""Claims of a leg for blocks of units (tests that any of several legs may run), and their lines."""

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

# Details of a leg that claims nothing from the start.
PART_OF_SHARD = "it runs a part of its shard"
NOT_ON_GITHUB = "it belongs to no run on GitHub"
UNSAFE = "the service has no https address"


class Claiming:
    """The claims of one leg: asks the service, and writes its answers into the record.

    Args:
        client: None for a leg without a service.
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
        """Tell the service that the leg begins, or that it claims nothing; do not wait."""
        if self._client is not None and self._client.asks:
            self._client.begin()
        elif self._client is not None:
            self._client.go_alone()

    def ask(self, claim: Claim) -> None:
        if self._client is not None:
            self._client.ask(claim)

    def poll(self, now_s: float) -> None:
        """Take in the answers of the service, or a timeout; never wait."""
        if self._client is None:
            return
        answer = self._client.poll()
        if answer is not None:
            self._take_in(answer, self._client, now_s)
        greeting = self._client.poll_greeting()
        if greeting is not None:
            self._claim_held(greeting, now_s)

    def _take_in(self, answer: ClaimAnswer, client: ClaimClient, now_s: float) -> None:
        for block, shard in answer.taken.items():
            if block in self._state.claims.held:
                units = len(self._state.claims.held[block])
                self._observed(EventLine("taken", now_s, block=block, shard=shard))
                self._console.print_line(describe_taken(block, shard, units))
        self._claim_held(answer, now_s)
        if answer.block is not None:
            self._claim(answer.block, now_s)
            client.confirm(answer.block)
            return
        reason, detail = answer.problem or "nothing_left", answer.detail
        if answer.problem is not None:
            client.go_alone()
        own_units = sum(map(len, self._state.claims.held.values()))
        self._observed(EventLine("claims_ended", now_s, detail=detail, reason=reason))
        self._console.print_line(describe_claims_end(reason, detail, own_units))

    def _claim_held(self, answer: ClaimAnswer, now_s: float) -> None:
        """Run the blocks that an earlier attempt of this leg claimed: no other leg runs them."""
        for block in answer.held:
            if block not in self._state.claims.claimed:
                self._claim(block, now_s)

    def _claim(self, block: str, now_s: float) -> None:
        claims = self._state.claims
        units = claims.others.get(block) or claims.held.get(block) or claims.moved.get(block) or ()
        self._observed(EventLine("claimed", now_s, block=block))
        is_own = block not in claims.others
        self._console.print_line(describe_claim(block, len(units), is_own=is_own))


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
    """Return the client for claims; for a leg that claims nothing, also the line with the reason.

    Args:
        others: blocks of other shards that the leg may run.
        is_part: the leg runs a part of its shard, or resumes earlier legs.
    """
    if not (plan.claims and (shard.blocks or others)):
        return None, ()
    client: Optional[ClaimClient] = None
    reason: EndReason = "not_asked"
    detail = PART_OF_SHARD
    if plan.policy.lists:
        pass
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
        other_shards = {other.key for other in plan.shards} - {shard.key}
        leg = ClaimingLeg(address, plan.id, shard.key, own, others.keys(), other_shards)
        client = ClaimClient(leg, environ, origin_s=origin_s)
        client.asks = not is_part
        if client.asks:
            return client, ()
    return client, (EventLine("claims_ended", 0.0, detail=detail, reason=reason),)
