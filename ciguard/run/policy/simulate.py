"""Simulation of a shard: the processes that the rules start, and the units of each. Pure.

The same rules decide as in a supervised leg, over estimates instead of a record. A leg that claims
a block gets its own block, as it does when no other leg has time.
"""

from __future__ import annotations

import heapq
import math
from typing import Callable, Final, Iterator, Mapping, Sequence

from ciguard.model import EventLine, LegPolicy, Shard, Suite
from ciguard.run.policy.actions import Claim, Start, Wait
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State

# The simulated leg never stops early: a prediction shows whether it exceeds the limits.
_UNSTOPPED: Final = LegPolicy(guard_rail="off")


def simulate_processes(
    shard: Shard,
    suites: Mapping[str, Suite],
    load_s: Callable[[Sequence[int]], float] | None = None,
) -> Iterator[tuple[Start, float, float]]:
    """Yield each process of a shard with start and end, by the estimated times of suites and units.

    Args:
        load_s: time of units of the shard, by index, together in one process; None for the sum of
            their estimates.
    """

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        walls_s = (shard.units[unit].wall_s for unit in start.units)
        units_s = math.fsum(walls_s) if load_s is None else load_s(start.units)
        return suite.setup_s + units_s + suite.teardown_s

    return simulate(State(shard, suites, _UNSTOPPED), length_s)


def simulate(
    state: State, length_s: Callable[[Start], float]
) -> Iterator[tuple[Start, float, float]]:
    """Yield each process with start and end, in the order of starts; O(processes x units).

    Args:
        state: state before the first process; at each yield, the state after that start.
        length_s: returns the time that a process takes.
    """
    now_s = 0.0
    ends: list[tuple[float, int]] = []
    while True:
        action = next_action(state, now_s)
        if isinstance(action, Start):
            state.apply(action)
            end_s = now_s + length_s(action)
            heapq.heappush(ends, (end_s, action.process))
            yield action, now_s, end_s
        elif isinstance(action, Claim):
            state.apply(action)
            block = next(iter(state.claims.held), None)
            state.observe(EventLine("claimed" if block else "claims_ended", now_s, block=block))
        elif isinstance(action, Wait) and ends:
            now_s, process = heapq.heappop(ends)
            state.finish_for_simulation(process)
        else:
            return
