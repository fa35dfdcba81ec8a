"""The time of a shard besides its tests: start and end of the leg, gaps, shared fixtures. Pure.

A result's `wall_s` contains neither the set-up of shared fixtures nor the gaps between tests
(reports, hooks, garbage collection) nor the work of the leg before its first process and after the
last one. These times are independent of the tests' times. A ratio of a leg's wall time to that of
its tests would therefore scale the start of a short leg with its longest test. All are medians of
legs that ended by themselves; start and end of a process belong to its suite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np

from ciguard.codec.columns import Integers
from ciguard.history.file import History
from ciguard.history.query import DIED, all_legs, group_bounds, in_complete_leg, leg_positions
from ciguard.history.runs import HistoryLeg
from ciguard.plan.inventory import Inventory

WINDOW: Final = 8  # newest legs, whose median is a file's set-up
MAX_LEGS: Final = 40  # newest legs of a pool that count
MIN_LEGS: Final = 3  # fewer have no spread
MAD_RATIO: Final = 1.3075  # scale of Student's t with 3 degrees of freedom / median deviation
DIGITS: Final = 4
GAP_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class LegCost:
    """The time of a pool's leg besides its processes, and its spread.

    `spread_s`: of the time besides tests, with starts and ends of processes.
    """

    start_s: float = 0.0
    end_s: float = 0.0
    spread_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Return the time that each leg takes once."""
        return self.start_s + self.end_s


@dataclass(frozen=True, slots=True)
class Overheads:
    """Times besides the tests' own times.

    Attributes:
        inter_test_s: by suite and pool, from the end of a unit to the start of the next one; the
            pool "" stands for all pools.
        file: by position in the inventory, the index of the unit's file, or -1; empty without any
            measured shared fixture.
        setup_s: by that index, the set-up of the file's shared fixtures in each process.
        legs: by pool; "" stands for pools without a leg.
    """

    inter_test_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: Sequence[int] = ()
    setup_s: Sequence[float] = ()
    legs: Mapping[str, LegCost] = field(default_factory=dict)

    def inter_test_gap_s(self, suite: str, pool: str) -> float:
        """Return the gap after each unit of a suite; 0 if not measured."""
        return self.inter_test_s.get((suite, pool), self.inter_test_s.get((suite, ""), 0.0))

    def leg(self, pool: str) -> LegCost:
        """Return the time of each leg of a pool; that of all pools if it had no leg."""
        return self.legs.get(pool, self.legs.get("", ZERO_COST))


ZERO_COST: Final = LegCost()


def observe_overheads(history: History, inventory: Inventory, unit_of_key: Integers) -> Overheads:
    """Measure the overheads in the history.

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
    history: History, files: Sequence[int], count: int, unit_of_key: Integers
) -> list[float]:
    """Return the median set-up of a file's shared fixtures over the last legs, 0 included.

    Fixtures of a whole session are set up by the first test: most legs have none of them in a given
    file, so that the median excludes them.
    """
    values = history.values
    setup_s = [0.0] * count
    unit = unit_of_key[values.key]
    rows = np.flatnonzero((unit >= 0) & in_complete_leg(history, values) & (values.outcome != DIED))
    measured = rows[~np.isnan(values.setup_s[rows])]
    file_of_row = np.asarray(files, np.int64)[unit[rows]]
    rows, file_of_row = rows[file_of_row >= 0], file_of_row[file_of_row >= 0]
    if not measured.size or not rows.size:
        return setup_s
    leg = leg_positions(history, values)[rows]
    code, inverse = np.unique(file_of_row * (int(leg.max()) + 1) + leg, return_inverse=True)
    totals_s = np.zeros(len(code))
    np.add.at(totals_s, inverse, np.nan_to_num(values.setup_s[rows]))
    file_of_total = (code // (int(leg.max()) + 1)).astype(np.int32)
    edges = group_bounds(file_of_total, count)
    for file in np.unique(file_of_total).tolist():
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
    """Return the spread of legs of the same suites, by the median deviation from their median."""
    totals_by_suites: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    for leg in legs:
        parts_s = [leg.start_s, leg.end_s]
        parts_s += [part for cost in leg.overheads for part in (cost.setup_s, cost.teardown_s)]
        suite_keys = tuple((cost.suite, cost.variant) for cost in leg.overheads)
        totals_by_suites[suite_keys].append(sum(part for part in parts_s if part is not None))
    deviations_s = [
        abs(total_s - median(totals_s))
        for totals_s in totals_by_suites.values()
        if len(totals_s) >= MIN_LEGS
        for total_s in totals_s
    ]
    return round(MAD_RATIO * median(deviations_s), DIGITS) if deviations_s else 0.0
