"""Which block a leg gets that asks for one: its own, or one of the leg that would end last. Pure.

A leg that has ended its own blocks takes another's only where it will end it before, or hardly
after, that leg would end by itself: else it would help nobody and could only make the run longer.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What a leg is predicted to take is off by about so much (`benchmarks/plan_risk.py`).
TOLERANCE: Final = 1.1


@dataclass(slots=True)
class LegProgress:
    """What is known of a leg while the run goes on.

    Attributes:
        group: legs exchange blocks with those of the same group only.
        own_s: prediction for what it runs before it asks.
        blocks_s: predicted seconds of its blocks that nobody took, in the order of its own.
        began_s: when it began; None where it has not.
        ready_s: when it will ask again, as predicted; None where it has not asked yet.
        ratio: real seconds a predicted one, as far as it is; None where it has not asked yet.
    """

    group: str
    own_s: float
    blocks_s: dict[str, float]
    began_s: float | None = None
    ready_s: float | None = None
    ratio: float | None = None

    def ends_s(self, now_s: float, ratio: float) -> float:
        """When it would end without help."""
        if self.ready_s is not None:
            ready_s = self.ready_s
        else:
            ready_s = (now_s if self.began_s is None else self.began_s) + ratio * self.own_s
        return max(now_s, ready_s) + ratio * sum(self.blocks_s.values())


@dataclass(frozen=True, slots=True)
class Choice:
    """A block, and the leg whose it is."""

    leg: str
    block: str


def choose_block(
    legs: Mapping[str, LegProgress],
    leg: str,
    now_s: float,
    cost_s: float,
    limit_s: float = math.inf,
) -> Choice | None:
    """The block that a leg gets; None: there is nothing that it could do in time.

    Args:
        now_s: since the run's first leg began.
        cost_s: what a block costs besides its units.
        limit_s: after so long the asking leg stops itself.
    """
    asking = legs[leg]
    if asking.blocks_s:
        return Choice(leg, next(iter(asking.blocks_s)))
    ratio = common_ratio(tuple(legs.values()))
    others = [
        (one.ends_s(now_s, ratio), name)
        for name, one in legs.items()
        if one.blocks_s and one.group == asking.group
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
    return Choice(latest, max(fitting)[1]) if fitting else None


def common_ratio(legs: Sequence[LegProgress]) -> float:
    """Real seconds a predicted one: the median of the legs that have asked."""
    ratios = [one.ratio for one in legs if one.ratio is not None]
    return statistics.median(ratios) if ratios else 1.0
