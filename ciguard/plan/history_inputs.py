"""Inputs of a plan from the history: values of the existing units, overheads, base counts.

The history's cases are matched to the units, summed over the cases of a unit, and scaled to the
common speed of the machines. For a plan whose legs list the units, the units come from past runs,
too. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import join, normpath
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.matching import match_units
from ciguard.history.file import History, is_unmeasured
from ciguard.history.query import (
    BaseQuery,
    BaseUnitCount,
    all_legs,
    base_runs,
    base_unit_count,
    cases_of_run,
    chunks,
    in_complete_leg,
    is_censored,
    known_failures,
    leg_positions,
    speed_factors,
)
from ciguard.history.runs import UNDATED, SuiteOverhead
from ciguard.history.stores import LoadedHistory
from ciguard.model import PlanNote, Pool, Runner, Suite
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
    largest_peaks,
    no_observations,
    split_process_starts,
)
from ciguard.plan.inventory import Inventory
from ciguard.plan.loss_isolation import candidate_sets
from ciguard.plan.overheads import observe_overheads
from ciguard.plan.problem import PlanInputs
from ciguard.plan.shard_memory import BEGINS, read_past_shards
from ciguard.plan.time_limits import TimeoutRule, max_fixture_s, unit_timeouts
from ciguard.run.frameworks.registry import framework

PRIOR_LEGS: Final = 8  # weight, in legs, of the speed spread of other recordings
MAX_LEGS: Final = 20  # newest legs, whose median is the cost of a suite's process
MAX_POOL_LEGS: Final = 40  # newest legs of a pool, whose minimum is its capacity


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """The unit of each key of the history, or -1; for keys of totals (class, file) their units."""

    unit_of_key: Integers
    totals: Mapping[int, tuple[int, ...]]

    @property
    def matched(self) -> int:
        """Return the number of keys that match existing units."""
        return int((self.unit_of_key >= 0).sum()) + len(self.totals)


def join_history(history: History, mapping: KeyMapping) -> Observations:
    """Match the history's values to the inventory's units.

    A unit's time in a run is the sum over its cases, its peak the largest of them. The total of a
    class or file is divided over those of its units that have no value in this run.

    Returns:
        Rows by unit. O(values) in numpy.
    """
    values = history.values
    unit_of_key, totals = mapping.unit_of_key, mapping.totals
    speed = speed_factors(history)
    bound = is_censored(values) | ~in_complete_leg(history, values)
    relevant = [
        _relevant_rows(values.key[rows], bound[rows]) & (unit_of_key >= 0)[values.key[rows]]
        for _, rows in chunks(values.key, len(history.keys))
    ]
    row = np.flatnonzero(np.concatenate(relevant)) if relevant else np.zeros(0, np.int64)
    unit, divisor = unit_of_key[values.key[row]], np.broadcast_to(1.0, len(row))
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
        begins_process=np.isin(values.standing[row], BEGINS),
    )
    return _sum_cases_per_run(rows, values.run[row])


def _bounds(column: Floats, row: Integers, divisor: Floats) -> Floats:
    if is_unmeasured(column):
        return np.broadcast_to(np.nan, len(row))
    return np.where(divisor > 1, np.nan, column[row])


def _relevant_rows(key: NDArray[np.int32], bound: Flags) -> Flags:
    """Mark the rows that an estimate can use: all bounds, and each key's last complete values."""
    complete = np.flatnonzero(~bound)
    is_last = np.ones(len(complete), np.bool_)
    is_last[:-WINDOW] = key[complete[:-WINDOW]] != key[complete[WINDOW:]]
    relevant = bound.copy()
    relevant[complete[is_last]] = True
    return relevant


def map_keys(history: History, inventory: Inventory) -> KeyMapping:
    """Match the history's keys to the units. O(keys)."""
    position_of: dict[tuple[str, ...], int] = {key: at for at, key in enumerate(inventory.keys)}
    named = (position_of.get(key[:3], -1) for key in history.keys)
    unit_of_key = np.fromiter(named, np.int64, len(history.keys))
    unmatched = np.flatnonzero(unit_of_key < 0).tolist()
    if not unmatched:
        return KeyMapping(unit_of_key, {})
    # Normalising the names of an inventory is the slowest step. Without names of other programs
    # an unmatched key can only be of a unit without a key; mostly its unit was removed.
    positions: Sequence[int] = range(len(inventory.units))
    if not history.external_names:
        is_unmatched = np.ones(len(inventory.units), np.bool_)
        is_unmatched[unit_of_key[unit_of_key >= 0]] = False
        positions = np.flatnonzero(is_unmatched).tolist()
    units = [inventory.units[position] for position in positions]
    targets = match_units([history.keys[key] for key in unmatched], history.external_names, units)
    totals = {}
    for key, target in zip(unmatched, targets, strict=True):
        if len(target) == 1:
            unit_of_key[key] = positions[target[0]]
        elif target:
            totals[key] = tuple(positions[index] for index in target)
    return KeyMapping(unit_of_key, totals)


def _shared_rows(
    history: History, totals: Mapping[int, tuple[int, ...]], own: set[tuple[int, int]]
) -> tuple[Integers, Integers, Floats]:
    """Return unit, row of the values and divisor of each unit's part of a total."""
    values = history.values
    parts = [
        (unit, row, float(len(units)))
        for key, units in totals.items()
        for row in np.flatnonzero(values.key == key).tolist()
        for unit in units
        if (unit, int(values.run[row])) not in own
    ]
    shares = np.array(parts, np.float64).reshape(-1, 3)
    return shares[:, 0].astype(np.int64), shares[:, 1].astype(np.int64), shares[:, 2]


def _sum_cases_per_run(rows: Observations, run: NDArray[np.int32]) -> Observations:
    """Join rows to one for each unit and run, in order. Linear if each unit is one case."""
    code = rows.unit.astype(np.int64) * (int(run.max(initial=0)) + 1) + run
    if (np.diff(code) > 0).all():
        return rows  # each case is a unit, and keys and units have one order
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    return Observations(
        unit=rows.unit[order[begins]],
        wall_s=_sum(rows.wall_s[order], begins),
        peak_delta_bytes=np.fmax.reduceat(rows.peak_delta_bytes[order], begins),
        retained_bytes=_sum(rows.retained_bytes[order], begins),
        is_lower_bound=np.logical_or.reduceat(rows.is_lower_bound[order], begins),
        speed_spread=rows.speed_spread,
        lower_bound_bytes=np.fmax.reduceat(rows.lower_bound_bytes[order], begins),
        begins_process=np.logical_or.reduceat(rows.begins_process[order], begins),
        # A unit has an upper bound only if all its cases have one.
        upper_bound_bytes=np.maximum.reduceat(largest_peaks(rows)[order], begins),
    )


def _sum(column: Floats, begins: Integers) -> Floats:
    """Return sums of measured values; NaN without any."""
    measured = np.add.reduceat(~np.isnan(column), begins, dtype=np.int64)
    return np.where(measured > 0, np.add.reduceat(np.nan_to_num(column), begins), np.nan)


def _speed_spread(speed: Floats) -> float:
    """Return the spread of the legs' speeds, with a prior: few equal legs prove no small spread."""
    logs = np.log(speed[np.isfinite(speed) & (speed > 0)])
    if logs.size < 2:  # noqa: PLR2004
        return SPEED_SPREAD
    squares = float(np.square(logs - logs.mean()).sum())
    variance = (PRIOR_LEGS * SPEED_SPREAD**2 + squares) / (PRIOR_LEGS + logs.size - 1)
    return math.sqrt(variance)


def with_process_costs(
    suites: Mapping[str, Suite], history: History, once_s: Mapping[str, float] | None = None
) -> dict[str, Suite]:
    """Add to suites the costs of their processes besides units: the medians of recent legs.

    The most expensive variant counts: the plan keeps one number for a suite.

    Args:
        once_s: by suite, what a process pays once during its first unit.
    """
    by_suite: dict[str, dict[str, list[SuiteOverhead]]] = {}
    for leg in reversed(all_legs(history)):
        for cost in leg.overheads if leg.complete else ():
            by_suite.setdefault(cost.suite, {}).setdefault(cost.variant, []).append(cost)
    costed_suites = {}
    for name, suite in suites.items():
        recent = [costs[:MAX_LEGS] for costs in by_suite.get(name, {}).values()]
        base_bytes, setup_s, teardown_s = (
            _max_of_medians([[getattr(cost, field) for cost in costs] for costs in recent])
            for field in ("base_bytes", "setup_s", "teardown_s")
        )
        costed_suites[name] = replace(
            suite,
            base_bytes=None if base_bytes is None else int(base_bytes),
            setup_s=round((setup_s or 0.0) + (once_s or {}).get(name, 0.0), DIGITS),
            teardown_s=round(teardown_s or 0.0, DIGITS),
        )
    return costed_suites


def _max_of_medians(values_by_variant: Sequence[Sequence[float | None]]) -> float | None:
    measured = [[value for value in values if value is not None] for values in values_by_variant]
    return max((median(values) for values in measured if values), default=None)


def with_observed_capacity(pools: Mapping[str, Pool], history: History) -> dict[str, Pool]:
    """Add to pools the memory and cores of their last legs, if the configuration has none.

    Machines of one pool may differ: the smallest capacity of the last legs counts.
    """
    runners: dict[str, list[Runner]] = {name: [] for name in pools}
    for leg in reversed(all_legs(history)):
        if leg.runner.pool in pools and len(runners[leg.runner.pool]) < MAX_POOL_LEGS:
            runners[leg.runner.pool].append(leg.runner)
    return {
        name: replace(
            pool,
            cpus=pool.cpus or _smallest(runner.cpus for runner in runners[name]),
            memory_bytes=pool.memory_bytes
            or _smallest(runner.memory_bytes for runner in runners[name]),
        )
        for name, pool in pools.items()
    }


def _smallest(capacities: Iterable[int | None]) -> int | None:
    return min(filter(None, capacities), default=None)


@dataclass(frozen=True, slots=True)
class Past:
    """The inputs of a plan from the history; `history_json` becomes part of the plan file."""

    inputs: PlanInputs
    history_json: Mapping[str, Any]
    base_count: BaseUnitCount | None
    notes: tuple[PlanNote, ...]


def history_notes(loaded: LoadedHistory) -> tuple[PlanNote, ...]:
    """Return why a plan is made without a history; none if it has one or requested none.

    A lost, damaged or newer history must not prevent all plans until its repair: a plan without
    timings is worse, and still correct.
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
    """Read the inputs of a plan from the history.

    Args:
        query: selects the base's runs.
        declared: for the inventory's units.
    """
    history, notes = loaded.history, [*history_notes(loaded)]
    base_count = None
    ancestors = {name: framework(suite.framework).ancestors for name, suite in suites.items()}
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    if history is None:
        rows = no_observations()
        history_json: dict[str, Any] = {"source": None, "runs": 0}
        estimates = estimate_units(rows, len(inventory.units), names, members)
        inputs = PlanInputs(inventory, estimates, suites, pools)
        setups_s = {}
    else:
        mapping = map_keys(history, inventory)
        rows = join_history(history, mapping)
        suite_names = sorted(suites)
        numbers = {name: number for number, name in enumerate(suite_names)}
        suite_of = np.array([numbers[key.suite] for key in inventory.keys], np.int64)
        own_rows, once_s = split_process_starts(rows, suite_of)
        estimates = estimate_units(own_rows, len(inventory.units), names, members)
        history_json = {
            "source": loaded.location,
            **({} if loaded.is_new else {"runs": len(history.runs)}),
            "entries": len(history.keys),
            "matched": mapping.matched,
            "units_with_history": int(estimates.has_history.sum()),
        }
        if history.runs and history.runs[-1].at > UNDATED:
            history_json["newest"] = history.runs[-1].at.isoformat()
        if not estimates.has_history.any():
            notes.append(PlanNote("history_unrelated", {"location": loaded.location}))
        inputs = PlanInputs(
            inventory,
            estimates,
            # Not strict: the last suites may have no unit.
            with_process_costs(
                suites, history, dict(zip(suite_names, once_s.tolist(), strict=False))
            ),
            with_observed_capacity(pools, history),
            observe_overheads(history, inventory, mapping.unit_of_key),
            candidate_sets(history, inventory, mapping.unit_of_key),
            past_shards=read_past_shards(history, mapping.unit_of_key, inventory.file_names),
            base_failures=frozenset(case.unit_key for case in known_failures(history, query)[0]),
        )
        setups_s = max_fixture_s(history)
        base_count = base_count_with_files(history, query, suites)
    notes += contradiction_notes(inventory.keys, rows, declared)
    limits_s = unit_timeouts(inventory, rows, timeouts, setups_s)
    estimates = with_declared_peaks(estimates, rows, declared)
    inputs = replace(inputs, estimates=estimates, limits_s=limits_s, declared=declared)
    return Past(inputs, history_json, base_count, tuple(notes))


def base_count_with_files(
    history: History, query: BaseQuery, suites: Mapping[str, Suite]
) -> BaseUnitCount | None:
    """Return the counts and files of the base's newest run before the planned one, if known.

    Args:
        suites: by name; ids of units name files relative to the suite's working folder.
    """
    count = base_unit_count(history, query, suites)
    if count is None:
        return None
    keys = cases_of_run(history, count.position)
    files = {
        _file_or_class(suites[suite], unit)
        for suite, unit in {(key.suite, key.unit) for key in keys}
        if suite in suites
    }
    return replace(count, files=frozenset(files))


def _file_or_class(suite: Suite, unit: str) -> str:
    head, separator, _ = unit.partition("::")
    file = framework(suite.framework).file_of(unit) or (head if separator else "")
    return normpath(join(suite.cwd, file)) if file else unit


def past_units(
    history: History | None, query: BaseQuery, suites: Mapping[str, Suite]
) -> tuple[InventoryUnit, ...]:
    """Return for each variant of each suite the units of the base's newest complete run with it.

    A variant without such a run gets the units of the newest complete run with another variant of
    the suite. O(values of the searched runs).
    """
    if history is None:
        return ()
    wanted = {(name, variant) for name, suite in suites.items() for variant in suite.variants}
    units_of_variant: dict[tuple[str, str], list[str]] = {}
    units_of_suite: dict[str, list[str]] = {}
    for position in base_runs(history, query):
        if not history.runs[position].complete:
            continue
        if wanted <= units_of_variant.keys():
            break
        run_units: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for suite, variant, unit, _ in cases_of_run(history, position):
            run_units[suite, variant][unit] = None
        for suite_key, units in run_units.items():
            units_of_variant.setdefault(suite_key, list(units))
            units_of_suite.setdefault(suite_key[0], list(units))
    by_file = {name for name, suite in suites.items() if framework(suite.framework).unit == "file"}
    return tuple(
        # A unit that is a file has the set-up of its file.
        InventoryUnit(unit, suite, variant, file=unit if suite in by_file else None)
        for suite, variant in sorted(wanted)
        for unit in units_of_variant.get((suite, variant), units_of_suite.get(suite, []))
    )
