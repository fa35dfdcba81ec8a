"""Whole legs and whole runs: endings, wall, peak, speed, and how many tests changed legs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.run_columns import index_in, leg_from_history
from ciguard.history.query import STEADY_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.compare.run_columns import Floats, Run, RunLeg
    from ciguard.history.file import History
    from ciguard.model import Ending, Shard

# Of the cases of two runs, those that the leg of the same name ran in both: a change adds and
# removes a few tests, while another plan of even two shards leaves half.
MIN_OVERLAP: Final = 0.9
DOUBLE: Final = 2.0  # times the sum of before: no runner is half as fast as another

TrendName = Literal["makespan_s", "sum_s", "peak_bytes"]


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `speed` is how slow this runner was: 1.3 took 30 % longer than usual for the same tests;
    `probe_ratio` is the same of a fixed piece of CPU work, against the baseline's median (the
    base's without a baseline). `predicted_...` are the candidate's plan's.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    budget_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None
    probe_ratio: float | None = None
    predicted_wall_s: float | None = None
    predicted_peak_bytes: int | None = None
    pool: str = ""


@dataclass(frozen=True, slots=True)
class TotalVsBaseline:
    """A measure of a whole run, and the median of `n` baseline runs."""

    name: TrendName
    before: float
    after: float
    n: int

    @property
    def is_doubled(self) -> bool:
        """Say that the sum is at least twice what it was."""
        return self.name == "sum_s" and _is_double(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Totals:
    """Whole runs. The makespan is told only of complete ones; the sum over `common` cases that
    passed in both, as measured."""

    makespan_before_s: float | None = None
    makespan_after_s: float | None = None
    common: int = 0
    sum_before_s: float | None = None
    sum_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None

    @property
    def is_doubled(self) -> bool:
        """Say that the sum is at least twice what it was on the base."""
        before, after = self.sum_before_s, self.sum_after_s
        return before is not None and after is not None and _is_double(before, after)


def _is_double(before_s: float, after_s: float) -> bool:
    return after_s >= max(DOUBLE * before_s, STEADY_S)


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


def resharded_cases(base: Run, candidate: Run) -> tuple[int, int]:
    """How many cases another leg of that name ran before, and how many both runs have in legs."""
    if not base.legs or not candidate.legs:
        return 0, 0
    place = index_in(candidate, base)
    here = np.flatnonzero(place >= 0)
    before, after = (np.array([leg.name for leg in run.legs]) for run in (base, candidate))
    differs = before[base.leg[place[here]]] != after[candidate.leg[here]]
    return int(differs.sum()), len(here)
