"""Simulation of a shard: the processes that the rules start, and the units of each. Pure.

The rules decide exactly as for a supervised leg, over estimates instead of a record. A leg that
claims a block of units gets its own, as it does when no other leg has time.
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
    """Yield the start and end of each process, in order of the starts; O(processes x units).

    Args:
        state: state before the first process; at each yield, the state after that start.
        length_s: returns the time that a process takes.
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
