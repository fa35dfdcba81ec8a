"""Which past runs a candidate is held against, and why not the others. Pure.

A proposal is held against runs of its base branch, all else against runs like itself: of commits
that came before, of the same workflow, all of one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.compare.ancestry import (
    PULL_REQUEST,
    SHORT,
    UNKNOWN,
    Ancestry,
    base_commit,
    with_parents,
)
from ciguard.compare.run_info import ExcludedRun
from ciguard.history.file import VALUES_PER_KEY
from ciguard.history.runs import UNDATED
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.run_columns import Run
    from ciguard.history.file import History
    from ciguard.history.runs import HistoryRun

# Of one event only, for a nightly run may be another thing altogether: which, where there are
# several. A run that says no event is like any.
EVENTS: Final = ("push", "schedule", "workflow_dispatch", "repository_dispatch")


@dataclass(frozen=True, slots=True)
class Selection:
    """Positions of the history's runs that are a baseline, oldest first, and the others.

    `by_date`: how many of them were chosen by date, as nobody said whether they came before.
    """

    used: tuple[int, ...] = ()
    excluded: tuple[ExcludedRun, ...] = ()
    lineage: Ancestry = UNKNOWN
    ordered_by_date: int = 0


@dataclass(frozen=True, slots=True)
class _Criteria:
    candidate: Run
    branch: str | None
    lineage: Ancestry

    def rejection(self, run: HistoryRun) -> str:
        """Why a run is no baseline, whatever its event; "" where nothing speaks against it."""
        candidate = self.candidate
        if run.run_id == candidate.run_id:
            return "it is the candidate itself"
        if run.event in PULL_REQUEST:
            return "it is a pull request's"
        if run.event == "merge_group":
            return "it is a merge group's"
        if run.workflow and candidate.workflow and run.workflow != candidate.workflow:
            return f"of another workflow: {run.workflow}"
        if run.repository and candidate.repository and run.repository != candidate.repository:
            return f"of another repository: {run.repository}"
        if self.branch and run.branch and run.branch != self.branch:
            return f"on another branch: {run.branch}"
        before = self.lineage.is_ancestor(run.sha)
        if not before and self._is_own(run):
            return "it is the pull request's own earlier push"
        if candidate.at is not None and UNDATED < candidate.at <= run.at:
            return "not before the candidate"
        if before is False:
            return f"{(run.sha or '')[:SHORT]} is no ancestor of {(self.lineage.of or '')[:SHORT]}"
        return ""

    def _is_own(self, run: HistoryRun) -> bool:
        """A push to the branch of the pull request; of a fork's that may be called as the base."""
        candidate = self.candidate
        if candidate.event not in PULL_REQUEST:
            return False
        same = run.branch is not None and run.branch == candidate.branch
        return (same and self.branch is None) or (
            run.sha is not None and run.sha == candidate.head_sha
        )


def select_baseline(
    history: History,
    candidate: Run,
    branch: str | None = None,
    lineage: Ancestry = UNKNOWN,
) -> Selection:
    """The last 20 runs of the history that may be a baseline of the candidate.

    Args:
        branch: the base's, where it is known.
        lineage: what git or GitHub say of the commits.
    """
    lineage = with_parents(lineage, history.runs, base_commit(candidate))
    criteria = _Criteria(candidate, branch, lineage)
    reasons = [criteria.rejection(run) for run in history.runs]
    event = _event(
        candidate, [run for run, why in zip(history.runs, reasons, strict=True) if not why]
    )
    used: list[int] = []
    left_out: list[ExcludedRun] = []
    for position, (run, reason) in enumerate(zip(history.runs, reasons, strict=True)):
        other = not reason and event is not None and run.event not in (None, event)
        if reason or other:
            left_out.append(ExcludedRun(run.run_id, reason or f"of another event: {run.event}"))
        else:
            used.append(position)
    old = f"older than the last {VALUES_PER_KEY}"
    left_out.extend(
        ExcludedRun(history.runs[position].run_id, old) for position in used[:-VALUES_PER_KEY]
    )
    used = used[-VALUES_PER_KEY:]
    by_date = sum(lineage.is_ancestor(history.runs[position].sha) is None for position in used)
    return Selection(tuple(used), tuple(left_out), lineage, by_date)


def _event(candidate: Run, runs: Sequence[HistoryRun]) -> str | None:
    """The event whose runs are used; None where no run says one."""
    there = {run.event for run in runs if run.event is not None}
    first = () if candidate.is_pull_request or candidate.event is None else (candidate.event,)
    wanted = (*first, *EVENTS, *sorted(there))
    return next((event for event in wanted if event in there), None)


def describe_selection(choice: Selection, bases: int, *, has_history: bool) -> str:
    """The baseline in words, without its number."""
    given = "the base itself" if bases == 1 else "the runs given as the base"
    if not choice.used:
        if bases:
            return f"only {given}"
        return "no run of the history can be one" if has_history else "no history, no base"
    count, of = len(choice.used), (choice.lineage.of or "")[:SHORT]
    if choice.ordered_by_date == 0:
        how = f"ancestors of {of}, by {choice.lineage.source}"
    elif choice.ordered_by_date == count:
        how = "the history's runs before the candidate, by date"
    else:
        known = count - choice.ordered_by_date
        how = (
            f"{count_of(known, 'ancestor')} of {of}, by {choice.lineage.source}; "
            f"{count_of(choice.ordered_by_date, 'run')} before the candidate, by date"
        )
    return how + (f", and {given}" if bases else "")
