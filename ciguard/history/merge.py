"""Merge of two histories: one row for each key and run, and the last 20 rows of a key. Pure.

A key names a case of a suite and variant. Each rule selects by value, not by order: the newest
attempt of a leg, the worst result of a key in a run, the last 20 runs of a key. Therefore adding a
run twice changes nothing, and whole runs give the same bytes in any order.

The values of a key before its last 20 are only counted (`file.OLDER`). From then on the oldest
remaining value is the key's frontier: a value before it was counted already, or comes after 20
newer values. The newer frontier of two histories counts. Each history counts its values before this
frontier, and the larger counts remain. Four rules concern old runs:

- A run that is added after 20 newer runs may not be counted, so that counts are lower bounds.
- If more than `MAX_RUNS` runs have values, the oldest are dropped, with tests that no later run
  has.
- A re-run leg replaces the values of its earlier attempt. If more than 20 newer runs exist, an
  older value that was dropped for them does not return.
- If an old run is added leg by leg, legs without a remaining value are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Integers
from ciguard.errors import InputError
from ciguard.history.file import (
    CODE_NAMES,
    CODES,
    MEASURES,
    OLDER,
    VALUES_PER_KEY,
    History,
    Values,
    is_unmeasured,
    no_values,
    of_columns,
)
from ciguard.history.metric_series import merge_series
from ciguard.history.query import count_values, join_counts
from ciguard.history.runs import UNDATED, HistoryLeg, HistoryRun
from ciguard.model import ENDINGS, OUTCOMES, CaseKey, Result
from ciguard.model.attempts import severity
from ciguard.model.record import largest_by_gpu

# Runs with values are the last 20 of each suite and variant, and those of removed tests. Without
# this limit, ids that change from run to run would keep every run.
MAX_RUNS: Final = 500


# Fields whose largest value counts, of two parts of one attempt of a leg.
_LARGEST_OF_PARTS: Final = (
    *("wall_s", "cpu_s", "peak_bytes", "process_peak_bytes", "used_bytes", "swap_growth_bytes"),
    *("stalled_s", "simulated_peak_bytes", "planned"),
)


def _ranks() -> Integers:
    """Return the severity of a result by outcome and ending; unknown words have the least."""
    results = [Result("", outcome, ending=ending) for outcome in OUTCOMES for ending in ENDINGS]
    table = np.zeros([len(CODE_NAMES[name]) for name in ("outcome", "ending")], np.int64)
    for rank, result in enumerate(sorted(results, key=severity), 1):
        outcome = CODE_NAMES["outcome"].index(result.outcome)
        table[outcome, CODE_NAMES["ending"].index(result.ending)] = rank
    table[:, 0] = table[:, CODE_NAMES["ending"].index("completed")]
    return table


_RANK: Final = _ranks()


def _agreed_value(run: HistoryRun, name: str, a: Any, b: Any) -> Any:
    """Return the known one of two values of a fact; the values must not contradict each other."""
    if a == b or not b:
        return a
    if not a:
        return b
    raise InputError(
        f"{name} is {a!r} and {b!r}",
        where=f"run {run.run_id}",
        fix="each run needs a different run id: set one by --run-id",
    )


def _max_known(a: Any, b: Any) -> Any:
    return max((item for item in (a, b) if item is not None), default=None)


def _merge_legs(a: HistoryLeg, b: HistoryLeg) -> HistoryLeg:
    """Return the leg of the newer attempt; join two parts of one attempt."""
    if a.run_attempt != b.run_attempt:
        return max(a, b, key=lambda leg: leg.run_attempt)
    if a == b:
        return a
    # The part with the end of the leg gives the ending; ties are broken by text.
    base, other = sorted((a, b), key=lambda leg: (not leg.complete, repr(leg)))
    return replace(
        base,
        **{name: _max_known(getattr(a, name), getattr(b, name)) for name in _LARGEST_OF_PARTS},
        gpu_bytes=largest_by_gpu((a.gpu_bytes or {}, b.gpu_bytes or {})) or None,
        overheads=base.overheads or other.overheads,
        lost_units=() if base.complete else tuple(sorted({*a.lost_units, *b.lost_units})),
    )


def merge_run(a: HistoryRun, b: HistoryRun) -> HistoryRun:
    """Merge two entries of one run: the newest attempt of each leg counts.

    Raises:
        InputError: the entries contradict each other.
    """
    legs = {leg.identity: leg for leg in a.legs}
    for leg in b.legs:
        known = legs.get(leg.identity)
        legs[leg.identity] = _merge_legs(known, leg) if known else leg
    dates = [run.at for run in (a, b) if run.at != UNDATED]
    return HistoryRun(
        run_id=a.run_id,
        run_attempt=max(a.run_attempt, b.run_attempt),
        at=min(dates, default=UNDATED),
        legs=tuple(legs[identity] for identity in sorted(legs)),
        coverage=max(a, b, key=lambda run: (run.coverage is not None, run.run_attempt)).coverage,
        **{
            name: _agreed_value(a, name, getattr(a, name), getattr(b, name))
            for name in ("sha", "parents", "branch", "event", "repository", "workflow")
        },
    )


def _all_runs(a: History, b: History) -> tuple[HistoryRun, ...]:
    runs = {run.run_id: run for run in a.runs}
    for run in b.runs:
        known = runs.get(run.run_id)
        runs[run.run_id] = merge_run(known, run) if known else run
    ordered = sorted(runs.values(), key=lambda run: run.order)
    covered = {(run.workflow, run.branch): run.run_id for run in ordered if run.coverage}
    last = set(covered.values())
    return tuple(run if run.run_id in last else replace(run, coverage=None) for run in ordered)


def _all_keys(a: History, b: History) -> tuple[CaseKey, ...]:
    known = set(a.keys)
    more = [key for key in b.keys if key not in known]
    return tuple(sorted([*a.keys, *more])) if more else a.keys


@dataclass(frozen=True, slots=True)
class _Side:
    """One history with merged indices.

    `frontier`: by key, its oldest run; 0 without older values.
    """

    values: Values
    older: Integers
    frontier: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _MergedPositions:
    """The merged runs and keys; the rows of both histories get indices into these."""

    runs: tuple[HistoryRun, ...]
    keys: tuple[CaseKey, ...]

    def remap(self, history: History) -> _Side:
        """Return a history with merged indices, without the rows of superseded attempts."""
        values = history.values
        older = np.zeros((len(OLDER), len(self.keys)), np.int64)
        frontier = np.zeros(len(self.keys), np.int32)
        if not len(values):
            return _Side(no_values(), older, frontier)
        run_at = {run.run_id: position for position, run in enumerate(self.runs)}
        runs = np.array([run_at[run.run_id] for run in history.runs], np.int32)
        widest = max(len(run.legs) for run in history.runs)
        table = np.full((len(history.runs), widest), -1, np.int32)
        for position, run in enumerate(history.runs):
            table[position, : len(run.legs)] = self._legs(run, run_at[run.run_id])
        moved = replace(
            values,
            key=self._key_positions(history)[values.key],
            run=runs[values.run],
            leg=table[values.run, values.leg],
        )
        if history.older is not None:
            starts = np.flatnonzero(np.diff(moved.key, prepend=-1))
            older[:, moved.key[starts]] = history.older
            # Rows of replaced attempts count, because the replacing attempt is not older.
            oldest = np.minimum.reduceat(moved.run, starts)
            frontier[moved.key[starts]] = oldest * (history.older[0] > 0)
        current = moved if (moved.leg >= 0).all() else rows(moved, moved.leg >= 0)
        return _Side(current, older, frontier)

    def _legs(self, run: HistoryRun, position: int) -> list[int]:
        """Return the merged indices of a run's legs; -1 for a leg that a newer attempt replaced."""
        merged = {leg.identity: (index, leg) for index, leg in enumerate(self.runs[position].legs)}
        counterparts = (merged[leg.identity] for leg in run.legs)
        return [
            index if merged_leg.run_attempt == leg.run_attempt else -1
            for (index, merged_leg), leg in zip(counterparts, run.legs, strict=True)
        ]

    def _key_positions(self, history: History) -> NDArray[np.int32]:
        if history.keys is self.keys or history.keys == self.keys:
            return np.arange(len(self.keys), dtype=np.int32)
        position = {key: index for index, key in enumerate(self.keys)}
        return np.fromiter((position[key] for key in history.keys), np.int32, len(history.keys))


def _count_rows(
    values: Values, before: Flags, older: Integers, runs: Sequence[HistoryRun]
) -> tuple[Values, Integers]:
    """Remove the rows of `before`, which precede all others of their keys, and count them."""
    if not before.any():
        return values, older
    counts = count_values(rows(values, before), runs, older.shape[1])
    return rows(values, ~before), join_counts(older, counts, np.add)


def _drop_unused(history: History, older: Integers) -> History:
    """Drop old runs without values, runs beyond `MAX_RUNS`, and keys without values."""
    values, runs, keys = history.values, history.runs, history.keys
    used = np.bincount(values.run, minlength=len(runs)) > 0
    used[-VALUES_PER_KEY:] = True
    positions = history.run_positions
    used[[positions[value.run_id] for series in history.metrics for value in series.values]] = True
    oldest = np.flatnonzero(used)[:-MAX_RUNS]
    if oldest.size:
        used[oldest] = False
        values, older = _count_rows(values, ~used[values.run], older, runs)
    if not used.all():
        values = replace(values, run=(np.cumsum(used, dtype=np.int32) - 1)[values.run])
        runs = tuple(run for run, is_used in zip(runs, used.tolist(), strict=True) if is_used)
    valued = np.bincount(values.key, minlength=len(keys)) > 0
    if not valued.all():
        values = replace(values, key=(np.cumsum(valued, dtype=np.int32) - 1)[values.key])
        keys = tuple(key for key, is_used in zip(keys, valued.tolist(), strict=True) if is_used)
        older = older[:, valued]
    spellings = history.external_names
    if len(keys) != len(history.keys):
        spellings = {key: spellings[key] for key in keys if key in spellings}
    older_or_none = older if older.any() else None
    remaining = History(values, runs, keys, spellings, older=older_or_none)
    return replace(remaining, metrics=merge_series(history.metrics, (), remaining.run_positions))


def _drop_recovered_units(history: History) -> History:
    """Remove units with a result in the run from the `lost_units` of its legs."""
    suspects = {key for run in history.runs for leg in run.legs for key in leg.lost_units}
    if not suspects:
        return history
    wanted = np.array([key.unit_key in suspects for key in history.keys], np.bool_)
    values = rows(history.values, wanted[history.values.key])
    pairs = zip(values.key.tolist(), values.run.tolist(), strict=True)
    seen = {(run, history.keys[key].unit_key) for key, run in pairs}
    runs = []
    for position, run in enumerate(history.runs):
        legs = []
        for leg in run.legs:
            lost = tuple(key for key in leg.lost_units if (position, key) not in seen)
            legs.append(leg if len(lost) == len(leg.lost_units) else replace(leg, lost_units=lost))
        runs.append(replace(run, legs=tuple(legs)))
    return replace(history, runs=tuple(runs))


def merge(a: History, b: History) -> History:
    """Merge two histories; `merge(a, b)` equals `merge(b, a)`.

    O(keys) in Python, O(values) in numpy: 100,000 results joined to 20 runs take 0.3 s.

    Raises:
        InputError: the histories contradict each other about a run.
    """
    positions = _MergedPositions(_all_runs(a, b), _all_keys(a, b))
    sides = [positions.remap(history) for history in (a, b)]
    frontier = np.maximum(*(side.frontier for side in sides))
    (values_a, older_a), (values_b, older_b) = (
        _count_rows(
            one.values, one.values.run < frontier[one.values.key], one.older, positions.runs
        )
        for one in sides
    )
    older = join_counts(older_a, older_b, np.maximum)
    values = deduplicate(concatenate(values_a, values_b), positions.runs)
    # If both spell a key, the smaller spelling counts, independent of the order.
    spellings = {**a.external_names, **b.external_names}
    for key, names in a.external_names.items():
        if names != spellings[key]:
            spellings[key] = min(names, spellings[key], key=repr)
    merged = History(values, positions.runs, positions.keys, spellings)
    merged = _drop_recovered_units(merged)
    merged = replace(merged, metrics=merge_series(a.metrics, b.metrics, merged.run_positions))
    values, older = _count_rows(values, _is_old(values, len(merged.keys)), older, merged.runs)
    return _drop_unused(replace(merged, values=values), older)


def rows(values: Values, chosen: Integers | Flags) -> Values:
    """Return the chosen rows; an unmeasured column still takes no memory."""
    return of_columns({name: column[chosen] for name, column in _measured_columns(values).items()})


def _measured_columns(values: Values) -> dict[str, NDArray[Any]]:
    columns = values.columns()
    return {
        name: column
        for name, column in columns.items()
        if name not in MEASURES or not is_unmeasured(column)
    }


def concatenate(a: Values, b: Values) -> Values:
    filled = _measured_columns(a).keys() | _measured_columns(b).keys()
    return of_columns(
        {name: np.concatenate((getattr(a, name), getattr(b, name))) for name in sorted(filled)}
    )


def _sort_key(values: Values) -> Integers:
    """Return one number for each pair of key and run, in the order of the pairs."""
    return values.key.astype(np.int64) << 32 | values.run


def deduplicate(values: Values, runs: Sequence[HistoryRun]) -> Values:
    """Sort rows and keep one for each key and run: of the newest attempt, then the worst result.

    The rows of one leg are final results; several rows of a key and run are of several legs. Linear
    if both sides are sorted (the stable sort finds ascending runs). Only pairs of key and run with
    several rows need the full order of `_precedence`.
    """
    pair = _sort_key(values)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    equals_next = pair[1:] == pair[:-1]
    if equals_next.any():
        repeated = np.append(equals_next, False) | np.append(False, equals_next)
        order[repeated] = order[repeated][_precedence(rows(values, order[repeated]), runs)]
        order = order[np.append(~equals_next, True)]
    ascending = len(order) == len(values) and bool((np.diff(order) > 0).all())
    return values if ascending else rows(values, order)


def _precedence(values: Values, runs: Sequence[HistoryRun]) -> Integers:
    """Return positions that sort the rows so that the last row of each key and run is kept."""
    attempts = [[leg.run_attempt for leg in run.legs] for run in runs]
    pairs = zip(values.run.tolist(), values.leg.tolist(), strict=True)
    attempt = np.array([attempts[run][leg] for run, leg in pairs])
    measures = [np.nan_to_num(getattr(values, name), nan=-np.inf) for name in MEASURES]
    codes = [values.leg, *(getattr(values, name) for name in CODES if name != "outcome")]
    rank = _RANK[values.outcome, values.ending]
    return np.lexsort((*measures, *codes, rank, attempt, _sort_key(values)))


def _is_old(values: Values, keys: int) -> Flags:
    """Return for each row whether it precedes the last `VALUES_PER_KEY` rows of its key."""
    counts = np.bincount(values.key, minlength=keys)
    if not counts.size or int(counts.max()) <= VALUES_PER_KEY:
        return np.zeros(len(values), np.bool_)
    age = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(values))
    old: Flags = age >= VALUES_PER_KEY
    return old
