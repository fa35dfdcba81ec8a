"""A shard run on paper: which processes the rules start, and which units each of them gets. Pure.

The rules are asked exactly as the supervisor asks them, over estimates and not over records. A leg
that asks for a block gets its own: where no other leg has time, that is what happens.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Callable, Iterator, List, Tuple

from ciguard.model import EventLine
from ciguard.run.policy.actions import Claim, Start, Wait
from ciguard.run.policy.rules import next_action

if TYPE_CHECKING:
    from ciguard.run.policy.state import State


def simulate(state: State, length_s: Callable[[Start], float]) -> Iterator[Tuple[Start, float]]:
    """Start every process that there will be, with its end; O(processes x units).

    Args:
        state: at its beginning; between two processes it is as after the start of the first.
        length_s: what a process takes.
    """
    now_s = 0.0
    ends: List[Tuple[float, int]] = []
    while True:
        action = next_action(state, now_s)
        if isinstance(action, Start):
            state.apply(action)
            end_s = now_s + length_s(action)
            heapq.heappush(ends, (end_s, action.process))
            yield action, end_s
        elif isinstance(action, Claim):
            state.apply(action)
            block = next(iter(state.claims.held), None)
            state.observe(EventLine("claimed" if block else "claims_ended", now_s, block=block))
        elif isinstance(action, Wait) and ends:
            now_s, process = heapq.heappop(ends)
            state.finish_for_simulation(process)
        else:
            return
