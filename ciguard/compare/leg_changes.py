"""Whole legs and whole runs: endings, wall, peak, speed, and the tests that each leg had. Pure.

Another plan may move a failing test to another shard: then one leg turns red and one green, and
nothing has changed. So a leg that failed by its tests alone is held against one of its name only
where both had the same work.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.run_changes import LegChange, Totals, TotalVsBaseline
from ciguard.compare.run_columns import CODE, index_in, leg_from_history
from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.compare.run_changes import TrendName
    from ciguard.compare.run_columns import Floats, Run, RunLeg
    from ciguard.history.file import History
    from ciguard.model import Shard, UnitKey

    Units = frozenset[UnitKey]

# Of the units of two legs, those that both have: a change adds and removes a few tests, while
# another plan of even two shards leaves half.
MIN_OVERLAP: Final = 0.9
LegKey = Literal["job", "name"]


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
    makespan = _makespan(candidate.legs) if complete and candidate.complete else None
    peak = _peak(candidate.legs) if complete else None
    if base is None:
        return Totals(makespan_after_s=makespan, peak_after_bytes=peak)
    before = np.where(usable(candidate), align(candidate, base).wall_s, np.nan)
    after = candidate.wall_s
    both = ~np.isnan(before) & ~np.isnan(after)
    return Totals(
        makespan_before_s=_makespan(base.legs) if base.complete else None,
        makespan_after_s=makespan,
        common=int(both.sum()),
        sum_before_s=float(before[both].sum()) if both.any() else None,
        sum_after_s=float(after[both].sum()) if both.any() else None,
        peak_before_bytes=_peak(base.legs),
        peak_after_bytes=peak,
    )


def trends(
    candidate: Run,
    history: History | None,
    used: Sequence[int],
    bases: Sequence[Run],
    *,
    complete: bool,
) -> tuple[TotalVsBaseline, ...]:
    """The candidate beside the baseline's median: slowest leg, sum of the legs, largest peak.

    Only of complete runs: one that lacks a leg is shorter and smaller for nothing. As measured, so
    that a slow runner is in it; the tests' own numbers are judged apart from that.

    Args:
        complete: nothing says that the candidate lacks a leg.
    """
    if not (complete and candidate.complete):
        return ()
    past = (
        [[leg_from_history(leg) for leg in history.runs[n].legs] for n in used] if history else []
    )
    past += [list(run.legs) for run in bases]
    known = [_measured(legs) for legs in past if legs and all(leg.complete for leg in legs)]
    found = []
    for name, after in _measured(candidate.legs).items():
        before = [one[name] for one in known if one.get(name)]
        if before and after:
            found.append(TotalVsBaseline(name, float(np.median(before)), after, len(before)))
    return tuple(found)


def _measured(legs: Sequence[RunLeg]) -> dict[TrendName, float]:
    """What is known of a complete run."""
    found: dict[TrendName, float | None] = {
        "makespan_s": _makespan(legs),
        "sum_s": sum(_walls_s(legs)),
        "peak_bytes": _peak(legs),
    }
    return {name: value for name, value in found.items() if value is not None}


def _walls_s(legs: Sequence[RunLeg]) -> list[float]:
    """Of all legs; nothing where one is not known."""
    walls_s = [leg.wall_s for leg in legs if leg.wall_s is not None]
    return walls_s if len(walls_s) == len(legs) else []


def _makespan(legs: Sequence[RunLeg]) -> float | None:
    return max(_walls_s(legs), default=None)


def _peak(legs: Sequence[RunLeg]) -> int | None:
    return max((leg.peak_bytes for leg in legs if leg.peak_bytes is not None), default=None)


@dataclass(frozen=True, slots=True)
class LegUnits:
    """The units of all legs of a name, those that went wrong, and whether the legs ended by
    themselves."""

    units: Units
    bad: Units
    ended: bool


def units_by_leg(run: Run, key: LegKey) -> dict[str, LegUnits]:
    """What the legs did, by the name of their job, or their own; without a name by ""."""
    is_bad = np.isin(run.outcome, [CODE["outcome"][outcome] for outcome in BAD_OUTCOMES])
    units, bad = _units_of(run, np.ones(len(run.keys), np.bool_)), _units_of(run, is_bad)
    legs: dict[str, list[int]] = defaultdict(list)
    for position, leg in enumerate(run.legs):
        legs[(leg.job if key == "job" else leg.name) or ""].append(position)
    return {
        name: LegUnits(
            _union(units.get(at, frozenset()) for at in places),
            _union(bad.get(at, frozenset()) for at in places),
            all(run.legs[at].ending == "completed" for at in places),
        )
        for name, places in legs.items()
    }


def _units_of(run: Run, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> dict[int, Units]:
    """The units of some cases, by the position of their leg."""
    found: dict[int, set[UnitKey]] = defaultdict(set)
    for at in np.flatnonzero(which).tolist():
        found[int(run.leg[at])].add(run.keys[at].unit_key)
    return {leg: frozenset(units) for leg, units in found.items()}


def _union(parts: Iterable[Units]) -> Units:
    return frozenset(chain.from_iterable(parts))


def resharded_cases(base: Run, candidate: Run) -> tuple[int, int]:
    """How many cases another leg of that name ran before, and how many both runs have in legs."""
    if not base.legs or not candidate.legs:
        return 0, 0
    place = index_in(candidate, base)
    here = np.flatnonzero(place >= 0)
    before, after = (np.array([leg.name for leg in run.legs]) for run in (base, candidate))
    differs = before[base.leg[place[here]]] != after[candidate.leg[here]]
    return int(differs.sum()), len(here)


def explained_by_resharding(
    name: str, before: Mapping[str, LegUnits], after: Mapping[str, LegUnits], *, failed_now: bool
) -> bool:
    """Say that a job failed in one run only by tests that the other run gave to another job.

    Args:
        before, after: all work of both runs; of a job that is no leg nothing is known.
        failed_now: it did so in the second one.
    """
    old, new = before.get(name), after.get(name)
    if old is None or new is None:
        return False
    failed, other_legs = (new, before) if failed_now else (old, after)
    if not failed.bad or not failed.ended:
        return False  # it failed by more than its tests
    if len(old.units & new.units) < MIN_OVERLAP * len(old.units | new.units):
        return True
    return failed.bad <= _union(work.units for other, work in other_legs.items() if other != name)
