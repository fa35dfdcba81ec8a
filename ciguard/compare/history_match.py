"""The lookup of runs in a history: by reference, by branch, or by the records of the run. Pure.

A run that is given as records and is in the history must not count twice. A record made by hand has
no run id, and a history has neither plan ids nor the start of each leg: then all legs with their
wall times to the microsecond, and all values must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec.results.attach import assign_units
from ciguard.compare.run_columns import Run, from_history
from ciguard.errors import InputError
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.runs import UNDATED, HistoryRun
from ciguard.text import count_of

if TYPE_CHECKING:
    from ciguard.history.file import History
    from ciguard.model import Record
    from ciguard.sources.references import RunId

NEWEST: Final = 10  # run ids in a fix


def match_in_history(run: Run, history: History) -> Run:
    """Return the run with the facts of the history; unchanged if the history does not have it.

    A run id suffices; without one, all legs and values must be equal.
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
    # The time of the history: its other runs were dated in the same way.
    at = other.at if other.at != UNDATED else run.at
    return replace(run, run_id=other.run_id, at=at, in_history=True, **facts)


def find_in_history(
    history: History, reference: RunId, argument: str, where: str, *, strict: bool
) -> Run | None:
    """Return the run as the history has it; None if the history lacks the run.

    Args:
        strict: raise an error instead, as there is no other source.

    Raises:
        InputError: the history lacks the run, or that attempt of it.
    """
    for position, run in enumerate(history.runs):
        if run.run_id != reference.run_id:
            continue
        if reference.run_attempt in (None, run.run_attempt):
            return from_history(history, position, argument)
        if strict:
            what = f"the history knows attempt {run.run_attempt} of this run only"
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
    """Return the newest run of a branch in the history, before the candidate if that is known.

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
    raise InputError(f"the history has no run of branch {branch} before", where=where, fix=fix)


def join_by_name(
    records: Sequence[Record], other_runs: Iterable[Run], history: History | None
) -> tuple[tuple[Record, ...], str]:
    """Return result files' records with the other side's unit names, and a note on the matches."""
    units = {key.unit_key for run in other_runs for key in run.keys}
    units |= {key.unit_key for key in history.keys} if history is not None else set()
    if not units:
        return tuple(records), ""
    joined = assign_units(records, units)
    share = 100 * joined.matched / joined.cases if joined.cases else 100.0
    note = f"{joined.matched:,} of {count_of(joined.cases, 'case')} ({share:.0f} %) joined by name"
    return joined.records, note
