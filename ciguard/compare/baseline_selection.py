"""Which past runs a candidate is held against, and why not the others. Pure.

A proposal is held against runs of its base branch, all else against runs like itself: of commits
that came before, of the same workflow, all of one event. Which commits came before another is
git's answer where it has the commits, else GitHub's in one call.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.run_columns import Run, index_in
from ciguard.errors import RemoteError
from ciguard.history.file import VALUES_PER_KEY, History
from ciguard.history.runs import UNDATED, HistoryRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


# Of one event only, for a nightly run may be another thing altogether: which, where there are
# several. A run that says no event is like any.
EVENTS: Final = ("push", "schedule", "workflow_dispatch", "repository_dispatch")


PULL_REQUEST: Final = ("pull_request", "pull_request_target")
# Who knows which commits came before: "runs" is the parents that the history's runs recorded.
AncestrySource = Literal["git", "github", "runs"]
ExclusionReason = Literal[
    "candidate",
    "other_tests",
    "pull_request",
    "merge_group",
    "other_workflow",
    "other_repository",
    "other_branch",
    "own_push",
    "not_before",
    "no_ancestor",
    "other_event",
    "too_old",
]


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    """A run of the history that is no baseline, and why."""

    run_id: int
    reason: ExclusionReason


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The order of commits that git, GitHub or a history knows; of all others nothing is known.

    Attributes:
        of: the commit whose ancestors were asked for; it is one of them.
        ancestors: are known to be.
        non_ancestors: are known not to be.
        source: of the answer; None without one.
    """

    of: str | None = None
    ancestors: frozenset[str] = frozenset()
    non_ancestors: frozenset[str] = frozenset()
    source: AncestrySource | None = None

    def is_ancestor(self, sha: str | None) -> bool | None:
        """Say whether a commit came before; None where that is not known."""
        if sha is None:
            return None
        return True if sha in self.ancestors else False if sha in self.non_ancestors else None


UNKNOWN: Final = Ancestry()


@dataclass(frozen=True, slots=True)
class Selection:
    """Positions of the history's runs that are a baseline, oldest first, and the others.

    `ordered_by_date`: how many of them were chosen by date, as no source knows whether they came
    before.
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

    def rejection(self, run: HistoryRun) -> ExclusionReason | None:
        """Return why a run is no baseline, its event aside; None where it may be one."""
        candidate = self.candidate
        if run.run_id == candidate.run_id:
            return "candidate"
        if run.event in PULL_REQUEST:
            return "pull_request"
        if run.event == "merge_group":
            return "merge_group"
        if run.workflow and candidate.workflow and run.workflow != candidate.workflow:
            return "other_workflow"
        if run.repository and candidate.repository and run.repository != candidate.repository:
            return "other_repository"
        if self.branch and run.branch and run.branch != self.branch:
            return "other_branch"
        before = self.lineage.is_ancestor(run.sha)
        if not before and self._is_own(run):
            return "own_push"
        if candidate.at is not None and UNDATED < candidate.at <= run.at:
            return "not_before"
        if before is False:
            return "no_ancestor"
        return None

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
    others = _runs_of_other_tests(history, candidate)
    reasons = [
        "other_tests" if position in others else criteria.rejection(run)
        for position, run in enumerate(history.runs)
    ]
    event = _event(
        candidate, [run for run, why in zip(history.runs, reasons, strict=True) if not why]
    )
    used: list[int] = []
    left_out: list[ExcludedRun] = []
    for position, (run, reason) in enumerate(zip(history.runs, reasons, strict=True)):
        other = not reason and event is not None and run.event not in (None, event)
        if reason or other:
            left_out.append(ExcludedRun(run.run_id, reason or "other_event"))
        else:
            used.append(position)
    left_out.extend(
        ExcludedRun(history.runs[position].run_id, "too_old") for position in used[:-VALUES_PER_KEY]
    )
    used = used[-VALUES_PER_KEY:]
    by_date = sum(lineage.is_ancestor(history.runs[position].sha) is None for position in used)
    return Selection(tuple(used), tuple(left_out), lineage, by_date)


def _runs_of_other_tests(history: History, candidate: Run) -> set[int]:
    """Positions of the runs that have no case of a record made by hand, which names no run."""
    if candidate.run_id is not None or not candidate.keys:
        return set()
    shared = index_in(history, candidate) >= 0
    runs = history.values.run
    return {*runs.tolist()} - {*runs[shared[history.values.key]].tolist()}


def _event(candidate: Run, runs: Sequence[HistoryRun]) -> str | None:
    """The event whose runs are used; None where no run says one."""
    there = {run.event for run in runs if run.event is not None}
    first = () if candidate.is_pull_request or candidate.event is None else (candidate.event,)
    wanted = (*first, *EVENTS, *sorted(there))
    return next((event for event in wanted if event in there), None)


def base_commit(run: Run) -> str | None:
    """The commit whose ancestors are a run's baseline; None where its record does not tell.

    GitHub tests a pull request as the merge of its head into the base's tip: then it is the other
    parent. Where the head itself was checked out, its ancestors on the base branch are those of
    the merge base. Else it is the tested commit.
    """
    if run.is_pull_request and run.head_sha in run.parents and len(run.parents) > 1:
        return next((parent for parent in run.parents if parent != run.head_sha), None)
    if run.event in PULL_REQUEST and run.sha != run.head_sha:
        return None  # some merge of unknown parents
    return run.sha


def with_parents(lineage: Ancestry, runs: Iterable[HistoryRun], commit: str | None) -> Ancestry:
    """Add what the history's own runs say of their parents, as far as that chain is unbroken."""
    if commit is None:
        return lineage
    parents: Mapping[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.sha is not None:
            parents[run.sha].update(run.parents)
    known = {commit}
    left = [commit]
    while left:
        more = parents.get(left.pop(), set()) - known
        known |= more
        left += more
    known |= lineage.ancestors
    source = lineage.source or "runs"
    return Ancestry(commit, frozenset(known), lineage.non_ancestors - known, source)


MAX_COMMITS: Final = 60  # commits: 20 runs are used, and one of git's processes takes 3 ms


def ancestry_of(
    commit: str | None,
    commits: Sequence[str],
    by_git: Callable[[str, Sequence[str]], Mapping[str, bool]],
    query: Callable[[str, str], frozenset[str]] | None = None,
) -> Ancestry:
    """Ask which of `commits` come before `commit`.

    Args:
        commits: oldest first; of very many only the newest are looked at.
        by_git: says of each commit whether it is an ancestor; nothing of those not known.
        query: gives the commits between an old one and `commit`, as GitHub lists them.
    """
    shas = list(dict.fromkeys(commits))[-MAX_COMMITS:]
    if commit is None or not shas:
        return UNKNOWN
    known = by_git(commit, shas)
    if known:
        yes = frozenset(sha for sha, before in known.items() if before)
        return Ancestry(commit, yes, frozenset(known) - yes, "git")
    try:
        listed = query(shas[0], commit) if query is not None else frozenset()
    except RemoteError:
        return UNKNOWN
    return Ancestry(commit, listed & {*shas, commit}, source="github") if listed else UNKNOWN
