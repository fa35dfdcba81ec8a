"""What a shard takes besides its tests: its own start and end, gaps, shared fixtures. Pure.

A result's `wall_s` leaves out the set-up of fixtures that tests share, and no test knows of what
lies between two tests (reports, hooks, garbage), nor of what the leg does before its first process
and after the last one. All of it adds up, and none of it grows with the time that tests take: a
ratio of a leg's wall time to its tests' blames a long test for what a short leg's start took. It is
learned from legs that ended by themselves; what a process takes to start and to end is its suite's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import DIED, all_legs, group_bounds, in_complete_leg, leg_positions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.history.file import History
    from ciguard.history.runs import HistoryLeg
    from ciguard.plan.inventory import Inventory

    Floats = NDArray[np.float64]

WINDOW: Final = 8  # legs that a file's set-up is the median of
MAX_LEGS: Final = 40  # newest legs of a pool that are looked at
MIN_LEGS: Final = 3  # fewer have no spread
MAD_RATIO: Final = 1.3075  # scale of Student's t with 3 degrees of freedom / median deviation
DIGITS: Final = 4
GAP_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class LegCost:
    """What a leg of a pool takes besides its processes, and how much legs differ.

    `spread_s` is of all that a leg takes besides its tests, starts and ends of processes too.
    """

    start_s: float = 0.0
    end_s: float = 0.0
    spread_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Paid once a leg."""
        return self.start_s + self.end_s


@dataclass(frozen=True, slots=True)
class Overheads:
    """What comes on top of the tests' own times.

    Attributes:
        inter_test_s: by suite and pool, from the end of a unit to the start of the next one; where
            a pool is "", of all pools.
        file: by position in the inventory, the file it is in (an index), or -1; empty where nobody
            has seen a shared fixture.
        setup_s: by that index, what the fixtures that its tests share take in each process.
        legs: by pool; "" is any that has had no leg.
    """

    inter_test_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: Sequence[int] = ()
    setup_s: Sequence[float] = ()
    legs: Mapping[str, LegCost] = field(default_factory=dict)

    def inter_test_gap_s(self, suite: str, pool: str) -> float:
        """After each unit of a suite; 0 where it was not measured."""
        return self.inter_test_s.get((suite, pool), self.inter_test_s.get((suite, ""), 0.0))

    def leg(self, pool: str) -> LegCost:
        """What each leg of a pool takes; as elsewhere where it has had none."""
        return self.legs.get(pool, self.legs.get("", ZERO_COST))


ZERO_COST: Final = LegCost()


def observe_overheads(
    history: History, inventory: Inventory, unit_of_key: NDArray[np.int64]
) -> Overheads:
    """Learn them.

    Args:
        unit_of_key: for each key of the history, its position in the inventory, or < 0.
    """
    recent = [leg for leg in reversed(all_legs(history)) if leg.complete]
    gaps, costs = _inter_test_gaps(recent), _legs(recent)
    if not (history.values.setup_s > 0).any():
        return Overheads(gaps, legs=costs)
    files, count = inventory.file_indices()
    setups_s = _setups_s(history, files, count, unit_of_key)
    return Overheads(gaps, files, setups_s, costs)


def _setups_s(
    history: History, files: Sequence[int], count: int, unit_of_key: NDArray[np.int64]
) -> list[float]:
    """Median over the last legs of what a file's shared fixtures took there, 0 included.

    The fixtures of a whole session are set up by whatever test comes first: most legs show none of
    them in a given file, and the median leaves them out.
    """
    values = history.values
    setup_s = [0.0] * count
    unit = unit_of_key[values.key]
    rows = np.flatnonzero((unit >= 0) & in_complete_leg(history, values) & (values.outcome != DIED))
    measured = rows[~np.isnan(values.setup_s[rows])]
    place = np.asarray(files, np.int64)[unit[rows]]
    rows, place = rows[place >= 0], place[place >= 0]
    if not measured.size or not rows.size:
        return setup_s
    leg = leg_positions(history, values)[rows]
    code, inverse = np.unique(place * (int(leg.max()) + 1) + leg, return_inverse=True)
    totals_s = np.zeros(len(code))
    np.add.at(totals_s, inverse, np.nan_to_num(values.setup_s[rows]))
    place = (code // (int(leg.max()) + 1)).astype(np.int32)
    edges = group_bounds(place, count)
    for file in np.unique(place).tolist():
        recent = totals_s[max(edges[file], edges[file + 1] - WINDOW) : edges[file + 1]]
        setup_s[file] = round(float(np.median(recent)), DIGITS)
    return setup_s


def _inter_test_gaps(recent: Sequence[HistoryLeg]) -> dict[tuple[str, str], float]:
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for leg in recent:
        for cost in leg.overheads:
            if cost.inter_test_s is not None:
                for pool in {leg.runner.pool, ""}:
                    measured[cost.suite, pool].append(cost.inter_test_s)
    return {
        suite_key: round(median(measured[suite_key][:MAX_LEGS]), GAP_DIGITS)
        for suite_key in sorted(measured)
    }


def _legs(recent: Sequence[HistoryLeg]) -> dict[str, LegCost]:
    by_pool: dict[str, list[HistoryLeg]] = defaultdict(list)
    for leg in recent:
        if leg.start_s is not None:
            for pool in {leg.runner.pool, ""}:
                by_pool[pool].append(leg)
    return {pool: _leg_cost(by_pool[pool][:MAX_LEGS]) for pool in sorted(by_pool)}


def _leg_cost(legs: Sequence[HistoryLeg]) -> LegCost:
    starts_s = [leg.start_s for leg in legs if leg.start_s is not None]
    ends_s = [leg.end_s for leg in legs if leg.end_s is not None]
    return LegCost(
        start_s=round(median(starts_s), DIGITS),
        end_s=round(median(ends_s), DIGITS) if ends_s else 0.0,
        spread_s=_spread_s(legs),
    )


def _spread_s(legs: Sequence[HistoryLeg]) -> float:
    """How far legs of the same suites are from their median, by that deviation's own median."""
    alike: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    for leg in legs:
        overhead_s = [leg.start_s, leg.end_s]
        overhead_s += [part for cost in leg.overheads for part in (cost.setup_s, cost.teardown_s)]
        suite_keys = tuple((cost.suite, cost.variant) for cost in leg.overheads)
        alike[suite_keys].append(sum(part for part in overhead_s if part is not None))
    off_s = [
        abs(one - median(overhead_s))
        for overhead_s in alike.values()
        if len(overhead_s) >= MIN_LEGS
        for one in overhead_s
    ]
    return round(MAD_RATIO * median(off_s), DIGITS) if off_s else 0.0
