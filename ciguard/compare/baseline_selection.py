"""Selection of the runs of a history that are the baseline, or that a user names. Pure.

The baseline of a pull request is runs of its base branch, that of any other run is runs like
itself. All are of earlier commits, of the same workflow and of one event. git gives the order of
commits if it has them; otherwise GitHub is asked in one request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ciguard.codec.results.attach import assign_units
from ciguard.compare.run_columns import Run, from_history, index_in
from ciguard.errors import InputError, RemoteError
from ciguard.history.file import VALUES_PER_KEY, History
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.runs import MERGED_GROUP, UNDATED, HistoryRun
from ciguard.model import Record
from ciguard.sources.references import RunId
from ciguard.text import count_of

# Baseline runs are of one event, the first of these, because a nightly run may do other work. A run
# with an unknown event fits each of them.
EVENTS: Final = ("push", MERGED_GROUP, "schedule", "workflow_dispatch", "repository_dispatch")

PULL_REQUEST: Final = ("pull_request", "pull_request_target")
# Source of the order of commits; "runs": the parents that the history's runs recorded.
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
    """A run of the history that is not in the baseline, with the reason."""

    run_id: int
    reason: ExclusionReason


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The known ancestors of a commit.

    Attributes:
        of: the commit, which counts as one of its ancestors.
        ancestors, non_ancestors: commits that are known to be ancestors, or not to be; other
            commits are unknown.
        source: the source of the answer; None if there is no answer.
    """

    of: str | None = None
    ancestors: frozenset[str] = frozenset()
    non_ancestors: frozenset[str] = frozenset()
    source: AncestrySource | None = None

    def is_ancestor(self, sha: str | None) -> bool | None:
        """Return whether a commit is an ancestor; None if that is unknown."""
        if sha is None:
            return None
        return True if sha in self.ancestors else False if sha in self.non_ancestors else None


UNKNOWN: Final = Ancestry()


@dataclass(frozen=True, slots=True)
class Selection:
    """The positions of the baseline's runs in the history, oldest first, and the excluded runs.

    `ordered_by_date`: number of runs that precede the candidate only by their date.
    """

    used: tuple[int, ...] = ()
    excluded: tuple[ExcludedRun, ...] = ()
    lineage: Ancestry = UNKNOWN
    ordered_by_date: int = 0


def _rejection(
    run: HistoryRun, candidate: Run, branch: str | None, lineage: Ancestry
) -> ExclusionReason | None:
    """Return why a run cannot be in the baseline, without regard to its event; None if it can."""
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
    if branch and run.branch and run.branch != branch:
        return "other_branch"
    before = lineage.is_ancestor(run.sha)
    if not before and _is_own(run, candidate, branch):
        return "own_push"
    if candidate.at is not None and UNDATED < candidate.at <= run.at:
        return "not_before"
    return "no_ancestor" if before is False else None


def _is_own(run: HistoryRun, candidate: Run, branch: str | None) -> bool:
    """Return whether a run is a push to the pull request's own branch."""
    if candidate.event not in PULL_REQUEST:
        return False
    same = run.branch is not None and run.branch == candidate.branch
    return (same and branch is None) or (run.sha is not None and run.sha == candidate.head_sha)


def select_baseline(
    history: History, candidate: Run, branch: str | None = None, lineage: Ancestry = UNKNOWN
) -> Selection:
    """Select the last 20 runs of the history that may be baseline runs of the candidate.

    Args:
        branch: branch of the base, if known.
        lineage: the order of commits by git or GitHub.
    """
    lineage = with_parents(lineage, history.runs, base_commit(candidate))
    others = _runs_of_other_tests(history, candidate)
    reasons = [
        "other_tests" if position in others else _rejection(run, candidate, branch, lineage)
        for position, run in enumerate(history.runs)
    ]
    accepted = [run for run, reason in zip(history.runs, reasons, strict=True) if not reason]
    event = _event(candidate, accepted)
    used: list[int] = []
    excluded: list[ExcludedRun] = []
    for position, (run, reason) in enumerate(zip(history.runs, reasons, strict=True)):
        other = not reason and event is not None and run.event not in (None, event)
        if reason or other:
            excluded.append(ExcludedRun(run.run_id, reason or "other_event"))
        else:
            used.append(position)
    excluded.extend(
        ExcludedRun(history.runs[position].run_id, "too_old") for position in used[:-VALUES_PER_KEY]
    )
    used = used[-VALUES_PER_KEY:]
    by_date = sum(lineage.is_ancestor(history.runs[position].sha) is None for position in used)
    return Selection(tuple(used), tuple(excluded), lineage, by_date)


def _runs_of_other_tests(history: History, candidate: Run) -> set[int]:
    """Return the positions of runs without any of the candidate's cases, if it has no run id."""
    if candidate.run_id is not None or not candidate.keys:
        return set()
    shared = index_in(history, candidate) >= 0
    runs = history.values.run
    return {*runs.tolist()} - {*runs[shared[history.values.key]].tolist()}


def _event(candidate: Run, runs: Sequence[HistoryRun]) -> str | None:
    """Return the event whose runs are used; None if no run has an event."""
    events = {run.event for run in runs if run.event is not None}
    first = () if candidate.is_pull_request or candidate.event is None else (candidate.event,)
    by_priority = (*first, *EVENTS, *sorted(events))
    return next((event for event in by_priority if event in events), None)


def base_commit(run: Run) -> str | None:
    """Return the commit whose ancestors are a run's baseline; None if the record does not show it.

    GitHub tests a pull request as the merge of its head into the tip of the base: this tip, the
    other parent, is returned. Otherwise the tested commit is returned; if this is the head, its
    ancestors on the base branch are those of the merge base.
    """
    if run.is_pull_request and run.head_sha in run.parents and len(run.parents) > 1:
        return next((parent for parent in run.parents if parent != run.head_sha), None)
    if run.event in PULL_REQUEST and run.sha != run.head_sha:
        return None  # a merge with unknown parents
    return run.sha


def with_parents(lineage: Ancestry, runs: Iterable[HistoryRun], commit: str | None) -> Ancestry:
    """Add the ancestors that follow from the parents which the history's runs recorded."""
    if commit is None:
        return lineage
    parents: Mapping[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.sha is not None:
            parents[run.sha].update(run.parents)
    known = {commit}
    pending = [commit]
    while pending:
        more = parents.get(pending.pop(), set()) - known
        known |= more
        pending += more
    known |= lineage.ancestors
    source = lineage.source or "runs"
    return Ancestry(commit, frozenset(known), lineage.non_ancestors - known, source)


MAX_COMMITS: Final = 60  # 20 runs are used; git takes 3 ms for a commit


def ancestry_of(
    commit: str | None,
    commits: Sequence[str],
    by_git: Callable[[str, Sequence[str]], Mapping[str, bool]],
    query: Callable[[str, str], frozenset[str]] | None = None,
) -> Ancestry:
    """Find which of `commits` are ancestors of `commit`.

    Args:
        commits: oldest first; only the newest 60 are looked up.
        by_git: returns for each commit that git has whether it is an ancestor.
        query: returns GitHub's list of the commits between an old commit and `commit`.
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


NEWEST: Final = 10  # number of run ids in a fix


def match_in_history(run: Run, history: History) -> Run:
    """Return the run with the facts of the history; unchanged if the history does not have it.

    A run that is given as records and is in the history must not count twice. Runs are equal if
    they have the same run id. A record made by hand has no run id: all wall times of its legs, to
    the microsecond, and all its values must be equal.
    """
    if run.run_id is not None:
        return replace(run, in_history=any(run.run_id == other.run_id for other in history.runs))
    legs = [(leg.shard, leg.job, leg.wall_s) for leg in run.legs]
    for position, other in enumerate(history.runs):
        same_legs = legs == [(leg.shard, leg.job, leg.wall_s) for leg in other.legs]
        if same_legs and run.is_same_as(from_history(history, position)):
            return _with_identity(run, other)
    return run


def _with_identity(run: Run, other: HistoryRun) -> Run:
    facts: dict[str, Any] = {
        name: getattr(other, name) or getattr(run, name)
        for name in ("run_attempt", "sha", "branch", "event", "workflow")
    }
    # The history's time is used, because its other runs were dated in the same way.
    at = other.at if other.at != UNDATED else run.at
    return replace(run, run_id=other.run_id, at=at, in_history=True, **facts)


def find_in_history(
    history: History, reference: RunId, argument: str, where: str, *, strict: bool
) -> Run | None:
    """Return the run as the history has it; None if the history does not have it.

    Args:
        strict: raise an error instead of returning None, as there is no other source.

    Raises:
        InputError: the history has no such run, or not this attempt of it.
    """
    for position, run in enumerate(history.runs):
        if run.run_id != reference.run_id:
            continue
        if reference.run_attempt in (None, run.run_attempt):
            return from_history(history, position, argument)
        if strict:
            what = f"the history has only attempt {run.run_attempt} of this run"
            raise InputError(what, where=where, fix=f"ask for {run.run_id}/{run.run_attempt}")
    if strict:
        raise InputError("no such run in the history", where=where, fix=_list_runs(history))
    return None


def _list_runs(history: History) -> str:
    ids = [str(run.run_id) for run in history.runs]
    return f"its newest runs: {', '.join(ids[-NEWEST:])}" if ids else "it is empty: add a run first"


def newest_run_of_branch(
    history: History, branch: str, head: Run | None, argument: str, where: str
) -> Run:
    """Return the newest run of a branch in the history, before the candidate if this is known.

    Raises:
        InputError: the history has no such run.
    """
    query = BaseQuery(branch, head.workflow if head is not None else None)
    for position in base_runs(history, query):
        run = history.runs[position]
        is_before = head is None or head.at is None or run.at < head.at
        if run.branch == branch and is_before and (head is None or run.run_id != head.run_id):
            return from_history(history, position, argument)
    branches = sorted({run.branch for run in history.runs if run.branch})
    fix = f"it has runs of {', '.join(branches)}" if branches else _list_runs(history)
    raise InputError(f"the history has no earlier run of branch {branch}", where=where, fix=fix)


def join_by_name(
    records: Sequence[Record], other_runs: Iterable[Run], history: History | None
) -> tuple[tuple[Record, ...], str]:
    """Return records of result files with the other side's unit names, and a note on matches."""
    units = {key.unit_key for run in other_runs for key in run.keys}
    units |= {key.unit_key for key in history.keys} if history is not None else set()
    if not units:
        return tuple(records), ""
    joined = assign_units(records, units)
    share = 100 * joined.matched / joined.cases if joined.cases else 100.0
    note = f"{joined.matched:,} of {count_of(joined.cases, 'case')} ({share:.0f} %) matched by name"
    return joined.records, note
