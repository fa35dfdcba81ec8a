"""The baseline as a matrix: the values of past runs by case of the candidate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.compare.baseline_selection import AncestrySource, ExcludedRun, Selection
from ciguard.compare.run_columns import Codes, Run, RunInfo, index_in, run_info, with_children
from ciguard.compare.statistics import MIN_BASELINE_RUNS
from ciguard.history.file import BOUNDS, CODE, History, Values
from ciguard.history.query import in_complete_leg, leg_positions, newest_values

_NO_GROUP: Final = -1
_NUMBERS: Final = ("wall_s", "peak_delta_bytes", *BOUNDS, "retained_bytes", "gpu_peak_bytes")
# JUnit XML rounds times to 1 ms. A value of 0 was measured, but has no logarithm.
_SHORTEST_S: Final = 0.001


# Respectively: the test did not pass, its leg did not complete, memory is measured otherwise now.
ExcludedValuesReason = Literal["not_passed", "incomplete_leg", "other_method"]


@dataclass(frozen=True, slots=True)
class ExcludedValues:
    """The number of values of baseline runs that are not in the baseline, with the reason."""

    reason: ExcludedValuesReason
    values: int


@dataclass(frozen=True, slots=True)
class BaselineInfo:
    """The runs of the baseline, and the rule of their selection.

    Attributes:
        given_runs: number of `runs` that the user named; the others are in the history.
        ordered_by_date: number of runs of the history that precede the candidate only by their
            date; all others are ancestors of the commit `ancestors_of` (null if unknown).
        ancestry_source: the source of the ancestry.
    """

    runs: tuple[RunInfo, ...]
    excluded_runs: tuple[ExcludedRun, ...]
    given_runs: int = 0
    ordered_by_date: int = 0
    ancestors_of: str | None = None
    ancestry_source: AncestrySource | None = None
    values: int = 0
    excluded_values: tuple[ExcludedValues, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class BaselineMatrix:
    """Baseline values of the candidate's cases, the newest in the last column.

    Attributes:
        wall_s, peak_delta_bytes: (cases, 20), padded with NaN.
        wall_group: group of each wall time, a position in `run_of_group`; -1 without a value. A
            group is a leg of a run.
        run_of_group: position of the run of each group.
        from_incomplete_legs, not_passed: numbers of omitted values, as their leg did not end by
            itself, or their test did not pass.
        other_method: by case, number of omitted memory values, measured in another way.
        other_standing: by case, number of omitted values, as their test had another standing in its
            process: costs that occur once in a process fall to the test that begins it.
        holds_paid_once: cases with fewer than 3 values of their standing. Their baseline also has
            larger values, with costs that occur once in a process, so that only a loss can be
            judged.
        with_children: by case, number of baseline peaks that are samples with child processes.
            Samples may miss a child, so that only a loss of memory can be judged.
        value_counts: by run, number of the candidate's cases with a value.
        peak_bounds: lower and upper bounds of peak deltas that are not known exactly; None if the
            candidate has no such peak.
        retained_bytes, gpu_peak_bytes: as `wall_s`; None if the candidate has none.
        is_used, probe_s: by group, whether it has a value, and the CPU probe of its runner or NaN.
    """

    wall_s: Floats
    peak_delta_bytes: Floats
    wall_group: Integers
    run_of_group: Integers
    value_counts: Integers
    peak_bounds: tuple[Floats, Floats] | None
    retained_bytes: Floats | None
    gpu_peak_bytes: Floats | None
    is_used: Flags
    probe_s: Floats
    from_incomplete_legs: int
    not_passed: int
    other_method: Integers
    other_standing: Integers
    holds_paid_once: Flags
    with_children: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The values in columns, sorted by key, then age, each with its group."""

    key: NDArray[np.int32]
    group: Integers
    measured_by: Codes
    standing: Codes
    numbers: Mapping[str, Floats]
    from_incomplete_legs: int = 0
    not_passed: int = 0


def usable(cases: Run | Values) -> Flags:
    """Select the cases whose numbers can be compared: those that passed and completed.

    Code 0 is unknown, as in a file of durations.
    """
    outcome, ending = cases.outcome, cases.ending
    good: Flags = (outcome == CODE["outcome"]["passed"]) | (outcome == 0)
    completed: Flags = (ending == CODE["ending"]["completed"]) | (ending == 0)
    return good & completed


def standings(run: Run) -> Codes:
    """Return the standing of each case of a run in its process; 0 is unknown."""
    return np.zeros(len(run.keys), np.uint8) if run.standing is None else run.standing


def have_same_standing(one: Codes, other: Codes) -> Flags:
    """Select the pairs whose standing is the same, or not known."""
    return np.asarray((one == other) | (one == 0) | (other == 0))


def _of_history(history: History, used: Sequence[int], candidate: Run) -> _Rows:
    values = history.values
    chosen = np.zeros(len(history.runs), np.bool_)
    chosen[list(used)] = True
    target = index_in(history, candidate).astype(np.int32)
    is_shared = chosen[values.run] & (target[values.key] >= 0)
    good = is_shared & usable(values)
    complete = in_complete_leg(history, values)
    rows = np.flatnonzero(good & complete)
    numbers = {name: getattr(values, name)[rows] for name in _NUMBERS}
    peaks = with_children(numbers["peak_delta_bytes"], numbers["peak_lower_bytes"])
    return _Rows(
        key=target[values.key[rows]],
        group=leg_positions(history, values)[rows].astype(np.int64),
        measured_by=values.measured_by[rows],
        standing=values.standing[rows],
        numbers=numbers | {"peak_delta_bytes": peaks},
        from_incomplete_legs=int((good & ~complete).sum()),
        not_passed=int((is_shared & ~good).sum()),
    )


def _of_run(run: Run, candidate: Run, origin: int) -> _Rows:
    target = index_in(run, candidate).astype(np.int32)
    complete = np.array([leg.complete for leg in run.legs], np.bool_)
    good = (target >= 0) & usable(run)
    rows = np.flatnonzero(good & complete[run.leg])
    return _Rows(
        key=target[rows],
        group=run.leg[rows].astype(np.int64) + origin,
        measured_by=run.measured_by[rows],
        standing=standings(run)[rows],
        numbers={name: run.measured(name)[rows] for name in _NUMBERS},
        from_incomplete_legs=int(good.sum()) - len(rows),
        not_passed=int(((target >= 0) & ~good).sum()),
    )


def baseline_matrix(
    candidate: Run, history: History | None, used: Sequence[int], bases: Sequence[Run]
) -> BaselineMatrix:
    """Return the values of all baseline runs by case of the candidate.

    Args:
        used: positions of the used runs in the history.
        bases: the baseline runs without used runs of the history, oldest first.

    Returns:
        a row for each key of the candidate; memory only if measured in the same way as in the
        candidate. O(values) in numpy, O(keys) in Python.
    """
    parts: list[_Rows] = []
    run_of_group: list[int] = []
    probes: list[float | None] = []
    if history is not None and used:
        parts.append(_of_history(history, used, candidate))
        run_of_group = [n for n, run in enumerate(history.runs) for _ in run.legs]
        probes = [leg.runner.probe_s for run in history.runs for leg in run.legs]
    for number, run in enumerate(bases):
        parts.append(_of_run(run, candidate, len(run_of_group)))
        run_of_group += [number] * len(run.legs)
        probes += [leg.probe_s for leg in run.legs]
    probe_s = np.array(probes, np.float64)
    probe_s[~(probe_s > 0)] = np.nan
    return _to_matrix(_concatenated(parts), candidate, np.array(run_of_group, np.int64), probe_s)


def _concatenated(parts: Sequence[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = dict.fromkeys(_NUMBERS, np.zeros(0))
        codes = np.zeros(0, np.uint8)
        return _Rows(np.zeros(0, np.int32), np.zeros(0, np.int64), codes, codes, nothing)
    order = np.argsort(np.concatenate([part.key for part in parts]), kind="stable")

    def join(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(list(columns))[order]

    return _Rows(
        key=join(part.key for part in parts),
        group=join(part.group for part in parts),
        measured_by=join(part.measured_by for part in parts),
        standing=join(part.standing for part in parts),
        numbers={name: join(part.numbers[name] for part in parts) for name in _NUMBERS},
        from_incomplete_legs=sum(part.from_incomplete_legs for part in parts),
        not_passed=sum(part.not_passed for part in parts),
    )


def _to_matrix(
    rows: _Rows, candidate: Run, run_of_group: Integers, probe_s: Floats
) -> BaselineMatrix:
    count = len(candidate.keys)
    wall_s, peaks = rows.numbers["wall_s"], rows.numbers["peak_delta_bytes"]
    standing = standings(candidate)
    similar = have_same_standing(rows.standing, standing[rows.key])
    few = np.bincount(rows.key[similar], minlength=count) < MIN_BASELINE_RUNS
    few &= standing == CODE["standing"]["later"]
    holds_paid_once = np.bincount(rows.key[~similar & few[rows.key]], minlength=count) > 0
    similar |= few[rows.key]
    timed = np.flatnonzero((wall_s >= 0) & similar)
    has_peak = ~np.isnan(peaks)
    alike = (rows.measured_by == candidate.measured_by[rows.key]) & similar
    weighed = np.flatnonzero(has_peak & alike)
    runs = int(run_of_group.max(initial=-1)) + 1
    given = (wall_s >= 0) | (has_peak & alike)
    group = newest_values(rows.group[timed], rows.key[timed], count)
    return BaselineMatrix(
        wall_s=newest_values(np.maximum(wall_s[timed], _SHORTEST_S), rows.key[timed], count),
        peak_delta_bytes=newest_values(peaks[weighed], rows.key[weighed], count),
        wall_group=np.where(np.isnan(group), _NO_GROUP, np.nan_to_num(group)).astype(np.int64),
        run_of_group=run_of_group,
        peak_bounds=_bounds(rows, candidate, ~has_peak & alike),
        retained_bytes=_optional("retained_bytes", rows, candidate, similar),
        gpu_peak_bytes=_optional("gpu_peak_bytes", rows, candidate, similar),
        is_used=np.bincount(rows.group, minlength=len(run_of_group)) > 0,
        probe_s=probe_s,
        value_counts=np.bincount(run_of_group[rows.group[given]], minlength=runs),
        from_incomplete_legs=rows.from_incomplete_legs,
        not_passed=rows.not_passed,
        other_method=np.bincount(
            rows.key[has_peak & similar & ~alike & (candidate.measured_by[rows.key] > 0)],
            minlength=count,
        ),
        other_standing=np.bincount(rows.key[~similar], minlength=count),
        holds_paid_once=holds_paid_once,
        with_children=np.bincount(
            rows.key[rows.numbers["peak_lower_bytes"] >= peaks], minlength=count
        ),
    )


def _bounds(rows: _Rows, candidate: Run, comparable: Flags) -> tuple[Floats, Floats] | None:
    if not candidate.has_bounds.any():
        return None
    lower, upper = (rows.numbers[name] for name in BOUNDS)
    chosen = np.flatnonzero(comparable & ~(np.isnan(lower) & np.isnan(upper)))
    key, count = rows.key[chosen], len(candidate.keys)
    return newest_values(lower[chosen], key, count), newest_values(upper[chosen], key, count)


def _optional(name: str, rows: _Rows, candidate: Run, comparable: Flags) -> Floats | None:
    if not (np.nan_to_num(candidate.measured(name)) > 0).any():
        return None
    column = rows.numbers[name]
    measured = np.flatnonzero(~np.isnan(column) & comparable)
    return newest_values(column[measured], rows.key[measured], len(candidate.keys))


def align(run: Run, other: Run) -> tuple[dict[str, Floats], NDArray[np.int32]]:
    """Return another run's comparable values by case of this run, otherwise NaN, and their legs.

    Only of the same standing, and memory only if both runs measured it in the same way.
    """
    index = index_in(run, other)
    rows = np.flatnonzero(index >= 0)
    index = index[rows]
    good = usable(other)[index]
    good &= have_same_standing(standings(other)[index], standings(run)[rows])
    alike = good & (other.measured_by[index] == run.measured_by[rows])

    def place(name: str, chosen: Flags) -> Floats:
        column = np.full(len(run.keys), np.nan)
        column[rows] = np.where(chosen, other.measured(name)[index], np.nan)
        return column

    leg = np.zeros(len(run.keys), np.int32)
    leg[rows] = other.leg[index]
    memory = {name: place(name, alike) for name in ("peak_delta_bytes", "gpu_peak_bytes", *BOUNDS)}
    return {"wall_s": place("wall_s", good), **memory}, leg


def baseline_info(
    history: History | None, choice: Selection, bases: Sequence[Run], table: BaselineMatrix
) -> BaselineInfo:
    """Return the used runs and values, the rule of their selection, and the excluded ones."""
    known = history.runs if history is not None else ()
    counts = dict(enumerate(table.value_counts.tolist()))
    runs = {position: known[position] for position in choice.used} | dict(enumerate(bases))
    unused = (
        ExcludedValues("not_passed", table.not_passed),
        ExcludedValues("incomplete_leg", table.from_incomplete_legs),
        ExcludedValues("other_method", int(table.other_method.sum())),
    )
    return BaselineInfo(
        runs=tuple(run_info(run, counts.get(number, 0)) for number, run in runs.items()),
        excluded_runs=choice.excluded,
        given_runs=len(bases),
        ordered_by_date=choice.ordered_by_date,
        ancestors_of=choice.lineage.of,
        ancestry_source=choice.lineage.source,
        values=int(table.value_counts.sum()),
        excluded_values=tuple(excluded for excluded in unused if excluded.values),
    )
