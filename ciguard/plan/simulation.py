"""Wall time and peak of a shard, by simulation of the leg's own rules.

The rules of `run/policy/rules.py` run exactly as in the supervisor, over estimates in the place of
records, so a prediction is only wrong where an estimate is. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.model import LegPolicy
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.model import Shard, Suite
    from ciguard.run.policy.actions import Start

# Predicts the time without a stop: whether it exceeds the limit is the question.
_UNSTOPPED = LegPolicy(guard_rail="off", deadline_s=None)


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a shard goes: its end, and the most memory that its processes hold at once.

    `peak_bytes` counts what the policy takes for a unit without memory history.
    """

    wall_s: float
    peak_bytes: int


def simulate_shard(
    shard: Shard,
    suites: Mapping[str, Suite],
    load_s: Callable[[Sequence[int]], float] | None = None,
) -> Simulation:
    """Run the shard on paper: a process takes its suite's start and end and its units' estimates.

    O(processes x units).

    Args:
        load_s: what units of the shard, by position, take in one process together; the sum of
            their estimates where None.
    """
    took_s = load_s or (lambda units: math.fsum(shard.units[unit].wall_s for unit in units))
    state = State(shard, suites, _UNSTOPPED)
    wall_s, peak_bytes = 0.0, 0

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        return suite.setup_s + took_s(start.units) + suite.teardown_s

    for _, end_s in simulate(state, length_s):
        wall_s = max(wall_s, end_s)
        held = sum(one.start.predicted_peak_bytes for one in state.running.values())
        peak_bytes = max(peak_bytes, held)
    return Simulation(wall_s, peak_bytes)
