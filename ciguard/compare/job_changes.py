"""Jobs of two runs as GitHub knows them: conclusions that changed, and what was billed. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.compare.run_columns import Run
    from ciguard.model.jobs import Job

JobTransition = Literal[
    "unblocked", "newly cancelled", "newly failing", "fixed", "newly skipped", "added", "removed"
]
# From a conclusion to another one; a pair that is not here is shown without a name.
_TRANSITIONS: Final[Mapping[tuple[str, str], JobTransition]] = {
    ("cancelled", "success"): "unblocked",
    ("cancelled", "failure"): "unblocked",
    ("success", "cancelled"): "newly cancelled",
    ("failure", "cancelled"): "newly cancelled",
    ("success", "failure"): "newly failing",
    ("failure", "success"): "fixed",
    ("success", "skipped"): "newly skipped",
}
_MINUTE_S: Final = 60
_BY_TESTS: Final = ("newly failing", "fixed")


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job whose conclusion is another than on the base; None where it was not there.

    `transition` is None for a pair of conclusions that has no name of its own.
    """

    name: str
    before: str | None
    after: str | None
    transition: JobTransition | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed minutes of legs, or of all jobs; the price where that of every pool is known."""

    minutes: int
    price_usd: float | None
    includes_all_jobs: bool


def job_changes(
    base: Run, candidate: Run, before: Sequence[Job], after: Sequence[Job]
) -> tuple[JobChange, ...]:
    """The jobs that ended in another way than on the base, by name.

    A job of tests that is newly red or green is not among them: its tests and its leg's ending are
    compared one by one, and another plan may have moved a failing test to another job.

    Args:
        before, after: of both runs, as GitHub knows them; without one of them there is no answer.
    """
    if not before or not after:
        return ()
    old, new = _last_attempts(before), _last_attempts(after)
    changes = [_change(name, old.get(name), new.get(name)) for name in sorted({*old, *new})]
    of_tests = {leg.job for run in (base, candidate) for leg in run.legs}
    return tuple(
        one
        for one in changes
        if one.before != one.after and not (one.transition in _BY_TESTS and one.name in of_tests)
    )


def _last_attempts(jobs: Sequence[Job]) -> dict[str, Job]:
    """Each job in the last attempt in which it ran, by name."""
    return {job.name: job for job in sorted(jobs, key=lambda job: job.run_attempt)}


def _change(name: str, old: Job | None, new: Job | None) -> JobChange:
    before, after = (job.conclusion if job is not None else None for job in (old, new))
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
