"""Wall times of tests that passed in both runs, for a picture: the telling ones of many. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.scatter import Pair, Sample
from ciguard.text import case_name

if TYPE_CHECKING:
    from ciguard.compare.run_columns import Run

PER_CRITERION: Final = 400  # the largest, those that moved most, and an even sample of the rest
NAME_WIDTH: Final = 160


def sample_pairs(base: Run | None, candidate: Run) -> Sample:
    """At most three times `PER_CRITERION` tests, in the candidate's order; `of` counts all of
    them.
    """
    if base is None:
        return Sample()
    before, after = align(candidate, base).wall_s, candidate.wall_s
    rows = np.flatnonzero(usable(candidate) & (before > 0) & (after > 0))
    before, after = before[rows], after[rows]
    count = len(rows)
    if count <= 3 * PER_CRITERION:
        chosen = np.arange(count)
    else:
        largest = np.argsort(-np.maximum(before, after), kind="stable")[:PER_CRITERION]
        moved = np.argsort(-np.abs(after - before), kind="stable")[:PER_CRITERION]
        even = np.linspace(0, count - 1, PER_CRITERION).astype(np.int64)
        chosen = np.unique(np.concatenate([largest, moved, even]))
    found = tuple(
        Pair(
            case_name(candidate.keys[int(rows[one])], NAME_WIDTH),
            float(before[one]),
            float(after[one]),
        )
        for one in chosen
    )
    return Sample(found, count)
