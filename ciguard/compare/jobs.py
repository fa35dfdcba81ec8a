"""The jobs of two runs side by side, with GitHub's conclusions and wall times. Pure.

Conclusion and wall time are one observation of a job each: a difference may be chance. Two runs
without records have no other facts to compare.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ciguard.compare.log_comparison import LogComparison
from ciguard.compare.run_columns import Run, RunInfo, RunLeg
from ciguard.compare.steps_and_artifacts import (
    NO_ARTIFACTS,
    NO_STEPS,
    ArtifactChanges,
    StepChanges,
    compare_artifacts,
    compare_steps,
    last_jobs,
    pair_by_name,
    replace_commits,
)
from ciguard.model import Ending, FailCondition
from ciguard.model.jobs import Job, RunArtifact
from ciguard.model.shard_names import ends_with

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
# By conclusion before and after; any other pair is shown without a name.
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
    """A job with its conclusion in both runs.

    Attributes:
        before, after: conclusion, or status of a job that has not ended; None if the run has no
            such job.
        transition: None if the pair of conclusions has no name.
        ending: reason why a job of the candidate was cancelled, if GitHub gives it.
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
        """Return whether the conclusion differs, or the job was cancelled again."""
        return self.before != self.after or self.transition == "still cancelled"


def with_job_endings(run: Run, jobs: Sequence[Job]) -> Run:
    """Return a run of result files with the endings of its jobs, whose names end with the shard."""
    stopped = [job for _, job in last_jobs(jobs) if job.conclusion in STOPPED]

    def with_ending(leg: RunLeg) -> RunLeg:
        own = [job for job in stopped if leg.shard and ends_with(job.name, leg.shard)]
        if len(own) != 1:
            return leg
        ending = own[0].ending or ("timeout" if own[0].conclusion == "timed_out" else "cancelled")
        return replace(leg, job=own[0].name, ending=ending, complete=False)

    return replace(run, legs=tuple(map(with_ending, run.legs)))


def job_changes(
    base: Run | None, candidate: Run, before: Sequence[Job], after: Sequence[Job]
) -> tuple[JobChange, ...]:
    """Return the jobs whose conclusion differs or that are still cancelled, by name.

    A job of tests that is newly failing or fixed is left out: its tests and the ending of its leg
    are compared instead, and another plan may have moved a failing test to another job.

    Args:
        before, after: GitHub's jobs of both runs; the answer is empty if one list is.
    """
    if base is None or not before or not after:
        return ()
    of_tests = {leg.job for run in (base, candidate) for leg in run.legs}
    commits = {run.sha for run in (base, candidate) if run.sha}
    return tuple(
        job
        for job in compare_jobs(before, after, commits)
        if job.is_listed and not (job.transition in _BY_TESTS and job.name in of_tests)
    )


def compare_jobs(
    before: Sequence[Job], after: Sequence[Job], own: Collection[str] = ()
) -> tuple[JobChange, ...]:
    """Compare all jobs of both runs, by name; the arguments are those of `pair_jobs`."""
    changes = (_job_change(*pair) for pair in pair_jobs(before, after, own))
    return tuple(sorted(changes, key=lambda change: change.name))


def pair_jobs(
    before: Sequence[Job], after: Sequence[Job], own: Collection[str] = ()
) -> list[tuple[Job | None, Job | None]]:
    """Pair the jobs of two runs, each in the last attempt in which it ran, by name.

    A name that differs only in commits of the runs, or in full commits, belongs to the only such
    name of the other run, and the job of the base gets it. `own` are commits besides the jobs'.
    """
    commits = {*own, *(job.head_sha for job in (*before, *after) if job.head_sha)}
    olds, news = (last_jobs(jobs) for jobs in (before, after))
    return [
        (replace(old, name=new.name) if old and new else old, new)
        for old, new in pair_by_name(olds, news, commits, replace_commits, only_unique=True)
    ]


def _job_change(old: Job | None, new: Job | None) -> JobChange:
    before, after = (
        (job.conclusion or job.status) if job is not None else None for job in (old, new)
    )
    transition: JobTransition | None = _TRANSITIONS.get((before or "", after or ""))
    if old is None or new is None:
        transition = "added" if old is None else "removed"
    return JobChange(
        name=next(job.name for job in (new, old) if job is not None),
        before=before,
        after=after,
        transition=transition,
        wall_before_s=old.wall_s if old is not None else None,
        wall_after_s=new.wall_s if new is not None else None,
        url=new.url if new is not None else "",
        ending=new.ending if new is not None else None,
    )


@dataclass(frozen=True, slots=True)
class JobsComparison:
    """The comparison of the jobs of two runs.

    Attributes:
        state: `inconclusive` if jobs were cancelled, skipped or removed: they prove nothing.
        changes: jobs whose conclusion differs or that are still cancelled, the worst first.
        unchanged: jobs with the same conclusion, the longest first.
        logs: None if they were not read.
    """

    state: JobsState
    base: RunInfo
    candidate: RunInfo
    changes: tuple[JobChange, ...]
    unchanged: tuple[JobChange, ...]
    steps: StepChanges = NO_STEPS
    artifacts: ArtifactChanges = NO_ARTIFACTS
    logs: LogComparison | None = None

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """By condition of `--fail-on` that jobs and logs can meet, whether a job or log meets it.

        A removed job meets none: renaming a job removes one and adds one.
        """
        new = [job for job in self.changes if job.transition != "still cancelled"]
        of_logs = self.logs.conditions_met if self.logs is not None else {}
        of_jobs: Mapping[FailCondition, bool] = {
            "new-failure": any(_is_worse(job) and job.after != "timed_out" for job in self.changes),
            "timeout": any(job.after == "timed_out" or job.ending == "timeout" for job in new),
            "incomplete": any(job.transition == "newly cancelled" for job in self.changes),
        }
        return {
            word: of_logs.get(word) or of_jobs.get(word, False) for word in {**of_logs, **of_jobs}
        }

    def is_unjudged(self, fail_on: Collection[str]) -> bool:  # noqa: ARG002
        """Return True: no number of jobs is judged."""
        return True


def run_of_jobs(name: str, run_id: int | None, jobs: Sequence[Job]) -> RunInfo:
    """Describe a run by its jobs.

    Args:
        name: the argument that named the run.
        jobs: at least one.
    """
    sha = next((job.head_sha for job in jobs if job.head_sha), None)
    return RunInfo(name, run_id, max(job.run_attempt for job in jobs), sha)


def compare_jobs_only(
    before: Sequence[Job],
    after: Sequence[Job],
    runs: tuple[RunInfo, RunInfo],
    artifacts: tuple[Sequence[RunArtifact] | None, Sequence[RunArtifact] | None] = (None, None),
    logs: LogComparison | None = None,
) -> JobsComparison:
    """Compare each job in the last attempt in which it ran, by name.

    Args:
        before, after: jobs of all attempts of each run, at least one.
        runs: the runs of these jobs, in the same order.
        artifacts: those of both runs; None if they are unknown.
        logs: None if they were not read.
    """
    commits = {run.sha for run in runs if run.sha}
    jobs = compare_jobs(before, after, commits)
    changes = [job for job in jobs if job.is_listed]
    unchanged = [job for job in jobs if not job.is_listed]
    return JobsComparison(
        _with_logs(_state(changes), logs),
        *runs,
        tuple(sorted(changes, key=lambda job: (not _is_worse(job), _ORDER.index(job.transition)))),
        tuple(
            sorted(unchanged, key=lambda job: -max(job.wall_before_s or 0, job.wall_after_s or 0))
        ),
        compare_steps(before, after, commits),
        compare_artifacts(artifacts[0], artifacts[1], commits),
        logs,
    )


def _with_logs(state: JobsState, logs: LogComparison | None) -> JobsState:
    """Return the state of jobs and logs; a cancelled job or a log in part proves no gain."""
    of_logs = "same" if logs is None else "inconclusive" if logs.state == "unknown" else logs.state
    both = {state, of_logs}
    if both & {"worse", "mixed"}:
        return "mixed" if both & {"better", "mixed"} else "worse"
    if logs is not None and logs.candidate.end != "whole" and "better" in both:
        return "inconclusive"
    return of_logs if state == "same" else state


def _is_worse(change: JobChange) -> bool:
    """Return whether a job fails that neither failed nor was cancelled before."""
    return change.after in _FAILED and change.before not in _BAD


def _state(changes: Sequence[JobChange]) -> JobsState:
    worse = any(map(_is_worse, changes))
    better = any(job.before in _BAD and job.after == "success" for job in changes)
    if worse:
        return "mixed" if better else "worse"
    lost = any(
        job.after in STOPPED or job.transition in ("newly skipped", "removed") for job in changes
    )
    if better and not lost:
        return "better"
    return "inconclusive" if changes else "same"
