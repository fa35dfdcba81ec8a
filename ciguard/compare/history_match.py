"""Whether the history has a run that was given as records: it must not be counted twice. Pure.

A record made by hand has no run id, and a history keeps neither plan ids nor the start of each
leg. What it keeps of a leg is its wall time to the microsecond, and what was measured in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ciguard.compare.run_columns import from_history
from ciguard.history.runs import UNDATED

if TYPE_CHECKING:
    from ciguard.compare.run_columns import Run
    from ciguard.history.file import History
    from ciguard.history.runs import HistoryRun


def match_in_history(run: Run, history: History) -> Run:
    """The run with all that the history says of it, where it has it; else the run as it is.

    A run id is believed; without one, legs and every value that both have must be the same.
    """
    if run.run_id is not None:
        known = any(run.run_id == other.run_id for other in history.runs)
        return replace(run, in_history=known)
    for position, other in enumerate(history.runs):
        if _same_legs(run, other) and _same_values(run, from_history(history, position)):
            return _with_identity(run, other)
    return run


def _same_legs(run: Run, other: HistoryRun) -> bool:
    """Each leg of the run is there, with the same wall time; some of the other's may be missing."""
    there = {(leg.shard, leg.job): leg.wall_s for leg in other.legs}
    walls = [(leg.wall_s, there.get((leg.shard, leg.job), -1.0)) for leg in run.legs]
    return bool(walls) and all(mine == theirs for mine, theirs in walls)


def _same_values(run: Run, other: Run) -> bool:
    at = {key: position for position, key in enumerate(other.keys)}
    pairs = [(place, at[key]) for place, key in enumerate(run.keys) if key in at]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    mine, theirs = rows[:, 0], rows[:, 1]
    # Without a time two runs may be alike and yet be two.
    measured = bool((~np.isnan(run.wall_s[mine])).any())
    return measured and all(
        np.array_equal(getattr(run, name)[mine], getattr(other, name)[theirs], equal_nan=True)
        for name in ("outcome", "ending", "wall_s", "peak_delta_bytes")
    )


def _with_identity(run: Run, other: HistoryRun) -> Run:
    facts: dict[str, Any] = {
        name: getattr(other, name) or getattr(run, name)
        for name in ("run_attempt", "sha", "branch", "event", "workflow")
    }
    # The history's time: the other runs were dated by the same clock, or the same person.
    at = other.at if other.at != UNDATED else run.at
    return replace(run, run_id=other.run_id, at=at, in_history=True, **facts)
