"""Whole legs and whole runs: endings, wall, peak, speed, and how many tests changed legs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.run_columns import index_in, leg_from_history
from ciguard.history.query import STEADY_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.run_columns import Floats, Run, RunLeg
    from ciguard.history.file import History
    from ciguard.model import Ending

# Of the cases of two runs, those that the leg of the same name ran in both: a change adds and
# removes a few tests, while another plan of even two shards leaves half.
MIN_OVERLAP: Final = 0.9
DOUBLE: Final = 2.0  # times the sum of before: no runner is half as fast as another

TotalName = Literal["makespan_s", "sum_s", "peak_bytes", "tests_s"]


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `memory_bytes` is that of the runner. `speed` is how slow this runner was: 1.3 took 30 % longer
    than usual for the same tests.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """A measure of a whole run, as measured: slowest leg, sum of the legs, largest peak, tests.

    `before` is the median of `n` complete baseline runs, `after` is None of a run that lacks a leg.
    `tests_s` is of `n` tests that passed in the base and the candidate.
    """

    name: TotalName
    before: float
    after: float | None
    n: int

    @property
    def is_doubled(self) -> bool:
        """Say that it is a sum of times, and at least twice what it was."""
        is_sum = self.name in ("sum_s", "tests_s")
        return is_sum and (self.after or 0.0) >= max(DOUBLE * self.before, STEADY_S)


def leg_changes(base: Run | None, candidate: Run, speed: Floats) -> tuple[LegChange, ...]:
    """The legs of both runs side by side, by name.

    Args:
        speed: of each leg of the candidate; NaN could not be told.
    """
    before = {leg.name: leg for leg in base.legs} if base is not None else {}
    after = {leg.name: leg for leg in candidate.legs}
    speeds = {
        leg.name: None if np.isnan(factor) else factor
        for leg, factor in zip(candidate.legs, speed.tolist(), strict=True)
    }
    return tuple(
        _leg_change(name, before.get(name), after.get(name), speeds.get(name))
        for name in sorted({*before, *after})
    )


def _leg_change(
    name: str, old: RunLeg | None, new: RunLeg | None, speed: float | None
) -> LegChange:
    return LegChange(
        shard=name,
        before=old.ending if old is not None else None,
        after=new.ending if new is not None else None,
        wall_before_s=old.wall_s if old is not None else None,
        wall_after_s=new.wall_s if new is not None else None,
        peak_before_bytes=old.peak_bytes if old is not None else None,
        peak_after_bytes=new.peak_bytes if new is not None else None,
        memory_bytes=new.memory_bytes if new is not None else None,
        speed=speed,
    )


def totals(
    base: Run | None,
    candidate: Run,
    history: History | None,
    used: Sequence[int],
    bases: Sequence[Run],
    *,
    complete: bool,
) -> tuple[Total, ...]:
    """The candidate beside the baseline.

    Only of complete runs: one that lacks a leg is shorter and smaller for nothing. As measured, so
    that a slow runner is in it; the tests' own numbers are judged apart from that.

    Args:
        used: positions of the history's runs.
        bases: runs that are not in the history.
        complete: nothing says that the candidate lacks a leg.
    """
    past = (
        [[leg_from_history(leg) for leg in history.runs[n].legs] for n in used] if history else []
    )
    past += [list(run.legs) for run in bases]
    known = [_measures(legs) for legs in past if legs and all(leg.complete for leg in legs)]
    now = _measures(candidate.legs) if complete and candidate.complete else {}
    names: tuple[TotalName, ...] = ("makespan_s", "sum_s", "peak_bytes")
    values = {name: [one[name] for one in known if one.get(name)] for name in names}
    found = [
        Total(name, float(np.median(before)), now.get(name), len(before))
        for name, before in values.items()
        if before and (now.get(name) or not complete)
    ]
    of_tests = _total_of_tests(base, candidate) if base is not None else None
    return tuple(found if of_tests is None else [*found, of_tests])


def _total_of_tests(base: Run, candidate: Run) -> Total | None:
    before = np.where(usable(candidate), align(candidate, base).wall_s, np.nan)
    after = candidate.wall_s
    both = ~np.isnan(before) & ~np.isnan(after)
    if not both.any():
        return None
    return Total("tests_s", float(before[both].sum()), float(after[both].sum()), int(both.sum()))


def _measures(legs: Sequence[RunLeg]) -> dict[TotalName, float]:
    """What is known of a complete run: times only where each leg has one."""
    found: dict[TotalName, float] = {}
    walls_s = [leg.wall_s for leg in legs if leg.wall_s is not None]
    if walls_s and len(walls_s) == len(legs):
        found = {"makespan_s": max(walls_s), "sum_s": sum(walls_s)}
    peaks = [leg.peak_bytes for leg in legs if leg.peak_bytes is not None]
    return {**found, "peak_bytes": max(peaks)} if peaks else found


def resharded_cases(base: Run, candidate: Run) -> tuple[int, int]:
    """How many cases another leg of that name ran before, and how many both runs have in legs."""
    if not base.legs or not candidate.legs:
        return 0, 0
    place = index_in(candidate, base)
    here = np.flatnonzero(place >= 0)
    before, after = (np.array([leg.name for leg in run.legs]) for run in (base, candidate))
    differs = before[base.leg[place[here]]] != after[candidate.leg[here]]
    return int(differs.sum()), len(here)
