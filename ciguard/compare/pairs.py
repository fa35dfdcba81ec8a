"""Wall times of tests that passed in both runs, for a picture: the telling ones of many. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline import beside, usable
from ciguard.compare.scatter import Pair, Pairs
from ciguard.text import case_name

if TYPE_CHECKING:
    from ciguard.compare.runs import Run

EACH: Final = 400  # the largest, those that moved most, and an even sample of the rest
NAME_WIDTH: Final = 160


def pairs(base: Run | None, candidate: Run) -> Pairs:
    """At most three times `EACH` tests, in the candidate's order; `of` counts all of them."""
    if base is None:
        return Pairs()
    before, after = beside(candidate, base).wall_s, candidate.wall_s
    rows = np.flatnonzero(usable(candidate) & (before > 0) & (after > 0))
    before, after = before[rows], after[rows]
    count = len(rows)
    if count <= 3 * EACH:
        chosen = np.arange(count)
    else:
        largest = np.argsort(-np.maximum(before, after), kind="stable")[:EACH]
        moved = np.argsort(-np.abs(after - before), kind="stable")[:EACH]
        even = np.linspace(0, count - 1, EACH).astype(np.int64)
        chosen = np.unique(np.concatenate([largest, moved, even]))
    found = tuple(
        Pair(
            case_name(candidate.keys[int(rows[one])], NAME_WIDTH),
            float(before[one]),
            float(after[one]),
        )
        for one in chosen
    )
    return Pairs(found, count)
