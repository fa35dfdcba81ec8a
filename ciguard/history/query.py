"""Looks into a history without a Python loop over its values, and what it knows of the base.

Sizes in mind: 100,000 keys x 20 values. Each function is O(values) in numpy, and O(keys) in Python
only where it makes keys. A pull request is held against the base's newest runs, so that nothing
that it says of itself has to be believed. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.history.file import CODE_NAMES, VALUES_PER_KEY, History, Values
from ciguard.model import BAD_OUTCOMES, CaseKey, Outcome, Suite, UnitCount, UnitKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.history.runs import HistoryLeg, HistoryRun

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Positions = NDArray[np.int64]

COMPLETED: Final = CODE_NAMES["ending"].index("completed")
DIED: Final = CODE_NAMES["outcome"].index("died")
_RAN: Final = tuple(map(CODE_NAMES["outcome"].index, ("passed", "failed", "skipped")))
STABLE_RUNS: Final = 3  # with one alone, each case with a random name would be lost in the next run
_BAD: Final = tuple(CODE_NAMES["outcome"].index(outcome) for outcome in BAD_OUTCOMES)
# Under this a duration says more about the machine's timer and caches than about its speed.
STEADY_S: Final = 0.05
STEADY_TESTS: Final = 20
PART: Final = 1 << 12  # groups that are looked at together: their tables stay in the cache


def bounds(group: NDArray[np.integer[Any]], groups: int) -> Positions:
    """Where each group's rows begin: rows of group g are `bounds[g]:bounds[g + 1]`.

    Args:
        group: ascending, each below `groups` (`values.key`).
        groups: how many there are; a group may be empty.
    """
    return np.concatenate(([0], np.cumsum(np.bincount(group, minlength=groups))))


def parts(group: NDArray[np.int32], groups: int) -> Iterator[tuple[slice, slice]]:
    """Divide what is worked out group by group: (some groups, their rows), all in order.

    Args:
        group: as for `bounds`.
    """
    begins = [*range(0, groups, PART), groups]
    # In the type of the groups: with another one all of those would be copied first.
    edges = np.searchsorted(group, np.array(begins, group.dtype)).tolist()
    for (begin, end), (first, last) in zip(pairwise(begins), pairwise(edges), strict=True):
        yield slice(begin, end), slice(first, last)


def newest_values(
    column: NDArray[Any], group: NDArray[np.int32], groups: int, depth: int = VALUES_PER_KEY
) -> Floats:
    """The last `depth` values of each group as a table, NaN where there are fewer.

    Rows whose value is to be left out are dropped before: `newest_values(wall[ok], key[ok], ...)`.

    Returns:
        (groups, depth) float64; the newest value is in the last column, older ones to its left.
    """
    table = np.full((groups, depth), np.nan)
    ends = bounds(group, groups)[1:]
    age = np.repeat(ends, np.bincount(group, minlength=groups)) - 1 - np.arange(len(group))
    recent = age < depth
    table[group[recent], depth - 1 - age[recent]] = column[recent]
    return table


def legs(history: History) -> tuple[HistoryLeg, ...]:
    """The legs of all runs in one row, run after run."""
    return tuple(leg for run in history.runs for leg in run.legs)


def leg_of(history: History, values: Values) -> NDArray[np.int32]:
    """Each row's position in `legs(history)`."""
    counts = np.array([len(run.legs) for run in history.runs], np.int32)
    first = np.cumsum(counts, dtype=np.int32) - counts
    return first[values.run] + values.leg if counts.size else np.zeros(0, np.int32)


def in_complete_leg(history: History, values: Values) -> Flags:
    """Say of each row whether its leg ended by itself: what a baseline is made of."""
    complete: Flags = np.array([leg.complete for leg in legs(history)], np.bool_)
    return complete[leg_of(history, values)]


def is_censored(values: Values) -> Flags:
    """Say of each case whether it was stopped: its time and memory are lower bounds.

    0, not told, is not censored: a file of durations knows no endings.
    """
    censored: Flags = (values.outcome == DIED) | (values.ending > COMPLETED)
    return censored


def units(history: History) -> tuple[tuple[UnitKey, ...], NDArray[np.int32]]:
    """The units, sorted, and each key's position among them. O(keys)."""
    keys = history.keys
    new = np.fromiter((a[:3] != b[:3] for a, b in pairwise(keys)), np.int32, max(len(keys) - 1, 0))
    first = np.concatenate((np.zeros(min(len(keys), 1), np.int32), np.cumsum(new, dtype=np.int32)))
    begins = np.flatnonzero(np.diff(first, prepend=-1))
    return tuple(keys[position].unit_key for position in begins.tolist()), first


def speed_factors(history: History) -> Floats:
    """How slow each leg was: 1.3 took 30 % longer than the same tests usually do.

    exp(median log(wall / the key's median)) over a leg's tests of `STEADY_S` and more; NaN with
    fewer than `STEADY_TESTS` of them. Derived at each reading, never stored: it depends on all
    runs, and a stored one would depend on the order in which they came.

    Returns:
        A value for each of `legs(history)`.
    """
    values, count = history.values, 0
    factors = np.full(len(legs(history)), np.nan)
    # Numbers of two bytes are sorted by counting them.
    type_: type[np.integer[Any]] = np.uint16 if len(factors) <= 1 << 16 else np.int32
    leg = np.empty(len(values), type_)
    ratio = np.empty(len(values))
    for keys, rows in parts(values.key, len(history.keys)):
        ratios, legs_ = _steady(history, values.rows(rows), keys)
        ratio[count : count + len(ratios)], leg[count : count + len(legs_)] = ratios, legs_
        count += len(ratios)
    ratio, leg = ratio[:count], leg[:count]
    order = np.argsort(leg, kind="stable")
    edges = bounds(leg, len(factors))
    for position, (begin, end) in enumerate(pairwise(edges.tolist())):
        if end - begin >= STEADY_TESTS:
            factors[position] = np.exp(np.median(ratio[order[begin:end]]))
    return factors


def _steady(history: History, values: Values, keys: slice) -> tuple[Floats, NDArray[np.int32]]:
    """Of the long tests among these keys: log(wall / the key's median), and the leg."""
    key = values.key - np.int32(keys.start)
    usual = _medians(newest_values(values.wall_s, key, keys.stop - keys.start))[key]
    steady = (usual >= STEADY_S) & (values.wall_s > 0) & ~is_censored(values)
    ratio = np.log(values.wall_s[steady] / usual[steady])
    return ratio, leg_of(history, values)[steady]


def _medians(table: Floats) -> Floats:
    """Median of each row's numbers, NaN where it has none (np.nanmedian loops, and warns)."""
    ordered: Floats = np.sort(table, axis=1)  # NaN last
    counts = (~np.isnan(table)).sum(axis=1)
    rows = np.arange(len(table))
    middle = np.maximum(counts - 1, 0) // 2
    medians: Floats = (ordered[rows, middle] + ordered[rows, counts // 2]) / 2
    return medians


@dataclass(frozen=True, slots=True)
class BaseQuery:
    """Who asks for its base; None is not known, and then holds nothing back.

    `branch` is the base's; `run_id` is the asker's own: what began after it is not its base, even
    when it is run again much later.
    """

    branch: str | None = None
    workflow: str | None = None
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A case that failed in the base's run too: how, and since which run, as far as is kept."""

    outcome: Outcome
    since_run: int
    run: int
    branch: str


def base_runs(history: History, query: BaseQuery) -> Iterator[int]:
    """Positions of the base's runs in the history, the newest first."""
    for position in range(len(history.runs) - 1, -1, -1):
        if _is_base(history.runs[position], query):
            yield position


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
    """How many units a run of the base planned, and where in the history it is."""

    planned: tuple[UnitCount, ...]
    run: HistoryRun
    position: int

    @property
    def source(self) -> str:
        """What a person calls that run."""
        return f"run {self.run.run_id}" + (f" of {self.run.branch}" if self.run.branch else "")


def units_planned(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseUnitCount | None:
    """What the plan for these suites had in the base's newest run with one; None without one.

    A run has a plan for each job that was moved, and, run again, one for each attempt. The plan is
    that with the most of these variants, of the newest attempt.
    """
    ours = {(name, variant) for name, suite in suites.items() for variant in suite.variants}
    for position in base_runs(history, query):
        found = []
        for plan_id, theirs in _legs_by_plan(history.runs[position]).items():
            counts = _sum_counts(theirs)
            if any(suite in suites for suite, _ in counts):
                newest = max(leg.run_attempt for leg in theirs)
                found.append((len(ours & counts.keys()), newest, plan_id, counts))
        if found:
            *_, counts = max(found, key=lambda one: one[:3])
            planned = tuple(UnitCount(counts[key], *key) for key in sorted(counts))
            return BaseUnitCount(planned, history.runs[position], position)
    return None


def _legs_by_plan(run: HistoryRun) -> Mapping[str, Sequence[HistoryLeg]]:
    """The legs of each plan; not of one that was not known for all of them."""
    found: dict[str, list[HistoryLeg]] = defaultdict(list)
    for leg in run.legs:
        found[leg.plan_id].append(leg)
    return {
        plan_id: theirs
        for plan_id, theirs in found.items()
        if all(leg.planned is not None for leg in theirs)
    }


def _sum_counts(theirs: Iterable[HistoryLeg]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for leg in theirs:
        for one in leg.planned or ():
            counts[one.suite, one.variant] += one.units
    return counts


@dataclass(frozen=True, slots=True)
class LastShard:
    """Where a unit ran last: the shard, else the job, of the newest run that has it.

    `position` is the run's in the history.
    """

    shard: str
    run_id: int
    position: int


def last_shards(history: History, wanted: Iterable[UnitKey]) -> Mapping[UnitKey, LastShard]:
    """Where these units ran last, of those that a run with shards has. O(values)."""
    names, values = frozenset(wanted), history.values
    keys, unit_of_key = units(history)
    is_wanted = np.fromiter((key in names for key in keys), np.bool_, len(keys))
    rows = np.flatnonzero(is_wanted[unit_of_key[values.key]]) if keys else np.zeros(0, np.int64)
    found: dict[UnitKey, LastShard] = {}
    for row in rows.tolist():
        key, position = keys[unit_of_key[values.key[row]]], int(values.run[row])
        run = history.runs[position]
        leg = run.legs[values.leg[row]]
        name = leg.shard or leg.job or ""
        if name and (key not in found or found[key].position < position):
            found[key] = LastShard(name, run.run_id, position)
    return found


def cases_of_run(history: History, position: int) -> Iterator[CaseKey]:
    """The cases of which a run has a value, sorted. O(values)."""
    for place in history.values.key[history.values.run == position].tolist():
        yield history.keys[place]


@dataclass(frozen=True, slots=True)
class StableCases:
    """The cases that a unit has in every recent run of the base; `run` is the newest of them."""

    cases: frozenset[str]
    run: HistoryRun


def stable_cases(
    history: History, query: BaseQuery, wanted: Collection[UnitKey]
) -> Mapping[UnitKey, StableCases]:
    """Of these units the cases that ran in each of the base's last complete runs with the unit.

    In each of `STABLE_RUNS`, so that a name that changes from run to run is no case that can get
    lost. A case named as its unit is that unit. O(values).
    """
    found: dict[UnitKey, StableCases] = {}
    complete = [one for one in base_runs(history, query) if history.runs[one].complete]
    for position in complete[:STABLE_RUNS]:
        cases: dict[UnitKey, set[str]] = defaultdict(set)
        ran = (history.values.run == position) & np.isin(history.values.outcome, _RAN)
        for place in history.values.key[ran].tolist():
            key = history.keys[place]
            if key.unit_key in wanted and key.case != key.unit:
                cases[key.unit_key].add(key.case)
        for unit, names in cases.items():
            known = found.get(unit)
            both = frozenset(names) if known is None else known.cases & names
            found[unit] = StableCases(both, history.runs[position] if known is None else known.run)
    return found


def known_failures(
    history: History, query: BaseQuery
) -> tuple[Mapping[CaseKey, KnownFailure], HistoryRun | None]:
    """Cases that failed in the base's newest run of which every leg ended by itself, and that run.

    A failure goes back as far as the case failed in each of the base's runs that has it.
    """
    runs = list(base_runs(history, query))
    newest = next((one for one in runs if history.runs[one].complete), None)
    if newest is None:
        return {}, None
    values, of_base = history.values, np.zeros(len(history.runs), np.bool_)
    of_base[runs] = True
    bad = np.isin(values.outcome, _BAD)
    found = {}
    for row in np.flatnonzero((values.run == newest) & bad).tolist():
        first = before = row
        while before >= 0 and values.key[before] == values.key[row]:
            if of_base[values.run[before]]:
                if not bad[before]:
                    break
                first = before
            before -= 1
        run = history.runs[newest]
        found[history.keys[values.key[row]]] = KnownFailure(
            outcome=BAD_OUTCOMES[_BAD.index(int(values.outcome[row]))],
            since_run=history.runs[values.run[first]].run_id,
            run=run.run_id,
            branch=run.branch or query.branch or "the base",
        )
    return found, history.runs[newest]
