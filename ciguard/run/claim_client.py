"""Asks a service for blocks of units, and never keeps the leg waiting.

Each question has a thread of its own that is left behind after `PATIENCE_S`: timeouts of sockets
end no name lookup, and none adds up over an answer that comes byte by byte. What needs no answer is
sent by one more thread. Standard library only, Python 3.8+ (travels in the leg).
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
PATIENCE_S: Final = 2.0  # for names, connection, TLS and the answer together
RETRY_S: Final = 0.25  # within that, as where the service restarts
REPEAT_S: Final = 3.0  # until it is heard that the leg goes on alone
CONFIRM_TRIES: Final = 5  # if none is heard the block runs twice
MAX_ANSWER_BYTES: Final = 1 << 16
SERVER_ERROR: Final = 500
OK: Final = 200

EndReason = Literal["nothing_left", "no_answer", "refused", "no_token", "not_asked"]


@dataclass(frozen=True, **SLOTS)
class ClaimAnswer:
    """What is to run, and what not; `problem` is why there is no answer, and `detail` more of it.

    Attributes:
        block: to run next; None: there is none, and nothing is to be asked any more.
        taken: own blocks that other legs run, each with its leg.
        held: other legs' blocks that this one claimed before.
    """

    block: Optional[str] = None
    taken: Mapping[str, str] = field(default_factory=dict)
    held: Tuple[str, ...] = ()
    problem: Optional[EndReason] = None
    detail: str = ""


@dataclass(frozen=True, **SLOTS)
class ClaimingLeg:
    """Who asks, and of which blocks and legs the service may speak."""

    address: str  # of the run's attempt at the service
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
    """One leg's conversation with the service; every method returns at once.

    Args:
        origin_s: when the leg began, on the clock that cannot be set back.

    Attributes:
        asks: False for a leg that runs all of its own blocks, and says so.
    """

    def __init__(self, leg: ClaimingLeg, environ: Mapping[str, str], *, origin_s: float) -> None:
        self._leg = leg
        self.asks = True
        self._origin_s = origin_s
        self._token = token_of(environ)
        self._messages: SimpleQueue[Tuple[int, Callable[[float], None]]] = SimpleQueue()
        self._greeting: SimpleQueue[ClaimAnswer] = SimpleQueue()
        self._answer: SimpleQueue[ClaimAnswer] = SimpleQueue()  # a new one for each question
        self._given: Set[str] = set()
        self._until_s: Optional[float] = None  # of the question that is open

    def begin(self) -> None:
        """Say that the leg has begun."""

        def greet(until_s: float) -> None:
            self._greeting.put(self._claim("begins", until_s))

        self._messages.put((1, greet))
        _in_thread(self._deliver)

    def ask(self, claim: Claim) -> None:
        """Ask for a block; `poll` has the answer."""
        more = {"ready_in_s": claim.ready_s, "done_s": claim.done_s}
        if claim.left_s < NO_TIME_S:
            more["left_s"] = max(0.0, claim.left_s)
        self._answer = SimpleQueue()
        self._until_s = until_s = time.monotonic() + PATIENCE_S
        answer, given = self._answer, frozenset(self._given)
        if not _in_thread(lambda: answer.put(self._ask(more, given, until_s))):
            answer.put(ClaimAnswer(problem="no_answer", detail="no thread can be started"))

    def poll(self) -> Optional[ClaimAnswer]:
        """The answer to the question, or that there is none in time; None: not yet."""
        if self._until_s is None:
            return None
        try:
            found = self._answer.get_nowait()
        except Empty:
            if time.monotonic() < self._until_s:
                return None
            found = ClaimAnswer(problem="no_answer", detail="")
        self._until_s = None
        if found.block is not None:
            self._given.add(found.block)
        return found

    def poll_greeting(self) -> Optional[ClaimAnswer]:
        """The answer to `begin`, while no question is open; None: not yet, or given before."""
        if self._until_s is not None:
            return None
        try:
            return self._greeting.get_nowait()
        except Empty:
            return None

    def confirm(self, block: str) -> None:
        """Say that the leg runs a block."""
        self._messages.put((CONFIRM_TRIES, lambda until_s: self._confirm(block, until_s)))

    def go_alone(self) -> None:
        """Say that the leg asks no more and runs all of its own blocks; repeated until heard.

        Before what it has to confirm: until then others may be given its blocks.
        """

        def leave(until_s: float) -> None:
            self._claim("alone", until_s)

        _in_thread(lambda: _repeat(0, leave))

    def _deliver(self) -> None:
        """Send messages in their order, each until it is heard or was tried often enough."""
        while True:
            _repeat(*self._messages.get())

    def _ask(
        self, more: Mapping[str, float], given: AbstractSet[str], until_s: float
    ) -> ClaimAnswer:
        try:
            found = self._claim("asks", until_s, **more)
            while found.block in given:
                # Not confirmed yet, so that the service takes its answer for lost.
                self._confirm(found.block or "", until_s)
                time.sleep(RETRY_S)
                found = self._claim("asks", until_s, **more)
        except _NoAnswer as error:
            return ClaimAnswer(problem=error.problem, detail=error.detail)
        return found

    def _claim(self, state: str, until_s: float, **more: float) -> ClaimAnswer:
        elapsed_s = max(0.0, time.monotonic() - self._origin_s)
        body = {"state": state, "elapsed_s": elapsed_s, **more}
        return self._parse(self._request("POST", "claims", body, until_s))

    def _confirm(self, block: str, until_s: float) -> None:
        self._request("PUT", f"claims/{quote(block, safe='')}", {}, until_s)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any], until_s: float
    ) -> Tuple[int, bytes]:
        """Ask again and again until it is answered or the time is over."""
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
        """An answer that speaks of the plan's blocks and legs only, each as what it can be."""
        status, content = answer
        if status != OK:
            raise _NoAnswer("refused", f"HTTP {status}")
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            raise _NoAnswer("refused", "an answer that is no JSON") from None
        if isinstance(found, dict):
            block: Any = found.get("block")
            taken: Any = found.get("taken")
            held: Any = found.get("held")
            own, others = self._leg.own_blocks, self._leg.others_blocks
            fits = block is None or _all_in([block], own | others)
            if fits and self._is_taken(taken) and _all_in(held, others):
                return ClaimAnswer(block, taken, tuple(held))
        raise _NoAnswer("refused", "an answer with blocks that are not in the plan")

    def _is_taken(self, found: Any) -> bool:
        """Whether it is own blocks by name, each with a leg that may have it."""
        return (
            isinstance(found, dict)
            and _all_in([*found], self._leg.own_blocks)
            and _all_in([*found.values()], self._leg.other_shards)
        )


def _repeat(tries: int, send: Callable[[float], None]) -> None:
    """Send until it is heard; at most so often, where that is not 0."""
    tried = 0
    while not tries or tried < tries:
        if tried:
            time.sleep(REPEAT_S)
        tried += 1
        try:
            send(time.monotonic() + PATIENCE_S)
        except _NoAnswer as error:
            if error.problem != "refused":  # which is an answer
                continue
        break


def token_of(environ: Mapping[str, str]) -> str:
    """The token of the environment; "" for none.

    It is for the blocks of one run, as the tests can read it. A leg asks GitHub for none: tests in
    a job that may ask could pass for it at any service.
    """
    given = environ.get(TOKEN_VARIABLE, "").strip()
    return given if BEARER_TOKEN.fullmatch(given) else ""


def _all_in(names: Any, known: AbstractSet[str]) -> bool:
    return isinstance(names, list) and all(
        isinstance(name, str) and name in known for name in names
    )


def _in_thread(action: Callable[[], None]) -> bool:
    """Start an action that does not keep the leg from ending; False: there are no more threads."""
    try:
        threading.Thread(target=action, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _send(
    method: str, address: str, body: Optional[bytes], token: str, until_s: float
) -> Tuple[int, bytes]:
    """Status and content of an answer.

    Raises:
        _NoAnswer: there is none in time, or it is too large.
    """
    # Only where a plan has blocks: 0.04 s.
    from http.client import HTTPException  # noqa: PLC0415
    from urllib import error, request  # noqa: PLC0415

    class NoRedirect(request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            """Follow none: the token is for this address."""

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
            if answer.length:  # of what it announced
                raise _NoAnswer("no_answer", "an answer that was cut")
            return answer.status, content
    except error.HTTPError as refusal:
        with refusal:
            return refusal.code, b""
    except (OSError, HTTPException, ValueError) as broken:
        # Of the error only its kind: its text may repeat what was sent.
        cause = getattr(broken, "reason", None)
        kind = type(cause if isinstance(cause, Exception) else broken).__name__
        raise _NoAnswer("no_answer", kind) from broken
