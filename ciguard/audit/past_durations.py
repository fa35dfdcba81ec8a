"""What each test takes, by the history. Pure."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import newest_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.history.file import History

DEPTH: Final = 5  # newest values of a case, of which the median counts


def durations_s(history: History, names: Sequence[str]) -> tuple[float | None, ...]:
    """Wall time of each test, seconds; None where the history has none.

    A test of several cases takes their sum; of several suites or variants the longest counts.
    O(values).
    """
    values = history.values
    table = newest_values(values.wall_s, values.key, len(history.keys), DEPTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row without a value
        medians = np.nanmedian(table, axis=1) if len(table) else np.zeros(0)
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for key, median in zip(history.keys, medians.tolist(), strict=True):
        if median == median:  # noqa: PLR0124  # NaN: never measured
            sums[key.unit_key] += median
    longest: dict[str, float] = {}
    for (_, _, unit), wall_s in sums.items():
        longest[unit] = max(wall_s, longest.get(unit, 0.0))
    return tuple(longest.get(name) for name in names)
