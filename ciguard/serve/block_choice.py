"""The choice of a block for a leg that asks for one: its own, or one of the leg that ends last.

A leg is one execution of a shard's job, and a block a part of its tests. A leg without own blocks
takes a block of another leg only if it ends the block before, or hardly after, the other leg would
end alone: else the run would not become shorter. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TOLERANCE: Final = 1.1  # the error of a leg's prediction (`benchmarks/plan_risk.py`)


@dataclass(slots=True)
class LegProgress:
    """The progress of a leg during the run. Times are seconds since the run's first leg began.

    Attributes:
        group: legs exchange blocks only within a group.
        own_s: predicted seconds of the tests that it runs before it asks.
        blocks_s: predicted seconds of its blocks that no leg has taken, in its order.
        began_s: start of the leg; None before.
        ready_s: predicted time of its next question; None before the first question.
        ratio: actual seconds a predicted second until now; None before the first question.
    """

    group: str
    own_s: float
    blocks_s: dict[str, float]
    began_s: float | None = None
    ready_s: float | None = None
    ratio: float | None = None

    def ends_s(self, now_s: float, ratio: float) -> float:
        """Return the time at which the leg would end alone."""
        if self.ready_s is not None:
            ready_s = self.ready_s
        else:
            ready_s = (now_s if self.began_s is None else self.began_s) + ratio * self.own_s
        return max(now_s, ready_s) + ratio * sum(self.blocks_s.values())


def choose_block(
    legs: Mapping[str, LegProgress],
    leg: str,
    now_s: float,
    cost_s: float,
    limit_s: float = math.inf,
) -> str | None:
    """Choose a block, the leg's own first, for a leg; None if it could run none in time.

    Args:
        now_s: seconds since the run's first leg began.
        cost_s: overhead of a block, besides its tests.
        limit_s: seconds until the asking leg stops itself.
    """
    asking = legs[leg]
    if asking.blocks_s:
        return next(iter(asking.blocks_s))
    ratio = common_ratio(tuple(legs.values()))
    others = [
        (other.ends_s(now_s, ratio), name)
        for name, other in legs.items()
        if other.blocks_s and other.group == asking.group
    ]
    if not others:
        return None
    ends_s, latest = max(others)
    begin_s = cost_s + max(now_s, now_s if asking.ready_s is None else asking.ready_s)
    left_s = min(TOLERANCE * ends_s, now_s + limit_s) - begin_s
    fitting = [
        (wall_s, block)
        for block, wall_s in legs[latest].blocks_s.items()
        if ratio * wall_s < left_s
    ]
    return max(fitting)[1] if fitting else None


def common_ratio(legs: Sequence[LegProgress]) -> float:
    """Return actual seconds a predicted second: the median of the legs that have asked."""
    ratios = [leg.ratio for leg in legs if leg.ratio is not None]
    return statistics.median(ratios) if ratios else 1.0
