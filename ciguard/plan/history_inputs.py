"""A plan's inputs from the past: values of the units that exist now (matched, summed over cases,
scaled), estimates, overheads, candidate sets, capacity, the base. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.codec.results.matching import match_units
from ciguard.history.file import History, is_unmeasured
from ciguard.history.query import (
    all_legs,
    chunks,
    in_complete_leg,
    is_censored,
    leg_positions,
    speed_factors,
)
from ciguard.history.runs import UNDATED, SuiteOverhead
from ciguard.model import CaseKey, PlanNote, Pool, Suite, UnitKey
from ciguard.plan.declared_needs import (
    NO_NEEDS,
    DeclaredNeeds,
    contradiction_notes,
    with_declared_peaks,
)
from ciguard.plan.estimates import (
    DIGITS,
    SPEED_SPREAD,
    WINDOW,
    Observations,
    estimate_units,
    no_observations,
    upper_or_measured,
)
from ciguard.plan.inventory import BaseCount, Inventory, base_count_of_history, group_by_suite_key
from ciguard.plan.loss_isolation import candidate_sets
from ciguard.plan.overheads import observe_overheads
from ciguard.plan.problem import PlanInputs
from ciguard.plan.time_limits import TimeoutRule, max_fixture_s, unit_timeouts
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.history.query import BaseQuery
    from ciguard.history.stores import LoadedHistory

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Positions = NDArray[np.int64]

PRIOR_LEGS: Final = 8  # so many legs weigh as much as what is usual elsewhere
MAX_LEGS: Final = 20  # legs that the cost of a suite's process is the median of
MAX_POOL_LEGS: Final = 40  # newest legs of a pool that its capacity is taken from


@dataclass(frozen=True, slots=True)
class JoinCoverage:
    """How much of the history speaks of units that exist: entries joined, of entries there."""

    matched: int
    entries: int


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """Where the history's keys belong: for each its unit or -1; for keys of totals their units."""

    unit_of_key: Positions
    totals: Mapping[int, tuple[int, ...]]


def join_history(
    history: History, inventory: Inventory, key_mapping: KeyMapping | None = None
) -> tuple[Observations, JoinCoverage]:
    """Bring the history's values to the inventory's units.

    A unit's time in a run is the sum over its cases, its peak the largest of them. The total of a
    class or file is divided over those of its units that have no value of their own in the run.

    Args:
        inventory: the units that exist now.
        key_mapping: of `map_keys`, where it is known already.

    Returns:
        Rows by unit, and how many of the history's keys found one. O(values) in numpy.
    """
    values = history.values
    where = map_keys(history, inventory) if key_mapping is None else key_mapping
    single, totals = where.unit_of_key, where.totals
    speed = speed_factors(history)
    bound = is_censored(values) | ~in_complete_leg(history, values)
    counts = [
        _relevant_rows(values.key[rows], bound[rows]) & (single >= 0)[values.key[rows]]
        for _, rows in chunks(values.key, len(history.keys))
    ]
    row = np.flatnonzero(np.concatenate(counts)) if counts else np.zeros(0, np.int64)
    unit, divisor = single[values.key[row]], np.broadcast_to(1.0, len(row))
    peak_bytes, retained_bytes = values.peak_delta_bytes[row], values.retained_bytes[row]
    if totals:
        own = {*zip(unit.tolist(), values.run[row].tolist(), strict=True)}
        shared = _shared_rows(history, totals, own)
        unit, row = np.append(unit, shared[0]), np.append(row, shared[1])
        divisor = np.append(divisor, shared[2])
        peak_bytes = np.where(divisor > 1, np.nan, values.peak_delta_bytes[row])
        retained_bytes = np.where(divisor > 1, np.nan, values.retained_bytes[row])
    factor = np.nan_to_num(speed, nan=1.0)[leg_positions(history, values)[row]]
    rows = Observations(
        unit=unit.astype(np.int32),
        wall_s=values.wall_s[row] / (divisor * factor),
        peak_delta_bytes=peak_bytes,
        retained_bytes=retained_bytes,
        is_lower_bound=bound[row],
        speed_spread=_speed_spread(speed),
        lower_bound_bytes=_bounds(values.peak_lower_bytes, row, divisor),
        upper_bound_bytes=_bounds(values.peak_upper_bytes, row, divisor),
    )
    share = JoinCoverage(int((single >= 0).sum()) + len(totals), len(history.keys))
    return _sum_cases_per_run(rows, values.run[row]), share


def _bounds(column: Floats, row: Positions, divisor: Floats) -> Floats | None:
    """Bounds of the peak delta by row; None where there are none."""
    if is_unmeasured(column):
        return None
    return np.where(divisor > 1, np.nan, column[row])


def _relevant_rows(key: NDArray[np.int32], bound: Flags) -> Flags:
    """Mark the rows that an estimate can use: all bounds, and each key's last clean values."""
    clean = np.flatnonzero(~bound)
    last = np.ones(len(clean), np.bool_)
    last[:-WINDOW] = key[clean[:-WINDOW]] != key[clean[WINDOW:]]
    counts = bound.copy()
    counts[clean[last]] = True
    return counts


def map_keys(history: History, inventory: Inventory) -> KeyMapping:
    """Join the history's keys to the units. O(keys)."""
    single = _match_by_name(history.keys, inventory.keys)
    unmatched = np.flatnonzero(single < 0).tolist()
    if not unmatched:
        return KeyMapping(single, {})
    # Normalising an inventory takes longer than all the rest. What no other program spelled can
    # only be a unit that has no entry of its own; mostly it is one that is gone.
    places: Sequence[int] = range(len(inventory.units))
    if not history.external_names:
        is_alone = np.ones(len(inventory.units), np.bool_)
        is_alone[single[single >= 0]] = False
        places = np.flatnonzero(is_alone).tolist()
    units = [inventory.units[place] for place in places]
    targets = match_units([history.keys[key] for key in unmatched], history.external_names, units)
    totals = {}
    for key, target in zip(unmatched, targets, strict=True):
        if len(target) == 1:
            single[key] = places[target[0]]
        elif target:
            totals[key] = tuple(places[place] for place in target)
    return KeyMapping(single, totals)


def _match_by_name(keys: Sequence[CaseKey], units: Sequence[UnitKey]) -> Positions:
    """For each key the position of its unit, or -1; both are sorted, and walked side by side."""
    found = np.full(len(keys), -1, np.int64)
    places = dict(group_by_suite_key(units))
    for suite_key, members in group_by_suite_key(keys):
        unit_range = places.get(suite_key, range(0))
        texts = [units[place].unit for place in unit_range]
        place, end, matched = 0, len(texts), []
        for key in members:
            unit = keys[key].unit
            while place < end and texts[place] < unit:
                place += 1
            there = place < end and texts[place] == unit
            matched.append(unit_range.start + place if there else -1)
        found[members.start : members.stop] = matched
    return found


def _shared_rows(
    history: History, totals: Mapping[int, tuple[int, ...]], own: set[tuple[int, int]]
) -> tuple[Positions, Positions, Floats]:
    """Unit, row of the values and divisor of each unit's part of a total."""
    values = history.values
    found = [
        (unit, row, float(len(units)))
        for key, units in totals.items()
        for row in np.flatnonzero(values.key == key).tolist()
        for unit in units
        if (unit, int(values.run[row])) not in own
    ]
    shares = np.array(found, np.float64).reshape(-1, 3)
    return shares[:, 0].astype(np.int64), shares[:, 1].astype(np.int64), shares[:, 2]


def _sum_cases_per_run(rows: Observations, run: NDArray[np.int32]) -> Observations:
    """One row a unit and run, in order. Sorting is linear where a unit is one case."""
    code = rows.unit.astype(np.int64) * (int(run.max(initial=0)) + 1) + run
    if (np.diff(code) > 0).all():
        return rows  # a case is a unit, and the keys are sorted as the units are
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    return Observations(
        unit=rows.unit[order[begins]],
        wall_s=_sum(rows.wall_s[order], begins),
        peak_delta_bytes=np.fmax.reduceat(rows.peak_delta_bytes[order], begins),
        retained_bytes=_sum(rows.retained_bytes[order], begins),
        is_lower_bound=np.logical_or.reduceat(rows.is_lower_bound[order], begins),
        speed_spread=rows.speed_spread,
        lower_bound_bytes=_largest(rows.lower_bound_bytes, order, begins),
        # A unit has no upper bound where one of its cases has none.
        upper_bound_bytes=None
        if rows.upper_bound_bytes is None
        else np.maximum.reduceat(
            upper_or_measured(rows.peak_delta_bytes, rows.upper_bound_bytes)[order], begins
        ),
    )


def _largest(column: Floats | None, order: Positions, begins: Positions) -> Floats | None:
    return None if column is None else np.fmax.reduceat(column[order], begins)


def _sum(column: Floats, begins: Positions) -> Floats:
    """Sums of what was measured; NaN where nothing was."""
    measured = np.add.reduceat(~np.isnan(column), begins, dtype=np.int64)
    return np.where(measured > 0, np.add.reduceat(np.nan_to_num(column), begins), np.nan)


def _speed_spread(speed: Floats) -> float | None:
    """Spread of the legs' speeds; a few legs that happen to agree do not prove that all do."""
    known = np.log(speed[np.isfinite(speed) & (speed > 0)])
    if known.size < 2:  # noqa: PLR2004
        return None
    squares = float(np.square(known - known.mean()).sum())
    spread2 = (PRIOR_LEGS * SPEED_SPREAD**2 + squares) / (PRIOR_LEGS + known.size - 1)
    return math.sqrt(spread2)


def with_process_costs(suites: Mapping[str, Suite], history: History) -> dict[str, Suite]:
    """Suites with what their processes cost besides their units: the median of recent legs.

    Of variants the dearest counts: the plan keeps one number a suite.
    """
    by_suite: dict[str, dict[str, list[SuiteOverhead]]] = {}
    for leg in reversed(all_legs(history)):
        for cost in leg.overheads if leg.complete else ():
            by_suite.setdefault(cost.suite, {}).setdefault(cost.variant, []).append(cost)
    found = {}
    for name, suite in suites.items():
        recent = [costs[:MAX_LEGS] for costs in by_suite.get(name, {}).values()]
        base_bytes, setup_s, teardown_s = (
            _max_of_medians([[getattr(cost, field) for cost in costs] for costs in recent])
            for field in ("base_bytes", "setup_s", "teardown_s")
        )
        found[name] = replace(
            suite,
            base_bytes=None if base_bytes is None else int(base_bytes),
            setup_s=round(setup_s or 0.0, DIGITS),
            teardown_s=round(teardown_s or 0.0, DIGITS),
        )
    return found


def _max_of_medians(values_by_variant: Sequence[Sequence[float | None]]) -> float | None:
    measured = [[one for one in values if one is not None] for values in values_by_variant]
    return max((median(values) for values in measured if values), default=None)


def with_observed_capacity(pools: Mapping[str, Pool], history: History) -> dict[str, Pool]:
    """Pools with the memory and the cores that their legs found, where the configuration has none.

    Machines of one pool may differ: the smallest of the last legs is what can be counted on.
    """
    found: dict[str, list[tuple[int | None, int | None]]] = {name: [] for name in pools}
    for leg in reversed(all_legs(history)):
        if leg.runner.pool in pools and len(found[leg.runner.pool]) < MAX_POOL_LEGS:
            found[leg.runner.pool].append((leg.runner.cpus, leg.runner.memory_bytes))
    return {
        name: replace(
            pool,
            cpus=pool.cpus or min((one for one, _ in found[name] if one), default=None),
            memory_bytes=pool.memory_bytes
            or min((one for _, one in found[name] if one), default=None),
        )
        for name, pool in pools.items()
    }


@dataclass(frozen=True, slots=True)
class Past:
    """All that a plan is made of; `history_json` goes into the plan file."""

    inputs: PlanInputs
    observations: Observations
    history_json: Mapping[str, Any]
    base_count: BaseCount | None
    notes: tuple[PlanNote, ...]


def history_notes(loaded: LoadedHistory) -> tuple[PlanNote, ...]:
    """Return why a plan is made without a history; none where it has one or asked for none.

    One that is lost, damaged or newer must not keep all runs from being planned until it is
    repaired: without one a plan is worse, and still right.
    """
    if loaded.problem:
        fix = f" (fix: {loaded.fix})" if loaded.fix else ""
        facts = {"location": loaded.location, "problem": f"{loaded.problem}{fix}"}
        return (PlanNote("history_unusable", facts),)
    if loaded.history is None and loaded.location:
        return (PlanNote("history_missing", {"location": loaded.location}),)
    return ()


def read_past(
    inventory: Inventory,
    loaded: LoadedHistory,
    query: BaseQuery,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    timeouts: Mapping[str, TimeoutRule],
    declared: DeclaredNeeds = NO_NEEDS,
) -> Past:
    """Take from the history what a plan is made of.

    Args:
        query: what selects the base's runs.
        declared: for the inventory's units.
    """
    history, notes = loaded.history, [*history_notes(loaded)]
    count = None
    ancestors = {name: framework(suite.framework).ancestors for name, suite in suites.items()}
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    if history is None:
        rows = no_observations()
        history_json: dict[str, Any] = {"source": None, "runs": 0}
        estimates = estimate_units(rows, len(inventory.units), names, members)
        inputs = PlanInputs(inventory, estimates, suites, pools, ancestors)
        setups_s = {}
    else:
        where = map_keys(history, inventory)
        rows, coverage = join_history(history, inventory, where)
        estimates = estimate_units(rows, len(inventory.units), names, members)
        history_json = {
            "source": loaded.location,
            "runs": len(history.runs),
            "entries": coverage.entries,
            "matched": coverage.matched,
            "units_with_history": int(estimates.has_history.sum()),
        }
        if history.runs and history.runs[-1].at > UNDATED:
            history_json["newest"] = history.runs[-1].at.isoformat()
        if not estimates.has_history.any():
            notes.append(PlanNote("history_unrelated", {"location": loaded.location}))
        inputs = PlanInputs(
            inventory,
            estimates,
            with_process_costs(suites, history),
            with_observed_capacity(pools, history),
            ancestors,
            observe_overheads(history, inventory, where.unit_of_key),
            candidate_sets(history, inventory, where.unit_of_key),
        )
        setups_s = max_fixture_s(history)
        count = base_count_of_history(history, query, suites)
    notes += contradiction_notes(inventory.keys, rows, declared)
    limits_s = unit_timeouts(inventory, rows, timeouts, setups_s)
    estimates = with_declared_peaks(estimates, rows, declared)
    inputs = replace(inputs, estimates=estimates, limits_s=limits_s, declared=declared)
    return Past(inputs, rows, history_json, count, tuple(notes))
