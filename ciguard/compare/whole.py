"""Whole legs and whole runs: endings, wall, peak, speed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ciguard.compare.baseline import beside, usable
from ciguard.compare.wholes import LegChange, Totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.runs import Floats, Run, RunLeg
    from ciguard.model import Shard


def leg_changes(
    base: Run | None,
    candidate: Run,
    speed: Floats,
    shards: Mapping[str, Shard],
    probe_s: float | None = None,
) -> tuple[LegChange, ...]:
    """The legs of both runs side by side, by name.

    Args:
        speed: of each leg of the candidate; NaN could not be told.
        shards: of the candidate's plan, by key, where it is known.
        probe_s: what the probe takes on the baseline's runners; None leaves the base's own.
    """
    before = {leg.name: leg for leg in base.legs} if base is not None else {}
    after = {leg.name: (leg, speed[at]) for at, leg in enumerate(candidate.legs)}
    return tuple(
        _leg_change(name, before.get(name), after.get(name), shards.get(name), probe_s)
        for name in sorted({*before, *after})
    )


def _leg_change(
    name: str,
    old: RunLeg | None,
    new: tuple[RunLeg, float] | None,
    shard: Shard | None,
    probe_s: float | None,
) -> LegChange:
    leg, speed = new if new is not None else (None, float("nan"))
    usual = probe_s or (old.probe_s if old is not None else None)
    probe = leg.probe_s / usual if usual and leg is not None and leg.probe_s else None
    return LegChange(
        shard=name,
        before=old.ending if old is not None else None,
        after=leg.ending if leg is not None else None,
        wall_before_s=old.wall_s if old is not None else None,
        wall_after_s=leg.wall_s if leg is not None else None,
        peak_before_bytes=old.peak_bytes if old is not None else None,
        peak_after_bytes=leg.peak_bytes if leg is not None else None,
        budget_bytes=shard.budget_bytes if shard is not None else None,
        memory_bytes=leg.memory_bytes if leg is not None else None,
        speed=None if np.isnan(speed) else float(speed),
        probe_ratio=probe,
        predicted_wall_s=shard.predicted.wall_s if shard is not None else None,
        predicted_peak_bytes=shard.predicted.peak_bytes if shard is not None else None,
        pool=leg.pool if leg is not None else "",
    )


def totals(base: Run | None, candidate: Run, *, complete: bool) -> Totals:
    """Sums over what both have; a makespan only of a run whose legs all ended by themselves.

    Args:
        complete: nothing says that the candidate lacks a leg.
    """
    makespan = _makespan(candidate) if complete else None
    peak = _peak(candidate) if complete else None
    if base is None:
        return Totals(makespan_after_s=makespan, peak_after_bytes=peak)
    before = np.where(usable(candidate), beside(candidate, base).wall_s, np.nan)
    after = candidate.wall_s
    both = ~np.isnan(before) & ~np.isnan(after)
    return Totals(
        makespan_before_s=_makespan(base),
        makespan_after_s=makespan,
        common=int(both.sum()),
        sum_before_s=float(before[both].sum()) if both.any() else None,
        sum_after_s=float(after[both].sum()) if both.any() else None,
        peak_before_bytes=_peak(base),
        peak_after_bytes=peak,
    )


def _makespan(run: Run) -> float | None:
    walls = [leg.wall_s for leg in run.legs]
    if not run.complete or not walls or None in walls:
        return None
    return max(wall for wall in walls if wall is not None)


def _peak(run: Run) -> int | None:
    return max((leg.peak_bytes for leg in run.legs if leg.peak_bytes is not None), default=None)
