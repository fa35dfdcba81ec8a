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
from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Final, Literal, Mapping
from urllib.parse import quote

from ciguard.model import SLOTS
from ciguard.model.service_address import BEARER_TOKEN
from ciguard.run.policy.actions import NO_TIME_S, Claim

if TYPE_CHECKING:
    from typing import Optional, Set, Tuple


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

    block: Optional[str] = None
    taken: Mapping[str, str] = field(default_factory=dict)
    held: Tuple[str, ...] = ()
    problem: Optional[EndReason] = None
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
        self._messages: SimpleQueue[Tuple[int, Callable[[float], object]]] = SimpleQueue()
        self._greeting: SimpleQueue[ClaimAnswer] = SimpleQueue()
        self._answer: SimpleQueue[ClaimAnswer] = SimpleQueue()  # a new queue for each question
        self._given: Set[str] = set()
        self._until_s: Optional[float] = None  # end of the wait for the open question

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

    def poll(self) -> Optional[ClaimAnswer]:
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

    def poll_greeting(self) -> Optional[ClaimAnswer]:
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
    ) -> Tuple[int, bytes]:
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

    def _parse(self, answer: Tuple[int, bytes]) -> ClaimAnswer:
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
            is_known = block is None or _all_in([block], own | others)
            if is_known and self._is_taken(taken) and _all_in(held, others):
                return ClaimAnswer(block, taken, tuple(held))
        raise _NoAnswer("refused", "an answer with blocks that are not in the plan")

    def _is_taken(self, blocks: Any) -> bool:
        """Return whether the value has own blocks by name, each with another shard."""
        return (
            isinstance(blocks, dict)
            and _all_in([*blocks], self._leg.own_blocks)
            and _all_in([*blocks.values()], self._leg.other_shards)
        )


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


def _send(
    method: str, address: str, body: Optional[bytes], token: str, until_s: float
) -> Tuple[int, bytes]:
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
    headers = {"Accept": "application/json", "User-Agent": "ciguard"}
    if body is not None:
        headers["Content-Type"] = "application/json"
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
