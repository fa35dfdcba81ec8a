"""Which runs a candidate is held against, and their values in tables, a row a case. Pure.

First form of "nearest ancestors with data": a history file knows few parents, so the runs of the
base's branch before the candidate, and the base itself; the result says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.history import KEPT
from ciguard.codec.history_runs import UNDATED
from ciguard.codec.series import in_complete_leg, latest, leg_of
from ciguard.compare.comparison import BaselineFacts, LeftOut, RunName
from ciguard.compare.runs import CODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.codec.history import History
    from ciguard.codec.history_runs import HistoryRun
    from ciguard.compare.runs import Codes, Floats, Run
    from ciguard.model import CaseKey

    Integers = NDArray[np.int64]

_PULL_REQUEST: Final = ("pull_request", "pull_request_target")
_NO_GROUP: Final = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """Positions of the history's runs that are a baseline, oldest first, and the others."""

    used: tuple[int, ...]
    left_out: tuple[LeftOut, ...]


def choose(history: History, candidate: Run, base: Run | None) -> Choice:
    """The last 20 runs of the history that may be a baseline of the candidate."""
    used: list[int] = []
    left_out: list[LeftOut] = []
    for position, run in enumerate(history.runs):
        reason = _objection(run, candidate, base)
        if reason:
            left_out.append(LeftOut(run.run_id, reason))
        else:
            used.append(position)
    old = f"older than the last {KEPT}"
    left_out.extend(LeftOut(history.runs[position].run_id, old) for position in used[:-KEPT])
    return Choice(tuple(used[-KEPT:]), tuple(left_out))


def _objection(run: HistoryRun, candidate: Run, base: Run | None) -> str:
    if run.run_id == candidate.run_id:
        return "it is the candidate itself"
    if run.event in _PULL_REQUEST:
        return "it is a pull request's"
    if run.workflow and candidate.workflow and run.workflow != candidate.workflow:
        return f"of another workflow: {run.workflow}"
    if base is not None and run.branch and base.branch and run.branch != base.branch:
        return f"on another branch: {run.branch}"
    if candidate.at is not None and UNDATED < candidate.at <= run.at:
        return "not before the candidate"
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Baseline values of the candidate's cases, the newest in the last column.

    Attributes:
        wall_s, peak_delta_bytes: (cases, 20), NaN where there are fewer.
        wall_group, peak_group: whose value it is: a position in `run_of_group`; -1 where none.
        run_of_group: a group is a leg of a run; the run's position.
        cut: values that are not here because their leg did not end by itself.
    """

    wall_s: Floats
    peak_delta_bytes: Floats
    wall_group: Integers
    run_of_group: Integers
    cut: int


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Values before they are put in a table: sorted by key, then age; the group of each."""

    key: NDArray[np.int32]
    group: Integers
    wall_s: Floats
    peak_delta_bytes: Floats
    measured_by: Codes
    cut: int = 0


def _usable(outcome: Codes, ending: Codes) -> NDArray[np.bool_]:
    """Only what ran to its good end is a measurement; 0 is not told, by a file of durations."""
    good: NDArray[np.bool_] = (outcome == CODE["outcome"]["passed"]) | (outcome == 0)
    whole: NDArray[np.bool_] = (ending == CODE["ending"]["completed"]) | (ending == 0)
    return good & whole


def usable(run: Run) -> NDArray[np.bool_]:
    """Say of each case of a run whether its numbers can be compared."""
    return _usable(run.outcome, run.ending)


def _of_history(
    history: History, used: Sequence[int], at: Mapping[CaseKey, int], origin: int
) -> _Rows:
    values = history.values
    chosen = np.zeros(len(history.runs), np.bool_)
    chosen[list(used)] = True
    target = np.fromiter((at.get(key, -1) for key in history.keys), np.int32, len(history.keys))
    good = (
        chosen[values.run]
        & (target[values.key] >= 0)
        & _usable(values.outcome, values.ending)
    )  # fmt: skip
    complete = in_complete_leg(history, values)
    keep = np.flatnonzero(good & complete)
    return _Rows(
        key=target[values.key[keep]],
        group=leg_of(history, values)[keep].astype(np.int64) + origin,
        wall_s=values.wall_s[keep],
        peak_delta_bytes=values.peak_delta_bytes[keep],
        measured_by=values.measured_by[keep],
        cut=int((good & ~complete).sum()),
    )


def _of_run(run: Run, at: Mapping[CaseKey, int], origin: int) -> _Rows:
    target = np.fromiter((at.get(key, -1) for key in run.keys), np.int32, len(run.keys))
    complete = np.array([leg.complete for leg in run.legs], np.bool_)
    good = (target >= 0) & usable(run)
    keep = np.flatnonzero(good & complete[run.leg])
    return _Rows(
        key=target[keep],
        group=run.leg[keep].astype(np.int64) + origin,
        wall_s=run.wall_s[keep],
        peak_delta_bytes=run.peak_delta_bytes[keep],
        measured_by=run.measured_by[keep],
        cut=len(np.flatnonzero(good)) - len(keep),
    )


def table_of(
    candidate: Run, history: History | None, used: Sequence[int], bases: Sequence[Run]
) -> Table:
    """Put the values of all baseline runs beside the candidate's cases.

    Args:
        used: positions of the history's runs.
        bases: runs that are not in the history, oldest first; taken as newer than those.

    Returns:
        A row for each of the candidate's keys. Memory only where it was measured in the same way
        as the candidate's. O(values) in numpy, O(keys) in Python.
    """
    at = {key: position for position, key in enumerate(candidate.keys)}
    parts: list[_Rows] = []
    run_of_group: list[int] = []
    if history is not None and used:
        parts.append(_of_history(history, used, at, 0))
        run_of_group = [n for n, run in enumerate(history.runs) for _ in run.legs]
    for number, run in enumerate(bases):
        parts.append(_of_run(run, at, len(run_of_group)))
        known = len(history.runs) if history is not None else 0
        run_of_group += [known + number] * len(run.legs)
    return _filled(_joined(parts), candidate, np.array(run_of_group, np.int64))


def _joined(parts: Sequence[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    columns = ("key", "group", "wall_s", "peak_delta_bytes", "measured_by")
    if not parts:
        return _Rows(
            np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0), np.zeros(0),
            np.zeros(0, np.uint8),
        )  # fmt: skip
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    order = np.argsort(joined["key"], kind="stable")
    return _Rows(
        **{name: column[order] for name, column in joined.items()},
        cut=sum(part.cut for part in parts),
    )


def _filled(rows: _Rows, candidate: Run, run_of_group: Integers) -> Table:
    count = len(candidate.keys)
    timed = np.flatnonzero(rows.wall_s > 0)
    weighed = np.flatnonzero(
        ~np.isnan(rows.peak_delta_bytes) & (rows.measured_by == candidate.measured_by[rows.key])
    )
    group = latest(rows.group[timed], rows.key[timed], count)
    return Table(
        wall_s=latest(rows.wall_s[timed], rows.key[timed], count),
        peak_delta_bytes=latest(rows.peak_delta_bytes[weighed], rows.key[weighed], count),
        wall_group=np.where(np.isnan(group), _NO_GROUP, np.nan_to_num(group)).astype(np.int64),
        run_of_group=run_of_group,
        cut=rows.cut,
    )


def places(run: Run, other: Run) -> Integers:
    """Where each case of a run is in another one; -1 where it is not."""
    at = {key: position for position, key in enumerate(other.keys)}
    return np.fromiter((at.get(key, -1) for key in run.keys), np.int64, len(run.keys))


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Another run's comparable values beside a run's cases; NaN where it has none.

    Memory only where both measured it in the same way.
    """

    wall_s: Floats
    peak_delta_bytes: Floats
    leg: NDArray[np.int32]


def beside(run: Run, other: Run) -> Beside:
    """Put another run's values beside the cases of this one."""
    place = places(run, other)
    there = np.flatnonzero(place >= 0)
    place = place[there]
    good = usable(other)[place]
    alike = good & (other.measured_by[place] == run.measured_by[there])
    wall_s, peaks = np.full(len(run.keys), np.nan), np.full(len(run.keys), np.nan)
    leg = np.zeros(len(run.keys), np.int32)
    wall_s[there] = np.where(good, other.wall_s[place], np.nan)
    peaks[there] = np.where(alike, other.peak_delta_bytes[place], np.nan)
    leg[there] = other.leg[place]
    return Beside(wall_s, peaks, leg)


def name_of(run: Run) -> RunName:
    """The run without its values."""
    return RunName(
        name=run.name,
        run_id=run.run_id,
        run_attempt=run.run_attempt,
        sha=run.sha,
        branch=run.branch,
        at=run.at,
        cases=len(run.keys),
        complete=run.complete,
        in_history=run.in_history,
    )


def facts(history: History | None, choice: Choice, bases: Sequence[Run]) -> BaselineFacts:
    """Say which runs were used, and how they were chosen."""
    names = [
        RunName(
            name=f"run {run.run_id}",
            run_id=run.run_id,
            run_attempt=run.run_attempt,
            sha=run.sha,
            branch=run.branch,
            at=run.at,
            complete=run.complete,
            in_history=True,
        )
        for run in (history.runs[position] for position in choice.used if history is not None)
    ]
    names += [name_of(run) for run in bases]
    how = _how(used=len(choice.used), bases=len(bases), has_history=history is not None)
    return BaselineFacts(tuple(names), choice.left_out, how)


def _how(*, used: int, bases: int, has_history: bool) -> str:
    given = "the base itself" if bases == 1 else "the runs given as the base"
    if used:
        return "the history's runs before the candidate" + f", and {given}" * bool(bases)
    if bases:
        return f"only {given}"
    return "no run of the history can be one" if has_history else "no history, no base"
