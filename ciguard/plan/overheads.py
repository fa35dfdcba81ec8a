"""What a shard takes besides its tests: shared fixtures, and the learned overhead ratio. Pure.

A result's `wall_s` leaves out the set-up of fixtures that tests share, and no test knows of what
lies between two tests (reports, hooks, garbage). Both are learned from legs that ended by
themselves, and a shard is planned with them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.series import DIED, bounds, in_complete_leg, leg_of, legs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.codec.history import History
    from ciguard.plan.inventory import Inventory

    Floats = NDArray[np.float64]

DEPTH: Final = 8  # legs that a file's set-up is the median of
LEGS: Final = 40  # newest ones that an overhead ratio is the median of
LEAST_LEGS: Final = 3  # one leg may have been disturbed
LEAST_S: Final = 5.0  # of tests in a leg: below, starting up is most of what is seen
MOST_RATIO: Final = 3.0  # a leg that waits longer for something else tells of that
DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Overheads:
    """What comes on top of the tests' own times.

    Attributes:
        ratio: by suite and pool, a leg's wall time without set-ups / sum of its tests' times; 1
            where nobody knows.
        file: by position in the inventory, the file it is in (an index), or -1; empty where nobody
            has seen a shared fixture.
        setup_s: by that index, what the fixtures that its tests share take in each process.
    """

    ratio: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: Sequence[int] = ()
    setup_s: Sequence[float] = ()


def overheads(history: History, found: Inventory, unit_of_key: NDArray[np.int64]) -> Overheads:
    """Learn them.

    Args:
        unit_of_key: for each key of the history, its position in the inventory, or < 0.
    """
    ratios = _ratios(history)
    if not (history.values.setup_s > 0).any():
        return Overheads(ratios)
    files, count = found.file_places()
    return Overheads(ratios, files, _setups_s(history, files, count, unit_of_key))


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
    leg = leg_of(history, values)[rows]
    code, inverse = np.unique(place * (int(leg.max()) + 1) + leg, return_inverse=True)
    totals_s = np.zeros(len(code))
    np.add.at(totals_s, inverse, np.nan_to_num(values.setup_s[rows]))
    place = (code // (int(leg.max()) + 1)).astype(np.int32)
    edges = bounds(place, count)
    for file in np.unique(place).tolist():
        recent = totals_s[max(edges[file], edges[file + 1] - DEPTH) : edges[file + 1]]
        setup_s[file] = round(float(np.median(recent)), DIGITS)
    return setup_s


def _ratios(history: History) -> dict[tuple[str, str], float]:
    values = history.values
    there = legs(history)
    if not any(one.complete and one.costs for one in there):
        return {}
    leg = leg_of(history, values)
    tests_s = np.bincount(leg, np.nan_to_num(values.wall_s), minlength=len(there))
    setups_s = np.bincount(leg, np.nan_to_num(values.setup_s), minlength=len(there))
    numbers = np.bincount(leg, minlength=len(there))
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for position in range(len(there) - 1, -1, -1):
        one = there[position]
        suites = {cost.suite for cost in one.costs}
        # Older legs have lost values to newer ones: what is left of them is no sum.
        whole = one.units_planned is None or numbers[position] >= one.units_planned
        if not one.complete or one.wall_s is None or len(suites) != 1 or not whole:
            continue
        if tests_s[position] < LEAST_S:
            continue
        beside_s = sum(cost.setup_s or 0.0 for cost in one.costs) + float(setups_s[position])
        alone_s = float(tests_s[position]) / (one.processes or 1)
        ratio = (one.wall_s - beside_s) / alone_s
        found[(suites.pop(), one.runner.pool or "")].append(min(max(ratio, 1.0), MOST_RATIO))
    return {
        way: round(median(ratios[:LEGS]), DIGITS)
        for way, ratios in sorted(found.items())
        if len(ratios) >= LEAST_LEGS
    }
