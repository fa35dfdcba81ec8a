"""Legs, jobs and totals of two runs beside each other. Pure.

Jobs are as GitHub knows them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.run_columns import index_in, leg_from_history
from ciguard.history.query import STEADY_S
from ciguard.model.machine_use import NOT_MEASURED
from ciguard.model.shard_names import ends_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.compare.run_columns import Floats, Run, RunLeg
    from ciguard.history.file import History
    from ciguard.model import Ending
    from ciguard.model.jobs import Job
    from ciguard.model.machine_use import MachineUse

# Of the cases of two runs, those that the leg of the same name ran in both: a change adds and
# removes a few tests, while another plan of even two shards leaves half.
MIN_OVERLAP: Final = 0.9
DOUBLE: Final = 2.0  # times the sum of before: no runner is half as fast as another

TotalName = Literal["makespan_s", "sum_s", "peak_bytes", "tests_s"]
JobTransition = Literal[
    "unblocked",
    "newly cancelled",
    "still cancelled",
    "newly failing",
    "fixed",
    "newly skipped",
    "added",
    "removed",
]
# Conclusions of a job that was stopped: at its time limit or by request.
STOPPED: Final = ("cancelled", "timed_out")
# From a conclusion to another one; a pair that is not here is shown without a name.
_TRANSITIONS: Final[Mapping[tuple[str, str], JobTransition]] = {
    ("cancelled", "success"): "unblocked",
    ("cancelled", "failure"): "unblocked",
    ("success", "cancelled"): "newly cancelled",
    ("failure", "cancelled"): "newly cancelled",
    ("success", "failure"): "newly failing",
    ("failure", "success"): "fixed",
    ("success", "skipped"): "newly skipped",
    **{(before, after): "still cancelled" for before in STOPPED for after in STOPPED},
}
_MINUTE_S: Final = 60
_BY_TESTS: Final = ("newly failing", "fixed")


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `memory_bytes` is that of the runner; the machines are without the units that ran. `speed` is
    how slow this runner was: 1.3 took 30 % longer than usual for the same tests.
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
    machine_before: MachineUse = NOT_MEASURED
    machine_after: MachineUse = NOT_MEASURED


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
        machine_before=old.machine if old is not None else NOT_MEASURED,
        machine_after=new.machine if new is not None else NOT_MEASURED,
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


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job and its conclusion in both runs; None where it was not there.

    A job that has not ended has its status in the place of a conclusion. `transition` is None for a
    pair of conclusions that has no name of its own. `ending` is why a job of the candidate was
    cancelled, where GitHub says it.
    """

    name: str
    before: str | None
    after: str | None
    transition: JobTransition | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""
    ending: Ending | None = None

    @property
    def is_listed(self) -> bool:
        """Say that a job ended in another way, or was cancelled again."""
        return self.before != self.after or self.transition == "still cancelled"


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed time of a run.

    Attributes:
        minutes: sum over the jobs, each rounded up to whole minutes.
        price_usd: price of the legs; None if the price of a pool is not known.
        includes_all_jobs: whether `minutes` counts all jobs of the run; if not, only its legs.
    """

    minutes: int
    price_usd: float | None
    includes_all_jobs: bool


def with_job_endings(run: Run, jobs: Sequence[Job]) -> Run:
    """A run of result files, its legs ended as GitHub says: a file does not tell of its job's end.

    Args:
        jobs: of the run; the one of a leg is named after its shard.
    """
    stopped = [job for job in _last_attempts(jobs).values() if job.conclusion in STOPPED]

    def as_its_job(leg: RunLeg) -> RunLeg:
        own = [job for job in stopped if leg.shard and ends_with(job.name, leg.shard)]
        if len(own) != 1:
            return leg
        ending = own[0].ending or ("timeout" if own[0].conclusion == "timed_out" else "cancelled")
        return replace(leg, job=own[0].name, ending=ending, complete=False)

    return replace(run, legs=tuple(map(as_its_job, run.legs)))


def job_changes(
    base: Run | None, candidate: Run, before: Sequence[Job], after: Sequence[Job]
) -> tuple[JobChange, ...]:
    """The jobs that ended in another way than on the base or are still cancelled, by name.

    A job of tests that is newly red or green is not among them: its tests and its leg's ending are
    compared one by one, and another plan may have moved a failing test to another job.

    Args:
        before, after: of both runs, as GitHub knows them; without one of them there is no answer.
    """
    if base is None or not before or not after:
        return ()
    of_tests = {leg.job for run in (base, candidate) for leg in run.legs}
    return tuple(
        one
        for one in compare_jobs(before, after)
        if one.is_listed and not (one.transition in _BY_TESTS and one.name in of_tests)
    )


def compare_jobs(before: Sequence[Job], after: Sequence[Job]) -> tuple[JobChange, ...]:
    """All jobs of both runs, each in the last attempt in which it ran, by name."""
    old, new = _last_attempts(before), _last_attempts(after)
    return tuple(_job_change(name, old.get(name), new.get(name)) for name in sorted({*old, *new}))


def _last_attempts(jobs: Sequence[Job]) -> dict[str, Job]:
    """Each job in the last attempt in which it ran, by name."""
    return {job.name: job for job in sorted(jobs, key=lambda job: job.run_attempt)}


def _job_change(name: str, old: Job | None, new: Job | None) -> JobChange:
    before, after = (
        (job.conclusion or job.status) if job is not None else None for job in (old, new)
    )
    transition: JobTransition | None = _TRANSITIONS.get((before or "", after or ""))
    if old is None or new is None:
        transition = "added" if old is None else "removed"
    return JobChange(
        name=name,
        before=before,
        after=after,
        transition=transition,
        wall_before_s=old.wall_s if old is not None else None,
        wall_after_s=new.wall_s if new is not None else None,
        url=new.url if new is not None else "",
        ending=new.ending if new is not None else None,
    )


def cost(run: Run | None, jobs: Sequence[Job], prices: Mapping[str, float]) -> Cost | None:
    """Billed minutes of all attempts, each job rounded up, and the price of those of known pools.

    Without GitHub's word only the legs, from their own start on: less than is billed.
    """
    if run is None:
        return None
    # A job that was not run again is listed in the next attempt too, with the same start.
    executions = {(job.name, job.started_at): job for job in jobs if job.conclusion != "skipped"}
    walls: dict[str, list[float | None]] = defaultdict(list)
    for job in executions.values():
        walls[job.name].append(job.wall_s)
    minutes = _minutes(chain(*walls.values()) if walls else [leg.wall_s for leg in run.legs])
    if minutes is None:
        return None
    return Cost(minutes, _price(run, walls, prices), includes_all_jobs=bool(walls))


def _price(
    run: Run, walls: Mapping[str, Sequence[float | None]], prices: Mapping[str, float]
) -> float | None:
    total = 0.0
    for leg in run.legs:
        minutes = _minutes(walls.get(leg.job or "", [leg.wall_s]))
        price = prices.get(leg.pool)
        if minutes is None or price is None:
            return None
        total += minutes * price
    return total if run.legs else None


def _minutes(walls: Iterable[float | None]) -> int | None:
    """What executions of these wall times are billed; None where one is not known, or of none."""
    known = list(walls)
    if not known or None in known:
        return None
    return sum(max(1, math.ceil(wall_s / _MINUTE_S)) for wall_s in known if wall_s is not None)
