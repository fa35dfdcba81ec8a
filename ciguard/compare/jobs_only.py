"""Two runs of which no record exists: their jobs beside each other, as GitHub knows them. Pure.

A conclusion is one observation of a job, and so is its wall time: what differs may be chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.run_changes import STOPPED, compare_jobs
from ciguard.compare.run_columns import RunInfo
from ciguard.compare.steps_and_artifacts import (
    NO_ARTIFACTS,
    NO_STEPS,
    compare_artifacts,
    compare_steps,
)
from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ciguard.compare.run_changes import JobChange, JobTransition
    from ciguard.compare.steps_and_artifacts import ArtifactChanges, StepChanges
    from ciguard.model import Ending
    from ciguard.model.jobs import Job, RunArtifact

JobsState = Literal["worse", "mixed", "better", "inconclusive", "same"]
JobCondition = Literal["new-failure", "timeout", "incomplete"]
# Of `FAIL_CONDITIONS` those that conclusions of jobs can give a reason for.
JOB_CONDITIONS: Final[tuple[JobCondition, ...]] = ("new-failure", "timeout", "incomplete")
_FAILED: Final = frozenset({"failure", "startup_failure", "timed_out"})
_BAD: Final = _FAILED.union(STOPPED)
# The order in which the changes are listed.
_ORDER: Final[tuple[JobTransition | None, ...]] = (
    *("newly failing", "newly cancelled", "still cancelled", "newly skipped", "removed", "added"),
    *(None, "unblocked", "fixed"),
)


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

    def of_transition(self, transition: JobTransition) -> tuple[JobChange, ...]:
        """The changes of one kind."""
        return tuple(one for one in self.changes if one.transition == transition)


def run_of_jobs(name: str, run_id: int | None, jobs: Sequence[Job]) -> RunInfo:
    """What the jobs of a run tell of it.

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


def triggered_by_jobs(
    comparison: JobsComparison, fail_on: Collection[str]
) -> tuple[JobCondition, ...]:
    """What of `fail_on` the jobs give a reason for.

    A job that is not there any more is none: who renames a job removes one and adds one.
    """
    timed_out = any(
        (one.after == "timed_out" or one.ending == "timeout")
        and one.transition != "still cancelled"
        for one in comparison.changes
    )
    failing = [one for one in comparison.changes if _is_worse(one) and one.after != "timed_out"]
    found: dict[JobCondition, bool] = {
        "new-failure": bool(failing),
        "timeout": timed_out,
        "incomplete": bool(comparison.of_transition("newly cancelled")),
    }
    return tuple(one for one in JOB_CONDITIONS if one in fail_on and found[one])


def jobs_exit_code(
    comparison: JobsComparison, fail_on: Collection[str], *, strict: bool = False
) -> ExitCode:
    """As `comparison.exit_code` orders the findings; no number can be judged."""
    found = triggered_by_jobs(comparison, fail_on)
    if "incomplete" in found:
        return ExitCode.INCOMPLETE
    if found:
        return ExitCode.TESTS_FAILED
    return ExitCode.INCONCLUSIVE if strict else ExitCode.OK
