"""Jobs and legs as a whole: how each ended in both runs, and what they cost. Pure.

GitHub's word counts where it was asked; else a leg's own record, which knows nothing of other jobs
and of what came before or after the leg's own step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.leg_changes import explained_by_resharding, units_by_leg
from ciguard.compare.run_changes import Cost, JobChange
from ciguard.compare.run_columns import CODE
from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.compare.leg_changes import LegKey
    from ciguard.compare.run_changes import JobTransition
    from ciguard.compare.run_columns import Run
    from ciguard.model import Ending
    from ciguard.model.jobs import Job

# From a conclusion to another one; what is not here is told without a word.
_TRANSITIONS: Final[Mapping[tuple[str, str], JobTransition]] = {
    ("cancelled", "success"): "unblocked",
    ("cancelled", "failure"): "unblocked",
    ("success", "cancelled"): "newly cancelled",
    ("failure", "cancelled"): "newly cancelled",
    ("success", "failure"): "newly failing",
    ("failure", "success"): "fixed",
    ("success", "skipped"): "newly skipped",
}
_CONCLUSIONS: Final[Mapping[Ending, str]] = {
    "cancelled": "cancelled",
    "superseded": "cancelled",
    "never_started": "skipped",
}
_UNKNOWN: Final = ("unknown", "lost_runner")  # a record that was cut does not say by whom
_MINUTE_S: Final = 60
_BY_TESTS: Final = frozenset({("success", "failure"), ("failure", "success")})


def last_attempts(jobs: Sequence[Job]) -> dict[str, Job]:
    """Each job in the last attempt in which it ran, by name."""
    return {job.name: job for job in sorted(jobs, key=lambda job: job.run_attempt)}


def job_changes(
    base: Run | None, candidate: Run, before: Sequence[Job], after: Sequence[Job]
) -> tuple[JobChange, ...]:
    """The jobs that ended in another way than on the base, by name.

    That a job is red, or green, by its tests alone is told where it had the same work in both runs.

    Args:
        before, after: of both runs, as GitHub knows them; empty where it was not asked. What only
            one side was asked of is not compared with the other's records.
    """
    if before and after:
        old, new = last_attempts(before), last_attempts(after)
        found = [
            _change(
                name,
                (old[name].conclusion, old[name].wall_s) if name in old else None,
                (new[name].conclusion, new[name].wall_s) if name in new else None,
                new[name].url if name in new else "",
            )
            for name in sorted({*old, *new})
        ]
    elif base is not None:
        sides = _from_records(base), _from_records(candidate)
        found = [
            _change(name, sides[0].get(name), sides[1].get(name))
            for name in sorted(sides[0].keys() & sides[1].keys())
        ]
    else:
        return ()
    changed = tuple(one for one in found if one.before != one.after)
    if base is None or not any((one.before, one.after) in _BY_TESTS for one in changed):
        return changed
    named: LegKey = "job" if before and after else "name"
    works = units_by_leg(base, named), units_by_leg(candidate, named)
    return tuple(
        one
        for one in changed
        if (one.before, one.after) not in _BY_TESTS
        or not explained_by_resharding(one.name, *works, failed_now=one.after == "failure")
    )


def _change(
    name: str,
    before: tuple[str | None, float | None] | None,
    after: tuple[str | None, float | None] | None,
    url: str = "",
) -> JobChange:
    was, walled = before or (None, None)
    is_, walls = after or (None, None)
    word: JobTransition | None = _TRANSITIONS.get((was or "", is_ or ""))
    if before is None or after is None:
        word = "added" if before is None else "removed"
    return JobChange(name, was, is_, word, walled, walls, url)


def _from_records(run: Run) -> dict[str, tuple[str | None, float | None]]:
    """What the legs' own records say; None of one that was cut.

    Nothing of result files: they are of no job, and that a test failed there is said of the test.
    """
    bad_codes = [CODE["outcome"][outcome] for outcome in BAD_OUTCOMES]
    bad = set(run.leg[np.isin(run.outcome, bad_codes)].tolist())
    found: dict[str, tuple[str | None, float | None]] = {}
    for position, leg in enumerate(run.legs):
        conclusion: str | None = "failure"
        if not leg.name and leg.wall_s is None:
            continue
        if leg.ending in _CONCLUSIONS:
            conclusion = _CONCLUSIONS[leg.ending]
        elif leg.ending in _UNKNOWN or (leg.ending == "completed" and not leg.complete):
            continue
        elif leg.ending == "completed" and position not in bad:
            conclusion = "success"
        found[leg.name] = (conclusion, leg.wall_s)
    return found


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
