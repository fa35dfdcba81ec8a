"""How often a test that goes wrong now went wrong in the baseline's runs. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.enums import EXCUSABLE
from ciguard.compare.transitions import BAD, INTERRUPTED, statuses_of
from ciguard.history.query import bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.test_changes import Transition
    from ciguard.history.file import History

KINDS: Final = (*EXCUSABLE, "flaky")


def with_failure_rates(
    transitions: Sequence[Transition], history: History | None, used: Sequence[int]
) -> tuple[Transition, ...]:
    """The transitions, those to the worse with how often that was so before.

    Args:
        used: positions of the history's runs that are the baseline.
    """
    if history is None or not used or not any(one.kind in KINDS for one in transitions):
        return tuple(transitions)
    wanted = {one.renamed_from or one.key for one in transitions if one.kind in KINDS}
    at = {key: place for place, key in enumerate(history.keys) if key in wanted}
    values, edges = history.values, bounds(history.values.key, len(history.keys))
    chosen = np.zeros(len(history.runs), np.bool_)
    chosen[list(used)] = True

    def with_rate(one: Transition) -> Transition:
        place = at.get(one.renamed_from or one.key)
        if one.kind not in KINDS or place is None:
            return one
        rows = slice(int(edges[place]), int(edges[place + 1]))
        # What was stopped with its leg went neither right nor wrong.
        fates = statuses_of(values.outcome[rows], values.ending[rows])
        there = chosen[values.run[rows]] & (fates != INTERRUPTED)
        bad = np.isin(fates, BAD) & there
        return replace(one, baseline_failures=int(bad.sum()), baseline_runs=int(there.sum()))

    return tuple(map(with_rate, transitions))
