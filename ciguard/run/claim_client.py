"""Client of the service that assigns blocks of units to legs; it never delays the leg.

Each question has its own thread, which is abandoned after `PATIENCE_S`: timeouts of sockets do not
end a name lookup, nor an answer that arrives byte by byte. One more thread sends the messages that
need no answer.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import (
    AbstractSet,
    Any,
    Callable,
    Final,
    Literal,
    Mapping,
)
from urllib.parse import quote

from ciguard.model import SLOTS, EventLine, Line, Plan, PlannedUnit, Shard, ShardLine
from ciguard.model.service_address import BEARER_TOKEN, is_safe
from ciguard.run.output.leg_console import Console
from ciguard.run.output.view import describe_claim, describe_claims_end, describe_taken
from ciguard.run.policy.actions import NO_TIME_S, Claim
from ciguard.run.policy.state import State

TOKEN_VARIABLE: Final = "CIGUARD_CLAIMS_TOKEN"
PATIENCE_S: Final = 2.0  # for name lookup, connection, TLS and answer together
RETRY_S: Final = 0.25  # interval of tries within PATIENCE_S, as for a service that restarts
REPEAT_S: Final = 3.0  # interval of messages until the service has received one
CONFIRM_TRIES: Final = 5  # if the service receives none, the block runs twice
MAX_ANSWER_BYTES: Final = 1 << 16
SERVER_ERROR: Final = 500
OK: Final = 200

EndReason = Literal["nothing_left", "no_answer", "refused", "no_token", "not_asked"]


@dataclass(frozen=True, **SLOTS)
class ClaimAnswer:
    """Answer of the service, or the reason why there is none.

    Attributes:
        block: block to run next; None if no block is left, which ends the claims.
        taken: own blocks that other legs run -> shard of that leg.
        held: other legs' blocks that an earlier attempt of this leg claimed.
        problem, detail: why there is no answer.
    """

    block: str | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    problem: EndReason | None = None
    detail: str = ""


@dataclass(frozen=True, **SLOTS)
class ClaimingLeg:
    """The leg that claims, and the blocks and shards that an answer may contain."""

    address: str  # of the run attempt in the API of the service
    plan: str
    shard: str
    own_blocks: AbstractSet[str]
    others_blocks: AbstractSet[str]
    other_shards: AbstractSet[str]


class _NoAnswer(Exception):
    def __init__(self, problem: EndReason, detail: str) -> None:
        super().__init__(detail)
        self.problem: EndReason = problem
        self.detail = detail


class ClaimClient:
    """Connection of one leg to the service; every method returns at once.

    Args:
        origin_s: start of the leg on the monotonic clock.

    Attributes:
        asks: False for a leg that only tells the service that it runs all its own blocks.
    """

    def __init__(self, leg: ClaimingLeg, environ: Mapping[str, str], *, origin_s: float) -> None:
        self._leg = leg
        self.asks = True
        self._origin_s = origin_s
        self._token = token_of(environ)
        self._messages: SimpleQueue[tuple[int, Callable[[float], object]]] = SimpleQueue()
        self._greeting: SimpleQueue[ClaimAnswer] = SimpleQueue()
        self._answer: SimpleQueue[ClaimAnswer] = SimpleQueue()  # a new queue for each question
        self._given: set[str] = set()
        self._until_s: float | None = None  # end of the wait for the open question

    def begin(self) -> None:
        """Tell the service that the leg has begun."""
        self._messages.put((1, lambda until_s: self._greeting.put(self._claim("begins", until_s))))
        _in_thread(self._deliver)

    def ask(self, claim: Claim) -> None:
        """Ask for a block; `poll` returns the answer."""
        more = {"ready_in_s": claim.ready_s, "done_s": claim.done_s}
        if claim.left_s < NO_TIME_S:
            more["left_s"] = max(0.0, claim.left_s)
        self._answer = SimpleQueue()
        self._until_s = until_s = time.monotonic() + PATIENCE_S
        answer, given = self._answer, frozenset(self._given)
        if not _in_thread(lambda: answer.put(self._ask(more, given, until_s))):
            answer.put(ClaimAnswer(problem="no_answer", detail="no thread can be started"))

    def poll(self) -> ClaimAnswer | None:
        """Return the answer to the question, or one with `problem` after a timeout; None before."""
        if self._until_s is None:
            return None
        try:
            answer = self._answer.get_nowait()
        except Empty:
            if time.monotonic() < self._until_s:
                return None
            answer = ClaimAnswer(problem="no_answer", detail="")
        self._until_s = None
        if answer.block is not None:
            self._given.add(answer.block)
        return answer

    def poll_greeting(self) -> ClaimAnswer | None:
        """Return the answer to `begin` once, when it has arrived and no question is open."""
        if self._until_s is not None:
            return None
        try:
            return self._greeting.get_nowait()
        except Empty:
            return None

    def confirm(self, block: str) -> None:
        """Tell the service that the leg runs a block."""
        self._messages.put((CONFIRM_TRIES, lambda until_s: self._confirm(block, until_s)))

    def go_alone(self) -> None:
        """Tell the service that the leg claims no more and runs its own blocks; repeat if lost.

        This does not wait for confirmations: until then other legs may get its blocks.
        """
        _in_thread(lambda: _repeat(0, lambda until_s: self._claim("alone", until_s)))

    def _deliver(self) -> None:
        """Send the messages in order; see `_repeat`."""
        while True:
            _repeat(*self._messages.get())

    def _ask(
        self, more: Mapping[str, float], given: AbstractSet[str], until_s: float
    ) -> ClaimAnswer:
        try:
            answer = self._claim("asks", until_s, **more)
            while answer.block in given:
                # The service repeats an answer that was not confirmed.
                self._confirm(answer.block or "", until_s)
                time.sleep(RETRY_S)
                answer = self._claim("asks", until_s, **more)
        except _NoAnswer as error:
            return ClaimAnswer(problem=error.problem, detail=error.detail)
        return answer

    def _claim(self, state: str, until_s: float, **more: float) -> ClaimAnswer:
        elapsed_s = max(0.0, time.monotonic() - self._origin_s)
        body = {"state": state, "elapsed_s": elapsed_s, **more}
        return self._parse(self._request("POST", "claims", body, until_s))

    def _confirm(self, block: str, until_s: float) -> None:
        self._request("PUT", f"claims/{quote(block, safe='')}", {}, until_s)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any], until_s: float
    ) -> tuple[int, bytes]:
        """Send a request until the service answers or the time is over."""
        content = json.dumps({"plan": self._leg.plan, "leg": self._leg.shard, **body})
        while True:
            try:
                address = f"{self._leg.address}/{path}"
                status, answer = _send(method, address, content.encode(), self._token, until_s)
                if status < SERVER_ERROR:
                    return status, answer
                raise _NoAnswer("no_answer", f"HTTP {status}")
            except _NoAnswer as error:
                is_late = time.monotonic() + RETRY_S >= until_s
                if error.problem == "refused" or is_late:
                    raise
            time.sleep(RETRY_S)

    def _parse(self, answer: tuple[int, bytes]) -> ClaimAnswer:
        """Parse an answer; refuse one with blocks or shards that it cannot contain."""
        status, content = answer
        if status != OK:
            raise _NoAnswer("refused", f"HTTP {status}")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise _NoAnswer("refused", "an answer that is no JSON") from None
        if isinstance(body, dict):
            block: Any = body.get("block")
            taken: Any = body.get("taken")
            held: Any = body.get("held")
            own, others = self._leg.own_blocks, self._leg.others_blocks
            if (
                (block is None or _all_in([block], own | others))
                and isinstance(taken, dict)
                and _all_in([*taken], own)
                and _all_in([*taken.values()], self._leg.other_shards)
                and _all_in(held, others)
            ):
                return ClaimAnswer(block, taken, tuple(held))
        raise _NoAnswer("refused", "an answer with blocks that are not in the plan")


def _repeat(tries: int, send: Callable[[float], object]) -> None:
    """Send until the service answers, at most `tries` times; 0: without a limit."""
    tried = 0
    while not tries or tried < tries:
        if tried:
            time.sleep(REPEAT_S)
        tried += 1
        try:
            send(time.monotonic() + PATIENCE_S)
        except _NoAnswer as error:
            if error.problem != "refused":  # a refusal is an answer
                continue
        break


def token_of(environ: Mapping[str, str]) -> str:
    """Return the token in the environment; "" for none or an invalid one.

    Tests can read the token, so it is valid only for the blocks of one run. A leg requests no token
    from GitHub: the tests of a job with that permission could get tokens for any service.
    """
    token = environ.get(TOKEN_VARIABLE, "").strip()
    return token if BEARER_TOKEN.fullmatch(token) else ""


def _all_in(names: Any, known: AbstractSet[str]) -> bool:
    return isinstance(names, list) and all(
        isinstance(name, str) and name in known for name in names
    )


def _in_thread(action: Callable[[], None]) -> bool:
    """Start an action in a daemon thread; return False if no thread can be started."""
    try:
        threading.Thread(target=action, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _send(method: str, address: str, body: bytes, token: str, until_s: float) -> tuple[int, bytes]:
    """Send a request; return status and content of the answer.

    Raises:
        _NoAnswer: no answer in time, or an answer that is too large.
    """
    # Imported only for plans with blocks: this takes 0.04 s.
    from http.client import HTTPException  # noqa: PLC0415
    from urllib import error, request  # noqa: PLC0415

    class NoRedirect(request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            """Follow no redirect: the token is for this address only."""

    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise _NoAnswer("no_answer", "")
    form = "application/json"
    headers = {"Accept": form, "Content-Type": form, "User-Agent": "ciguard"}
    try:
        asked = request.Request(address, body, headers, method=method)
        asked.add_unredirected_header("Authorization", f"Bearer {token}")
        with request.build_opener(NoRedirect).open(asked, timeout=left_s) as answer:
            content = b""
            while piece := answer.read1(MAX_ANSWER_BYTES):
                content += piece
                if len(content) > MAX_ANSWER_BYTES:
                    raise _NoAnswer("refused", f"an answer of more than {MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > until_s:
                    raise _NoAnswer("no_answer", "an answer that does not end")
            if answer.length:  # the announced rest is missing
                raise _NoAnswer("no_answer", "an answer that was cut")
            return answer.status, content
    except error.HTTPError as refusal:
        with refusal:
            return refusal.code, b""
    except (OSError, HTTPException, ValueError) as broken:
        # Only the kind of the error: its text may repeat the request.
        cause = getattr(broken, "reason", None)
        kind = type(cause if isinstance(cause, Exception) else broken).__name__
        raise _NoAnswer("no_answer", kind) from broken


# Details of a leg that claims nothing from the start.
PART_OF_SHARD = "it runs a part of its shard"
NOT_ON_GITHUB = "it belongs to no run on GitHub"
UNSAFE = "the service has no https address"


@dataclass(frozen=True, **SLOTS)
class Claiming:
    """The claims of one leg: asks the service, and writes its answers into the record.

    Attributes:
        client: None for a leg without a service.
        observed: writes a line that the rules look at.
    """

    client: ClaimClient | None
    state: State
    console: Console
    observed: Callable[[Line], None]

    def begin(self) -> None:
        """Tell the service that the leg begins, or that it claims nothing; do not wait."""
        if self.client is not None and self.client.asks:
            self.client.begin()
        elif self.client is not None:
            self.client.go_alone()

    def ask(self, claim: Claim) -> None:
        if self.client is not None:
            self.client.ask(claim)

    def poll(self, now_s: float) -> None:
        """Take in the answers of the service, or a timeout; never wait."""
        if self.client is None:
            return
        answer = self.client.poll()
        if answer is not None:
            self._take_in(answer, self.client, now_s)
        greeting = self.client.poll_greeting()
        if greeting is not None:
            self._claim_held(greeting, now_s)

    def _take_in(self, answer: ClaimAnswer, client: ClaimClient, now_s: float) -> None:
        for block, shard in answer.taken.items():
            if block in self.state.claims.held:
                units = len(self.state.claims.held[block])
                self.observed(EventLine("taken", now_s, block=block, shard=shard))
                self.console.print_line(describe_taken(block, shard, units))
        self._claim_held(answer, now_s)
        if answer.block is not None:
            self._claim(answer.block, now_s)
            client.confirm(answer.block)
            return
        reason, detail = answer.problem or "nothing_left", answer.detail
        if answer.problem is not None:
            client.go_alone()
        own_units = sum(map(len, self.state.claims.held.values()))
        self.observed(EventLine("claims_ended", now_s, detail=detail, reason=reason))
        self.console.print_line(describe_claims_end(reason, detail, own_units))

    def _claim_held(self, answer: ClaimAnswer, now_s: float) -> None:
        """Run the blocks that an earlier attempt of this leg claimed: no other leg runs them."""
        for block in answer.held:
            if block not in self.state.claims.claimed:
                self._claim(block, now_s)

    def _claim(self, block: str, now_s: float) -> None:
        claims = self.state.claims
        units = claims.others.get(block) or claims.held.get(block) or claims.moved.get(block) or ()
        self.observed(EventLine("claimed", now_s, block=block))
        is_own = block not in claims.others
        self.console.print_line(describe_claim(block, len(units), is_own=is_own))


def claim_client(
    plan: Plan,
    shard: Shard,
    others: Mapping[str, tuple[PlannedUnit, ...]],
    head: ShardLine,
    environ: Mapping[str, str],
    *,
    is_part: bool,
    origin_s: float,
) -> tuple[ClaimClient | None, tuple[EventLine, ...]]:
    """Return the client for claims; for a leg that claims nothing, also the line with the reason.

    Args:
        others: blocks of other shards that the leg may run.
        is_part: the leg runs a part of its shard, or resumes earlier legs.
    """
    if not (plan.claims and (shard.blocks or others)):
        return None, ()
    client: ClaimClient | None = None
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
