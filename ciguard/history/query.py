"""Queries of a history: values as tables, speeds of legs, and the runs of the base branch. Pure.

Each function is O(values) in numpy, and O(keys) in Python only where it returns keys: a history may
have 100,000 keys x 20 values. A pull request is compared with the newest runs of its base branch,
so that no claim of the pull request about itself is trusted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import LARGEST, Flags, Floats, Integers
from ciguard.history.file import CODE_NAMES, OLDER, VALUES_PER_KEY, History, Values
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import (
    BAD_OUTCOMES,
    ENDINGS,
    OUTCOMES,
    CaseKey,
    Outcome,
    Result,
    Suite,
    UnitCount,
    UnitKey,
)

COMPLETED: Final = CODE_NAMES["ending"].index("completed")
DIED: Final = CODE_NAMES["outcome"].index("died")
_RAN: Final = tuple(map(CODE_NAMES["outcome"].index, ("passed", "failed", "skipped")))
STABLE_RUNS: Final = 3  # after only one, a case with a random name would be missing in the next run
_PASSED, SKIPPED = map(CODE_NAMES["outcome"].index, ("passed", "skipped"))
# By outcome and ending; an unknown ending stands for the first one, "completed".
_ALL: Final = [[Result("", word, ending=ending) for ending in ENDINGS] for word in OUTCOMES]
FAILED: Final = np.pad(
    [[one.is_failure for one in row[:1] + row] for row in _ALL], ((1, 0), (0, 0))
)
_BAD: Final = tuple(CODE_NAMES["outcome"].index(outcome) for outcome in BAD_OUTCOMES)
# A shorter duration depends more on the machine's timer and caches than on its speed.
STEADY_S: Final = 0.05
STEADY_TESTS: Final = 20
CHUNK_GROUPS: Final = 1 << 12  # groups that are processed together: their tables stay in the cache


def group_bounds(group: NDArray[np.integer[Any]], groups: int) -> Integers:
    """Return where each group's rows begin: rows of group g are `bounds[g]:bounds[g + 1]`.

    Args:
        group: of each row, ascending, each below `groups` (`values.key`).
        groups: number of groups; a group may be empty.
    """
    return np.concatenate(([0], np.cumsum(np.bincount(group, minlength=groups))))


def chunks(group: NDArray[np.int32], groups: int) -> Iterator[tuple[slice, slice]]:
    """Yield ranges of groups and the ranges of their rows, in order.

    Args:
        group: as for `group_bounds`.
    """
    begins = [*range(0, groups, CHUNK_GROUPS), groups]
    # In the type of `group`: any other type would copy all of it first.
    edges = np.searchsorted(group, np.array(begins, group.dtype)).tolist()
    for (begin, end), (first, last) in zip(pairwise(begins), pairwise(edges), strict=True):
        yield slice(begin, end), slice(first, last)


def newest_values(
    column: NDArray[Any], group: NDArray[np.int32], groups: int, depth: int = VALUES_PER_KEY
) -> Floats:
    """Return the last `depth` values of each group as a table, NaN if there are fewer.

    The caller drops excluded rows: `newest_values(wall[ok], key[ok], ...)`.

    Returns:
        (groups, depth) float64; the newest value is in the last column, older ones to its left.
    """
    table = np.full((groups, depth), np.nan)
    ends = group_bounds(group, groups)[1:]
    age = np.repeat(ends, np.bincount(group, minlength=groups)) - 1 - np.arange(len(group))
    recent = age < depth
    table[group[recent], depth - 1 - age[recent]] = column[recent]
    return table


def all_legs(history: History) -> tuple[HistoryLeg, ...]:
    """Return the legs of all runs in one sequence, run after run."""
    return tuple(leg for run in history.runs for leg in run.legs)


def leg_positions(history: History, values: Values) -> NDArray[np.int32]:
    """Return each row's index in `all_legs(history)`."""
    counts = np.array([len(run.legs) for run in history.runs], np.int32)
    first = np.cumsum(counts, dtype=np.int32) - counts
    return first[values.run] + values.leg if counts.size else np.zeros(0, np.int32)


def in_complete_leg(history: History, values: Values) -> Flags:
    """Return for each row whether its leg ended by itself; only such rows make a baseline."""
    complete: Flags = np.array([leg.complete for leg in all_legs(history)], np.bool_)
    return complete[leg_positions(history, values)]


def is_censored(values: Values) -> Flags:
    """Return for each row whether its case was stopped: its time and memory are lower bounds.

    An unknown ending (0) is not censored: a file of durations contains no endings.
    """
    censored: Flags = (values.outcome == DIED) | (values.ending > COMPLETED)
    return censored


def units_of_keys(history: History) -> tuple[tuple[UnitKey, ...], NDArray[np.int32]]:
    """Return the units, sorted, and each key's index among them. O(keys)."""
    keys = history.keys
    new = np.fromiter((a[:3] != b[:3] for a, b in pairwise(keys)), np.int32, max(len(keys) - 1, 0))
    unit = np.concatenate((np.zeros(min(len(keys), 1), np.int32), np.cumsum(new, dtype=np.int32)))
    begins = np.flatnonzero(np.diff(unit, prepend=-1))
    return tuple(keys[position].unit_key for position in begins.tolist()), unit


def speed_factors(history: History) -> Floats:
    """Estimate how slow each leg was: with 1.3, tests took 30 % longer than their median.

    exp(median log(wall / the key's median)) over a leg's tests of `STEADY_S` and more; NaN with
    fewer than `STEADY_TESTS` of them. Computed at each reading, never stored: the factor depends on
    all runs, and a stored one would depend on the order of their arrival.

    Returns:
        A value for each of `all_legs(history)`.
    """
    values, count = history.values, 0
    factors = np.full(len(all_legs(history)), np.nan)
    # numpy sorts numbers of two bytes by counting, in linear time.
    type_: type[np.integer[Any]] = np.uint16 if len(factors) <= 1 << 16 else np.int32
    leg = np.empty(len(values), type_)
    ratio = np.empty(len(values))
    for keys, rows in chunks(values.key, len(history.keys)):
        ratios, legs = _steady_ratios(history, values.rows(rows), keys)
        ratio[count : count + len(ratios)], leg[count : count + len(legs)] = ratios, legs
        count += len(ratios)
    ratio, leg = ratio[:count], leg[:count]
    order = np.argsort(leg, kind="stable")
    edges = group_bounds(leg, len(factors))
    for position, (begin, end) in enumerate(pairwise(edges.tolist())):
        if end - begin >= STEADY_TESTS:
            factors[position] = np.exp(np.median(ratio[order[begin:end]]))
    return factors


def _steady_ratios(
    history: History, values: Values, keys: slice
) -> tuple[Floats, NDArray[np.int32]]:
    """Return log(wall / the key's median) and the leg of each long test among these keys."""
    key = values.key - np.int32(keys.start)
    median_s = medians(newest_values(values.wall_s, key, keys.stop - keys.start))[key]
    steady = (median_s >= STEADY_S) & (values.wall_s > 0) & ~is_censored(values)
    ratio = np.log(values.wall_s[steady] / median_s[steady])
    return ratio, leg_positions(history, values)[steady]


def medians(table: Floats) -> Floats:
    """Return the median of each row's numbers, NaN without any (np.nanmedian loops, and warns)."""
    ordered: Floats = np.sort(table, axis=1)  # NaN last
    counts = (~np.isnan(table)).sum(axis=1)
    rows = np.arange(len(table))
    middle: Floats = ordered[rows, np.maximum(counts - 1, 0) // 2] + ordered[rows, counts // 2]
    return middle / 2


def count_values(values: Values, runs: Sequence[HistoryRun], keys: int) -> Integers:
    """Return the rows of `file.OLDER` for these values, which are in any order. O(values)."""
    at = np.array([max(0, int(run.at.timestamp())) for run in runs], np.int64)
    ids = np.array([run.run_id * (abs(run.run_id) <= LARGEST) for run in runs], np.int64)
    counts = np.zeros((len(OLDER), keys), np.int64)
    skipped = values.outcome == SKIPPED
    failed = FAILED[values.outcome, values.ending]
    for row, chosen in enumerate((slice(None), skipped, failed)):
        counts[row] = np.bincount(values.key[chosen], minlength=keys)
    dated, first = at[values.run] > 0, np.full(keys, len(runs))
    np.minimum.at(first, values.key[dated], values.run[dated])
    passed = (values.outcome == _PASSED) & (values.ending <= COMPLETED)
    last = np.full(keys, -1)
    np.maximum.at(last, values.key[passed], values.run[passed])
    counts[3] = np.append(at, 0)[first]
    counts[4], counts[5] = np.append(at, 0)[last], np.append(ids, 0)[last]
    return counts


def join_counts(a: Integers, b: Integers, join: np.ufunc) -> Integers:
    """Join two tables of `count_values` by `join`: `add` for different values, or `maximum`."""
    joined: Integers = join(a, b)
    joined[3] = np.where((a[3] > 0) & (b[3] > 0), np.minimum(a[3], b[3]), np.maximum(a[3], b[3]))
    is_later = (b[4] > a[4]) | ((b[4] == a[4]) & (b[5] > a[5]))
    joined[4:] = np.where(is_later, b[4:], a[4:])
    return joined


@dataclass(frozen=True, slots=True)
class BaseQuery:
    """The run whose base is searched; a fact that is None excludes no run.

    `branch` is the base branch; `run_id` is the run's own: no later run is its base, even when this
    run is executed again much later.
    """

    branch: str | None = None
    workflow: str | None = None
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A case that also failed in the base's run, and the first kept run since which it fails."""

    outcome: Outcome
    since_run: int
    run: int
    branch: str


def base_runs(history: History, query: BaseQuery) -> Iterator[int]:
    """Yield positions of the base's runs in the history, the newest first."""
    for position in range(len(history.runs) - 1, -1, -1):
        if _is_base(history.runs[position], query):
            yield position


def days_since_execution(history: History, query: BaseQuery, at: datetime) -> Floats:
    """Return for each key the days since the base executed it; infinity: never, 0: no time known.

    Runs with an incomplete leg do not count. Values before the last 20 are of any run. If one of
    them failed, the last execution is only known to precede the oldest kept value.
    """
    values, count = history.values, len(history.keys)
    started_at = np.array([max(0, int(run.at.timestamp())) for run in history.runs], np.int64)
    of_base = np.zeros(len(history.runs), np.bool_)
    for position in base_runs(history, query):
        of_base[position] = all(leg.complete for leg in history.runs[position].legs)
    executed = (values.outcome != SKIPPED) & of_base[values.run]
    last = np.full(count, -1)
    np.maximum.at(last, values.key[executed], started_at[values.run[executed]])
    if history.older is not None:
        number, skipped, failures, _, passed_at, _ = history.older
        oldest = started_at[values.run[group_bounds(values.key, count)[:-1]]]
        older = np.where((passed_at > 0) & (failures == 0), passed_at, oldest)
        last = np.where((last < 0) & (number > skipped), older, last)
    days: Floats = np.where(last > 0, (int(at.timestamp()) - last) // 86_400, 0.0)
    days[last < 0] = np.inf
    return days


def _is_base(run: HistoryRun, query: BaseQuery) -> bool:
    if run.is_unmerged:
        return False
    if query.branch and run.branch and run.branch != query.branch:
        return False
    if query.workflow and run.workflow and run.workflow != query.workflow:
        return False
    return query.run_id is None or run.run_id < query.run_id


@dataclass(frozen=True, slots=True)
class BaseUnitCount:
    """The numbers of units that a run of the base branch planned, and the run's position.

    `files`: files, or classes, with a unit in that run, as far as ids name them.
    """

    planned: tuple[UnitCount, ...]
    run: HistoryRun
    position: int
    files: frozenset[str] = frozenset()

    @property
    def source(self) -> str:
        """Return the run's name in messages."""
        return f"run {self.run.run_id}" + (f" of {self.run.branch}" if self.run.branch else "")


def base_unit_count(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseUnitCount | None:
    """Return the planned units of these suites in the base's newest run with a plan for them.

    None if no run has such a plan. A run has a plan for each adopted job, and a re-run has one for
    each attempt. The plan with the most of these variants counts, of the newest attempt.
    """
    wanted = {(name, variant) for name, suite in suites.items() for variant in suite.variants}
    for position in base_runs(history, query):
        plans = []
        for plan_id, legs in _legs_by_plan(history.runs[position]).items():
            counts = _sum_counts(legs)
            if any(suite in suites for suite, _ in counts):
                newest = max(leg.run_attempt for leg in legs)
                plans.append((len(wanted & counts.keys()), newest, plan_id, counts))
        if plans:
            *_, counts = max(plans, key=lambda plan: plan[:3])
            planned = tuple(UnitCount(counts[key], *key) for key in sorted(counts))
            return BaseUnitCount(planned, history.runs[position], position)
    return None


def _legs_by_plan(run: HistoryRun) -> Mapping[str, Sequence[HistoryLeg]]:
    """Group the legs by plan, without plans that are unknown for some of their legs."""
    legs_by_plan: dict[str, list[HistoryLeg]] = defaultdict(list)
    for leg in run.legs:
        legs_by_plan[leg.plan_id].append(leg)
    return {
        plan_id: legs
        for plan_id, legs in legs_by_plan.items()
        if all(leg.planned is not None for leg in legs)
    }


def _sum_counts(legs: Iterable[HistoryLeg]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for leg in legs:
        for planned in leg.planned or ():
            counts[planned.suite, planned.variant] += planned.units
    return counts


@dataclass(frozen=True, slots=True)
class LastShard:
    """The shard, otherwise the job, of the newest run with a unit; `position` is the run's."""

    shard: str
    run_id: int
    position: int


def last_shards(history: History, wanted: Iterable[UnitKey]) -> Mapping[UnitKey, LastShard]:
    """Return the last shard of each of these units that a run with shards contains. O(values)."""
    names, values = frozenset(wanted), history.values
    keys, unit_of_key = units_of_keys(history)
    is_wanted = np.fromiter((key in names for key in keys), np.bool_, len(keys))
    rows = np.flatnonzero(is_wanted[unit_of_key[values.key]]) if keys else np.zeros(0, np.int64)
    last: dict[UnitKey, LastShard] = {}
    for row in rows.tolist():
        key, position = keys[unit_of_key[values.key[row]]], int(values.run[row])
        run = history.runs[position]
        leg = run.legs[values.leg[row]]
        name = leg.shard or leg.job or ""
        if name and (key not in last or last[key].position < position):
            last[key] = LastShard(name, run.run_id, position)
    return last


def cases_of_run(history: History, position: int) -> Iterator[CaseKey]:
    """Yield the cases with a value in a run, sorted. O(values)."""
    for key in history.values.key[history.values.run == position].tolist():
        yield history.keys[key]


@dataclass(frozen=True, slots=True)
class StableCases:
    """The cases of a unit in every recent run of the base; `run` is the newest of these runs."""

    cases: frozenset[str]
    run: HistoryRun


def stable_cases(
    history: History, query: BaseQuery, wanted: Collection[UnitKey]
) -> Mapping[UnitKey, StableCases]:
    """Return the cases of these units that ran in each of the base's last complete runs.

    A case must be in each of `STABLE_RUNS` runs with its unit, so that a name that changes from run
    to run is never reported missing. A case named as its unit is that unit. O(values).
    """
    stable: dict[UnitKey, StableCases] = {}
    runs = history.runs
    complete = [position for position in base_runs(history, query) if runs[position].complete]
    for position in complete[:STABLE_RUNS]:
        cases: dict[UnitKey, set[str]] = defaultdict(set)
        ran = (history.values.run == position) & np.isin(history.values.outcome, _RAN)
        for key in map(history.keys.__getitem__, history.values.key[ran].tolist()):
            if key.unit_key in wanted and key.case != key.unit:
                cases[key.unit_key].add(key.case)
        for unit, names in cases.items():
            known = stable.get(unit, StableCases(frozenset(names), runs[position]))
            stable[unit] = StableCases(known.cases & names, known.run)
    return stable


def known_failures(
    history: History, query: BaseQuery
) -> tuple[Mapping[CaseKey, KnownFailure], HistoryRun | None]:
    """Return the cases that failed in the base's newest complete run, and that run.

    `since_run` is the first of the base's consecutive runs in which the case failed; runs without
    the case are skipped.
    """
    runs = list(base_runs(history, query))
    newest = next((position for position in runs if history.runs[position].complete), None)
    if newest is None:
        return {}, None
    values, of_base = history.values, np.zeros(len(history.runs), np.bool_)
    of_base[runs] = True
    bad = np.isin(values.outcome, _BAD)
    failures = {}
    for row in np.flatnonzero((values.run == newest) & bad).tolist():
        first = before = row
        while before >= 0 and values.key[before] == values.key[row]:
            if of_base[values.run[before]]:
                if not bad[before]:
                    break
                first = before
            before -= 1
        run = history.runs[newest]
        failures[history.keys[values.key[row]]] = KnownFailure(
            outcome=BAD_OUTCOMES[_BAD.index(int(values.outcome[row]))],
            since_run=history.runs[values.run[first]].run_id,
            run=run.run_id,
            branch=run.branch or query.branch or "the base",
        )
    return failures, history.runs[newest]
