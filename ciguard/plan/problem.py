"""Inputs and options of a plan, and the packing problem of each pool with its bounds. Pure.

A packing problem has the units of one pool and command; a *block* here is a unit, or a set of units
that the suite itself keeps together. Units are positions in the inventory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat, takewhile
from typing import Final, Literal

import numpy as np

from ciguard.codec.columns import Floats
from ciguard.model import LegPolicy, PlannedUnit, Pool, Suite, UnitKey
from ciguard.plan.declared_needs import NO_NEEDS, DeclaredNeeds
from ciguard.plan.estimates import Estimates
from ciguard.plan.inventory import Inventory
from ciguard.plan.loss_isolation import CandidateSet
from ciguard.plan.overheads import LegCost, Overheads
from ciguard.plan.packing import Costs, Group, GroupKey, form_groups, lower_bound_s
from ciguard.plan.risk import (
    WallTimeSpread,
    budget_bytes,
    limit_for_risk,
    needed_bytes,
    overrun_probability,
)
from ciguard.plan.shard_memory import NO_PAST_SHARDS, PastShards
from ciguard.plan.time_limits import TimeLimits

MAX_SHARDS: Final = 256  # jobs that GitHub lets a matrix have
RELATIVE_TOLERANCE: Final = 1e-9  # the order of numbers changes their sum by less
NO_OVERHEADS: Final = Overheads()

Grouping = Literal["none", "file", "file-strict", "fixture"]
DEFAULT_POLICY: Final = LegPolicy()
# Files with a longer set-up of shared fixtures are kept together.
EXPENSIVE_FIXTURE_S: Final = 0.05


@dataclass(frozen=True)  # without slots, because cached properties serve all numbers of shards
class PackingProblem:
    """Units of one pool and command, with all facts that decide their packing into shards.

    Attributes:
        units: units of the whole inventory, by key; `positions` selects those of the problem.
        run_order, variances_s2: by position, as in `Inventory` and `Estimates`.
        group_key: returns the group of a unit; None for no groups.
        overheads: overheads of this pool's shards.
        in_folder: by position, whether the unit's group is a folder; None for no folders.
        colocated: units that the suite itself keeps together.
        candidate_sets: units that may have killed shards.
        moves_blocks: units may move to other legs during the run.
        deadline_s: time after which a leg stops itself; infinite without timings.
        risk: accepted P(any shard exceeds the deadline).
    """

    pool: str
    budget_bytes: int | None
    processes: int
    units: Sequence[PlannedUnit]
    positions: Sequence[int]
    run_order: Sequence[int]
    variances_s2: Sequence[float]
    speed_spread: float
    group_key: GroupKey | None
    suites: Mapping[str, Suite]
    overheads: Overheads = NO_OVERHEADS
    in_folder: Sequence[bool] | None = None
    colocated: Sequence[tuple[int, ...]] = ()
    candidate_sets: Sequence[CandidateSet] = ()
    concurrency: int | None = None
    moves_blocks: bool = False
    deadline_s: float = math.inf
    risk: float = 0.0

    @cached_property
    def walls_s(self) -> tuple[float, ...]:
        """Return the time of each unit in a shard, by position, of the whole inventory."""
        if not self.overheads.inter_test_s:
            return tuple(unit.wall_s for unit in self.units)
        by_suite = {name: self.overheads.inter_test_gap_s(name, self.pool) for name in self.suites}
        return tuple(unit.wall_s + by_suite[unit.suite] for unit in self.units)

    @cached_property
    def setups_s(self) -> tuple[float, ...] | None:
        """Return by position the set-up of the shared fixtures of its file; None for no set-ups."""
        by_file = self.overheads.setup_s
        if not any(by_file):
            return None
        return tuple(by_file[file] if file >= 0 else 0.0 for file in self.overheads.file)

    @cached_property
    def costs(self) -> Costs:
        """Return times of units and set-ups of groups."""
        if self.group_key is None:
            return Costs(self.walls_s)
        return Costs(self.walls_s, self.setups_s, self.in_folder)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return form_groups(self.costs, self.group_key, self.positions, colocated=self.colocated)

    @cached_property
    def total_s(self) -> float:
        """Return the sum over all units and set-ups of files."""
        return self.load_s(self.positions)

    @cached_property
    def floor(self) -> int:
        """Return the longest unit alone, which bounds every plan; ties go to the first key."""
        process_s = {name: process_overhead_s(suite) for name, suite in self.suites.items()}

        def solo_s(position: int) -> float:  # without the leg's time, which is equal for all
            setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
            return process_s[self.units[position].suite] + self.walls_s[position] + setup_s

        return max(sorted(self.positions), key=solo_s)

    @cached_property
    def leg(self) -> LegCost:
        """Return the time of each shard besides its processes."""
        return self.overheads.leg(self.pool)

    @cached_property
    def starts_s(self) -> list[float]:
        """Return the overhead of one process of each suite and variant, ascending."""
        return self.processes_s(self.positions)

    def load_s(self, positions: Iterable[int]) -> float:
        """Return the time of units together in one process, after its start."""
        members = list(positions)
        walls_s = [self.walls_s[position] for position in members]
        if self.setups_s is not None:
            first = {self.overheads.file[position]: position for position in members}
            walls_s += [self.setups_s[position] for position in first.values()]
        return math.fsum(walls_s)

    @cached_property
    def infeasible(self) -> tuple[tuple[int, ...], ...]:
        """Return the blocks that alone exceed the deadline at this risk, longest first.

        No number of shards changes this. All other units meet the deadline.
        """
        return self._long_blocks if self.enforces_deadline else ()

    @cached_property
    def enforces_deadline(self) -> bool:
        """Return whether shards must meet the deadline: not if more than half of the units cannot.

        Such a limit is wrong, and hundreds of stopped shards with one unit each would not help.
        """
        return 2 * sum(map(len, self._long_blocks)) <= len(self.positions)

    @cached_property
    def longest_feasible_s(self) -> float:
        """Return the time of a shard of the longest feasible block."""
        blocks = self._blocks if self.infeasible else self._longest
        return max(map(self.block_solo_s, blocks[len(self.infeasible) :]))

    @property
    def _longest(self) -> tuple[tuple[int, ...]]:
        return (max(((self.floor,), *self.colocated), key=self.block_solo_s),)

    @cached_property
    def _blocks(self) -> Sequence[tuple[int, ...]]:
        """Return units alone, or with those that the suite keeps with them, longest first."""
        colocated = {unit for members in self.colocated for unit in members}
        blocks = [*self.colocated, *((unit,) for unit in self.positions if unit not in colocated)]
        return sorted(blocks, key=lambda block: (-self.block_solo_s(block), block))

    @cached_property
    def _long_blocks(self) -> tuple[tuple[int, ...], ...]:
        if math.isinf(self.deadline_s) or not any(map(self._is_infeasible, self._longest)):
            return ()  # a shortcut: the next line sorts all units, a second for a million
        return tuple(takewhile(self._is_infeasible, self._blocks))

    def _is_infeasible(self, members: Sequence[int]) -> bool:
        spread = self.spread(members, min(self.processes, len(members)))
        return (
            overrun_probability(self.deadline_s, [self.block_solo_s(members)], [spread]) > self.risk
        )

    def block_solo_s(self, members: Sequence[int]) -> float:
        """Return the least time of a shard that contains only these units."""
        alone_s = max(map(self.solo_s, members))
        if len(members) == 1:
            return alone_s
        return max(alone_s, self.load_s(members) / self.processes + self.min_shard_overhead_s)

    @cached_property
    def deadline_at_risk_s(self) -> float:
        """Return the time of a shard that meets the deadline on slow machines, at this risk."""
        if not self.enforces_deadline:
            return math.inf
        slowdown = limit_for_risk(self.risk, [1.0], [WallTimeSpread(0.0, 1, self.speed_spread)])
        return self.deadline_s / slowdown

    def spread(self, members: Sequence[int], processes: int) -> WallTimeSpread:
        """Return the uncertainty of a shard of these units."""
        variance_s2 = math.fsum(self.variances_s2[member] for member in members)
        return WallTimeSpread(variance_s2, processes, self.speed_spread, self.leg.spread_s)

    @property
    def min_shard_overhead_s(self) -> float:
        return self.leg.total_s + self.starts_s[0]

    @cached_property
    def max_shards(self) -> int:
        """Return the largest number of shards without an empty one."""
        return len(self.positions) - sum(len(members) - 1 for members in self.colocated)

    def processes_s(self, positions: Iterable[int]) -> list[float]:
        """Return the overhead of a process of each suite and variant of these units, ascending."""
        units = map(self.units.__getitem__, positions)
        # `unit.key` would construct a key for each unit.
        suite_keys = {(unit.suite, unit.variant) for unit in units}
        return sorted(process_overhead_s(self.suites[suite]) for suite, _ in suite_keys)

    def solo_s(self, position: int) -> float:
        """Return the time of a shard of this unit alone: with its fixtures, process and leg."""
        setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
        process_s = process_overhead_s(self.suites[self.units[position].suite])
        return math.fsum((self.leg.total_s, process_s, self.walls_s[position], setup_s))

    def bound_s(self, shard_count: int) -> float:
        """Return a lower bound of the wall time; each suite and variant starts at least once."""
        slots = shard_count * self.processes
        started_s = math.fsum(self.starts_s) - min(len(self.starts_s), slots) * self.starts_s[0]
        floor_s = self.solo_s(self.floor)
        return lower_bound_s(
            self.total_s + started_s, floor_s, slots, setup_s=self.min_shard_overhead_s
        )


def process_overhead_s(suite: Suite) -> float:
    """Return the time of a process of the suite besides its units."""
    return suite.setup_s + suite.teardown_s


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan.

    Attributes:
        pool_of: by suite, a name of `pools`.
        shards: exact number of shards; None for as many as `target_wall_s` needs.
        grows: more than `shards` are made if past times need more for the limit.
        min_shards: least number of shards of each work, if its times choose the number.
        risk: accepted P(any shard exceeds its deadline).
        per_combination: each variant of a suite is a combination of a job's matrix; `shards` and
            `target_wall_s` apply to each variant, and no shard contains two variants.
        processes: concurrent processes in each leg.
        claims: the service that legs ask for blocks of units; "" for none.
        policy: policy of the legs; its deadline comes from `limit`.
        repeat_budget: time for repeats, relative to the makespan; None for no repeats.
    """

    limit: TimeLimits
    pool_of: Mapping[str, str]
    shards: int | None = None
    grows: bool = False
    min_shards: int = 1
    target_wall_s: float = 600.0
    risk: float = 0.01
    per_combination: bool = False
    processes: int = 1
    group: Grouping = "file"
    claims: str = ""
    policy: LegPolicy = DEFAULT_POLICY
    repeat_budget: float | None = None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The inputs of a plan.

    Attributes:
        estimates: estimates of the inventory's units.
        suites: suites with the overheads of their processes.
        pools: pools, the preferred one first.
        limits_s: limits of units, by position; empty if no unit has a limit.
        past_shards: simulated and measured memory of past shards.
        base_failures: units that failed in the base's newest complete run.
        changes: changes of units, by position; empty if no unit is new or changed.
    """

    inventory: Inventory
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    overheads: Overheads = NO_OVERHEADS
    candidate_sets: Sequence[CandidateSet] = ()
    limits_s: Sequence[float | None] = ()
    declared: DeclaredNeeds = NO_NEEDS
    past_shards: PastShards = NO_PAST_SHARDS
    base_failures: frozenset[UnitKey] = frozenset()
    changes: Sequence[str] = ()

    @property
    def has_timings(self) -> bool:
        """Return whether the history contains any unit; otherwise all times are equal defaults."""
        return bool(self.estimates.has_history.any())


def with_estimates(basis: PlanInputs) -> tuple[PlannedUnit, ...]:
    """Return every unit of the inventory with its estimate, in the order of the inventory."""
    keys, estimates = basis.inventory.keys, basis.estimates
    return tuple(
        map(
            PlannedUnit,
            [key.unit for key in keys],
            [key.suite for key in keys],
            [key.variant for key in keys],
            estimates.wall_s.tolist(),
            _sizes(estimates.peak_delta_bytes),
            _sizes(estimates.memory.retained_bytes),
            basis.limits_s or repeat(None),
            estimates.has_history.tolist(),
            map(basis.base_failures.__contains__, keys) if basis.base_failures else repeat(False),
            basis.changes or repeat(""),
        )
    )


def _sizes(column: Floats) -> list[int | None]:
    """Return whole numbers, None for NaN."""
    sizes: list[int | None] = np.nan_to_num(column).astype(np.int64).tolist()
    for position in np.flatnonzero(np.isnan(column)).tolist():
        sizes[position] = None
    return sizes


def assign_pools(
    basis: PlanInputs, units: Sequence[PlannedUnit], options: PlanOptions
) -> tuple[str, ...]:
    """Return the pool of each unit, by position: its suite's, or the smallest with enough memory.

    The memory of the machine must suffice, and the memory of a GPU if the unit declares a need.
    Pools without a GPU come first. A unit that fits no pool stays in its suite's pool. All units
    stay if fewer shards are requested than pools would be used. The plan names units that need more
    than their pool has.
    """
    variant_pools = {
        (suite, name): variant.pool
        for suite, entry in basis.suites.items()
        for name, variant in entry.variants.items()
        if variant.pool
    }
    preferred = tuple(
        variant_pools.get(unit.key[:2]) or options.pool_of[unit.suite] for unit in units
    )
    if options.per_combination:  # the user's workflow chooses the runner of a job
        return preferred
    budgets = {name: budget_bytes(pool) for name, pool in basis.pools.items()}
    gpus = basis.declared.gpu_bytes
    ordered = sorted(budgets, key=lambda name: (gpus.get(name, 0), budgets[name] or 0, name))
    chosen = list(preferred)
    for position, unit in enumerate(units if len(budgets) > 1 else ()):
        pool, need = preferred[position], needed_bytes(unit, basis.suites) or 0
        budget = budgets[pool]
        fits_gpu = basis.declared.has_gpu_room(position, pool)
        if fits_gpu and (budget is None or need <= budget):
            continue
        # A unit that needs another GPU may go to a machine of unknown memory.
        unknown_budget = 0 if fits_gpu else need
        fitting = (
            name
            for name in ordered
            if basis.declared.has_gpu_room(position, name)
            and need <= (budgets[name] or unknown_budget)
        )
        chosen[position] = next(fitting, pool)
    too_many = options.shards is not None and len({*chosen}) > options.shards
    return preferred if too_many else tuple(chosen)


class ProblemBuilder:
    """Builder of the packing problems of one plan, with their shared parts.

    Args:
        units: result of `with_estimates`.
    """

    def __init__(
        self, basis: PlanInputs, units: Sequence[PlannedUnit], options: PlanOptions
    ) -> None:
        self._basis = basis
        self._units = units
        self._options = options
        self._variances_s2 = basis.estimates.variance_s2.tolist()
        self.has_timings = basis.has_timings
        self._group_key = _group_key(basis, options.group)
        self._in_folder = basis.inventory.in_folder()

    def for_units(
        self, pool: str, positions: Sequence[int], concurrency: int | None = None
    ) -> PackingProblem:
        """Build the problem of one pool with these units.

        Args:
            concurrency: number of the pool's concurrent jobs for these units; None for all.
        """
        return PackingProblem(
            pool=pool,
            budget_bytes=budget_bytes(self._basis.pools[pool]),
            processes=self._options.processes,
            units=self._units,
            positions=tuple(sorted(positions)),
            run_order=self._basis.inventory.run_order,
            variances_s2=self._variances_s2,
            speed_spread=self._basis.estimates.speed_spread,
            group_key=self._group_key,
            suites=self._basis.suites,
            overheads=self._basis.overheads,
            in_folder=self._in_folder,
            colocated=_colocated(self._basis.inventory, positions, self._options.group),
            candidate_sets=self._basis.candidate_sets,
            concurrency=self._basis.pools[pool].concurrency if concurrency is None else concurrency,
            moves_blocks=bool(self._options.claims),
            deadline_s=self._options.limit.deadline_s if self.has_timings else math.inf,
            risk=self._options.risk,
        )

    def partition(self, pools: Sequence[str], *, by_variant: bool = False) -> list[PackingProblem]:
        """Build the problems of all units, by pool and command.

        A shard contains units of one pool and command, so that one program reproduces it.

        Args:
            pools: pool of each unit.
            by_variant: a shard also contains only units of one suite and variant.
        """
        by_command: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[int]] = defaultdict(
            list
        )
        for position, unit in enumerate(self._units):
            suite_key = unit.key[:2] if by_variant else ()
            command = self._basis.suites[unit.suite].command
            by_command[pools[position], command, suite_key].append(position)
        parts = [(key[0], members) for key, members in sorted(by_command.items())]
        return [
            self.for_units(pool, members, self._part_of_cap(pool, members, parts))
            for pool, members in parts
        ]

    def _part_of_cap(
        self, pool: str, members: Sequence[int], parts: Sequence[tuple[str, list[int]]]
    ) -> int | None:
        """Return a command's part of the pool's concurrent jobs, by its time; at least one."""
        cap = self._basis.pools[pool].concurrency
        if cap is None:
            return None
        loads_s = [self._load_s(units) for name, units in parts if name == pool]
        total_s = math.fsum(loads_s)
        if len(loads_s) == 1 or not total_s:
            return cap
        return max(1, int(cap * self._load_s(members) / total_s))

    def _load_s(self, members: Sequence[int]) -> float:
        return math.fsum(self._units[position].wall_s for position in members)


def _colocated(
    inventory: Inventory, positions: Sequence[int], group: Grouping
) -> tuple[tuple[int, ...], ...]:
    """Return sets of units that always stay together: groups of the suite, files if `file-strict`.

    A group of the suite with units of several such files joins these files.
    """
    names_of_unit: dict[int, list[tuple[str, ...]]] = {}
    joined: dict[tuple[str, ...], tuple[str, ...]] = {}

    def root(name: tuple[str, ...]) -> tuple[str, ...]:
        while name in joined:
            name = joined[name]
        return name

    for position in sorted(positions):
        unit, file = inventory.units[position], inventory.file_names[position]
        names: list[tuple[str, ...]] = []
        if unit.group:
            names.append(("group", unit.suite, unit.variant, unit.group))
        if group == "file-strict" and file:
            names.append(("file", unit.suite, unit.variant, file))
        if names:
            names_of_unit[position] = names
            first, last = root(names[0]), root(names[-1])
            if first != last:
                joined[first] = last
    members_of_root: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, names in names_of_unit.items():
        members_of_root[root(names[0])].append(position)
    return tuple(map(tuple, members_of_root.values()))


def _group_key(basis: PlanInputs, group: Grouping) -> GroupKey | None:
    """Return the function from a unit to suite, variant and name of its group."""
    names = basis.inventory.file_names

    def file(position: int) -> tuple[str, ...] | None:
        unit, name = basis.inventory.units[position], names[position]
        return (unit.suite, unit.variant, name) if name else None

    def fixture(position: int) -> tuple[str, ...] | None:
        index = basis.overheads.file[position] if basis.overheads.file else -1
        is_expensive = index >= 0 and basis.overheads.setup_s[index] > EXPENSIVE_FIXTURE_S
        return file(position) if is_expensive else None

    return {"none": None, "file": file, "file-strict": file, "fixture": fixture}[group]
