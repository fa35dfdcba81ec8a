"""The jobs of two runs beside each other, as GitHub knows them, and what they cost. Pure.

A conclusion is one observation of a job, and so is its wall time: what differs may be chance. Two
runs without records have nothing else to compare.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.run_columns import Run, RunInfo, RunLeg
from ciguard.compare.steps_and_artifacts import (
    NO_ARTIFACTS,
    NO_STEPS,
    compare_artifacts,
    compare_steps,
)
from ciguard.model.jobs import Job, RunArtifact, billed_minutes, price_usd
from ciguard.model.shard_names import ends_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ciguard.compare.steps_and_artifacts import ArtifactChanges, StepChanges
    from ciguard.model import Ending, FailCondition

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
_BY_TESTS: Final = ("newly failing", "fixed")
JobsState = Literal["worse", "mixed", "better", "inconclusive", "same"]
_FAILED: Final = frozenset({"failure", "startup_failure", "timed_out"})
_BAD: Final = _FAILED.union(STOPPED)
# The order in which the changes are listed.
_ORDER: Final[tuple[JobTransition | None, ...]] = (
    *("newly failing", "newly cancelled", "still cancelled", "newly skipped", "removed", "added"),
    *(None, "unblocked", "fixed"),
)


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
    minutes = billed_minutes(chain(*walls.values()) if walls else [leg.wall_s for leg in run.legs])
    if minutes is None:
        return None
    legs = ((walls.get(leg.job or "", [leg.wall_s]), prices.get(leg.pool)) for leg in run.legs)
    return Cost(minutes, price_usd(legs), includes_all_jobs=bool(walls))


@dataclass(frozen=True, slots=True)
class JobsComparison:
    """The jobs of two runs.

    Attributes:
        state: what did not run again, or is not there any more, is no proof: `inconclusive`.
        changes: those that ended otherwise or are still cancelled, the worst first.
        unchanged: those with the same conclusion, the longest first.
        endings: why jobs of the candidate were cancelled, by name, where GitHub says it.
    """

    state: JobsState
    base: RunInfo
    candidate: RunInfo
    changes: tuple[JobChange, ...]
    unchanged: tuple[JobChange, ...]
    endings: Mapping[str, Ending]
    steps: StepChanges = NO_STEPS
    artifacts: ArtifactChanges = NO_ARTIFACTS

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """The conditions of `--fail-on` that conclusions of jobs can meet, and whether one does.

        A job that is not there any more meets none: who renames a job removes one and adds one.
        """
        new = [one for one in self.changes if one.transition != "still cancelled"]
        return {
            "new-failure": any(_is_worse(one) and one.after != "timed_out" for one in self.changes),
            "timeout": any(one.after == "timed_out" or one.ending == "timeout" for one in new),
            "incomplete": any(one.transition == "newly cancelled" for one in self.changes),
        }

    def is_unjudged(self, fail_on: Collection[str]) -> bool:  # noqa: ARG002
        """Say that no number can be judged of jobs."""
        return True


def run_of_jobs(name: str, run_id: int | None, jobs: Sequence[Job]) -> RunInfo:
    """Describe a run by its jobs.

    Args:
        name: what the run was called by.
        jobs: at least one.
    """
    sha = next((job.head_sha for job in jobs if job.head_sha), None)
    return RunInfo(name, run_id, max(job.run_attempt for job in jobs), sha)


def compare_jobs_only(
    before: Sequence[Job],
    after: Sequence[Job],
    runs: tuple[RunInfo, RunInfo],
    artifacts: tuple[Sequence[RunArtifact] | None, Sequence[RunArtifact] | None] = (None, None),
) -> JobsComparison:
    """Compare each job in the last attempt in which it ran, by name.

    Args:
        before, after: of all attempts, at least one of each run.
        runs: that the jobs are of, in the same order.
        artifacts: of both runs; None where they are not known.
    """
    found = compare_jobs(before, after)
    commits = {run.sha for run in runs if run.sha}
    changes = [one for one in found if one.is_listed]
    same = [one for one in found if not one.is_listed]
    return JobsComparison(
        _state(changes),
        *runs,
        tuple(sorted(changes, key=lambda one: (not _is_worse(one), _ORDER.index(one.transition)))),
        tuple(sorted(same, key=lambda one: -max(one.wall_before_s or 0, one.wall_after_s or 0))),
        {one.name: one.ending for one in found if one.ending is not None},
        compare_steps(before, after, commits),
        compare_artifacts(artifacts[0], artifacts[1], commits),
    )


def _is_worse(change: JobChange) -> bool:
    """Say that it fails and is not known to have failed, or been cancelled, before."""
    return change.after in _FAILED and change.before not in _BAD


def _state(changes: Sequence[JobChange]) -> JobsState:
    worse = any(map(_is_worse, changes))
    better = any(one.before in _BAD and one.after == "success" for one in changes)
    if worse:
        return "mixed" if better else "worse"
    lost = any(
        one.after in STOPPED or one.transition in ("newly skipped", "removed") for one in changes
    )
    if better and not lost:
        return "better"
    return "inconclusive" if changes else "same"
