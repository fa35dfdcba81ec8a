"""Inputs and options of a plan, and the packing problem of each pool with its bounds. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat, takewhile
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.model import LegPolicy, PlannedUnit, Pool, Suite
from ciguard.plan.declared_needs import NO_NEEDS, DeclaredNeeds
from ciguard.plan.overheads import LegCost, Overheads
from ciguard.plan.packing import Costs, form_groups, lower_bound_s
from ciguard.plan.risk import (
    WallTimeSpread,
    budget_bytes,
    limit_for_risk,
    needed_bytes,
    overrun_probability,
)
from ciguard.plan.time_limits import TimeLimits, is_enforced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.plan.estimates import Estimates
    from ciguard.plan.inventory import Ancestors, Inventory
    from ciguard.plan.loss_isolation import CandidateSet
    from ciguard.plan.packing import Group, GroupKey

MAX_SHARDS: Final = 256  # jobs that GitHub lets a matrix have
RELATIVE_TOLERANCE: Final = 1e-9  # of sums of the same numbers in another order
NO_OVERHEADS: Final = Overheads()

Grouping = Literal["none", "file", "file-strict", "fixture"]
DEFAULT_POLICY: Final = LegPolicy()
# Of shared fixtures: cheaper ones are no reason to keep a file together.
EXPENSIVE_FIXTURE_S: Final = 0.05


@dataclass(frozen=True)  # no slots: what many shard counts ask for is summed once
class PackingProblem:
    """What is to be done in one pool.

    Attributes:
        units: of the whole inventory, by key; `positions` selects.
        run_order, variances_s2: by position, as in `Inventory` and `Estimates`.
        group_key: what keeps units together; None for nothing.
        overheads: of this pool's shards.
        in_folder: by position, whether what keeps the unit together is a folder; None for none.
        colocated: units that the suite itself keeps together.
        candidate_sets: units that may have killed shards.
        moves_blocks: units may move to other legs during the run.
        deadline_s, risk: when a leg stops itself, and the accepted P(any shard gets there);
            infinite without timings.
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
        """What each unit costs a shard, by position, of the whole inventory."""
        if not self.overheads.inter_test_s:
            return tuple(unit.wall_s for unit in self.units)
        by_suite = {name: self.overheads.inter_test_gap_s(name, self.pool) for name in self.suites}
        return tuple(unit.wall_s + by_suite[unit.suite] for unit in self.units)

    @cached_property
    def setups_s(self) -> tuple[float, ...] | None:
        """By position, what the fixtures that its file shares take once; None where none do."""
        by_file = self.overheads.setup_s
        if not any(by_file):
            return None
        return tuple(by_file[file] if file >= 0 else 0.0 for file in self.overheads.file)

    @cached_property
    def costs(self) -> Costs:
        """What its units take, and what their groups set up."""
        if self.group_key is None:
            return Costs(self.walls_s)
        return Costs(self.walls_s, self.setups_s, self.in_folder)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All its units, by what keeps them together."""
        return form_groups(self.costs, self.group_key, self.positions, colocated=self.colocated)

    @cached_property
    def total_s(self) -> float:
        """Sum over its units, and over what their files set up once."""
        return self.load_s(self.positions)

    @cached_property
    def floor(self) -> int:
        """The unit that no number of shards can go below; ties go to the first key."""
        process_s = {name: process_overhead_s(suite) for name, suite in self.suites.items()}

        def beyond_leg_s(position: int) -> float:  # which is the same for all
            setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
            return process_s[self.units[position].suite] + self.walls_s[position] + setup_s

        return max(sorted(self.positions), key=beyond_leg_s)

    @cached_property
    def leg(self) -> LegCost:
        """What each of its shards takes besides its processes."""
        return self.overheads.leg(self.pool)

    @cached_property
    def starts_s(self) -> list[float]:
        """Overhead of one process of each of its suites and variants, ascending."""
        return self.processes_s(self.positions)

    @property
    def min_process_overhead_s(self) -> float:
        """What any process takes besides its units."""
        return self.starts_s[0]

    def load_s(self, positions: Iterable[int]) -> float:
        """What units take in one process together, once it has started."""
        members = list(positions)
        walls_s = [self.walls_s[position] for position in members]
        if self.setups_s is not None:
            first = {self.overheads.file[position]: position for position in members}
            walls_s += [self.setups_s[position] for position in first.values()]
        return math.fsum(walls_s)

    @cached_property
    def infeasible(self) -> tuple[tuple[int, ...], ...]:
        """Units, and groups that the suite keeps together, that alone pass the deadline.

        At this risk; longest first. No number of shards helps them, and the others are to keep it.
        """
        return self._long_blocks if self.enforces_deadline else ()

    @cached_property
    def enforces_deadline(self) -> bool:
        """Return whether shards are made so that they keep the deadline."""
        return is_enforced(sum(map(len, self._long_blocks)), len(self.positions))

    @cached_property
    def longest_feasible_s(self) -> float:
        """What a shard of the longest unit or group takes that is feasible."""
        blocks = self._blocks if self.infeasible else self._longest
        return max(map(self.block_solo_s, blocks[len(self.infeasible) :]))

    @property
    def _longest(self) -> tuple[tuple[int, ...]]:
        return (max(((self.floor,), *self.colocated), key=self.block_solo_s),)

    @cached_property
    def _blocks(self) -> Sequence[tuple[int, ...]]:
        """Units by themselves, or with those that the suite keeps with them, longest first."""
        taken = {unit for members in self.colocated for unit in members}
        blocks = [*self.colocated, *((one,) for one in self.positions if one not in taken)]
        return sorted(blocks, key=lambda block: (-self.block_solo_s(block), block))

    @cached_property
    def _long_blocks(self) -> tuple[tuple[int, ...], ...]:
        if math.isinf(self.deadline_s) or not any(map(self._is_infeasible, self._longest)):
            return ()  # sorting a million takes a second, and the next one is not needed
        return tuple(takewhile(self._is_infeasible, self._blocks))

    def _is_infeasible(self, members: Sequence[int]) -> bool:
        spread = self.spread(members, min(self.processes, len(members)))
        return (
            overrun_probability(self.deadline_s, [self.block_solo_s(members)], [spread]) > self.risk
        )

    def block_solo_s(self, members: Sequence[int]) -> float:
        """What a shard of nothing but units that stay together takes at least."""
        alone_s = max(map(self.solo_s, members))
        if len(members) == 1:
            return alone_s
        return max(alone_s, self.load_s(members) / self.processes + self.min_shard_overhead_s)

    @cached_property
    def deadline_at_risk_s(self) -> float:
        """What a shard may take so that it keeps the deadline on slow machines, at this risk."""
        if not self.enforces_deadline:
            return math.inf
        room = limit_for_risk(self.risk, [1.0], [WallTimeSpread(0.0, 1, self.speed_spread)])
        return self.deadline_s / room

    def spread(self, members: Sequence[int], processes: int) -> WallTimeSpread:
        """How far a shard of these units may be off."""
        variance_s2 = math.fsum(self.variances_s2[member] for member in members)
        return WallTimeSpread(variance_s2, processes, self.speed_spread, self.leg.spread_s)

    @property
    def min_shard_overhead_s(self) -> float:
        """What any shard takes besides its units."""
        return self.leg.total_s + self.min_process_overhead_s

    @cached_property
    def max_shards(self) -> int:
        """The most shards of which none is empty."""
        return len(self.positions) - sum(len(one) - 1 for one in self.colocated)

    def processes_s(self, positions: Iterable[int]) -> list[float]:
        """What a process of each of these units' suites and variants takes besides its units."""
        units = map(self.units.__getitem__, positions)
        suite_keys = {
            (unit.suite, unit.variant) for unit in units
        }  # its key would be made for each
        return sorted(process_overhead_s(self.suites[suite]) for suite, _ in suite_keys)

    def solo_s(self, position: int) -> float:
        """What a shard of this unit alone takes: with its fixtures, its process, and the leg."""
        setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
        process_s = process_overhead_s(self.suites[self.units[position].suite])
        return math.fsum((self.leg.total_s, process_s, self.walls_s[position], setup_s))

    def bound_s(self, shard_count: int) -> float:
        """The least wall time of this many shards; each suite and variant starts at least once."""
        slots = shard_count * self.processes
        started_s = math.fsum(self.starts_s) - min(len(self.starts_s), slots) * self.starts_s[0]
        floor_s = self.solo_s(self.floor)
        return lower_bound_s(
            self.total_s + started_s, floor_s, slots, setup_s=self.min_shard_overhead_s
        )


def process_overhead_s(suite: Suite) -> float:
    """What a process of the suite takes besides its units."""
    return suite.setup_s + suite.teardown_s


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user requests of a plan.

    Attributes:
        pool_of: by suite, a name of `pools`.
        shards: exactly so many, or as many as `target_wall_s` needs.
        risk: accepted P(any shard passes its limit).
        per_combination: `shards` and `target_wall_s` are for each variant of a suite, and no shard
            holds two: each is a combination of a job's matrix.
        processes: side by side in each leg.
        claims: the service that legs ask for blocks of units; "" for none.
        policy: of the legs; its deadline comes from `limit`.
    """

    limit: TimeLimits
    pool_of: Mapping[str, str]
    shards: int | None = None
    target_wall_s: float = 600.0
    risk: float = 0.01
    per_combination: bool = False
    processes: int = 1
    group: Grouping = "file"
    claims: str = ""
    policy: LegPolicy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What is there.

    Attributes:
        estimates: for the inventory's units.
        suites: with what their processes cost.
        pools: the preferred one first.
        ancestors: by suite, names of the groups of a unit, nearest first.
        limits_s: of units, by position; empty where none has one.
    """

    inventory: Inventory
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    ancestors: Mapping[str, Ancestors]
    overheads: Overheads = NO_OVERHEADS
    candidate_sets: Sequence[CandidateSet] = ()
    limits_s: Sequence[float | None] = ()
    declared: DeclaredNeeds = NO_NEEDS

    @property
    def has_timings(self) -> bool:
        """Return whether the history has seen any unit: else all times are equal, and nobody's."""
        return bool(self.estimates.has_history.any())


def with_estimates(basis: PlanInputs) -> tuple[PlannedUnit, ...]:
    """Every unit of the inventory with its estimate, in its order."""
    keys, estimates = basis.inventory.keys, basis.estimates
    return tuple(
        map(
            PlannedUnit,
            [key.unit for key in keys],
            [key.suite for key in keys],
            [key.variant for key in keys],
            estimates.wall_s.tolist(),
            _sizes(estimates.peak_delta_bytes),
            _sizes(estimates.retained_bytes),
            basis.limits_s or repeat(None),
            estimates.has_history.tolist(),
        )
    )


def _sizes(column: NDArray[np.float64]) -> list[int | None]:
    """Whole numbers, None for NaN."""
    found: list[int | None] = np.nan_to_num(column).astype(np.int64).tolist()
    for position in np.flatnonzero(np.isnan(column)).tolist():
        found[position] = None
    return found


def assign_pools(
    basis: PlanInputs, units: Sequence[PlannedUnit], options: PlanOptions
) -> tuple[str, ...]:
    """The pool of each unit, by position: its suite's, or the smallest one that has enough memory.

    Enough of the machine's, and of a GPU's where the unit declares a need of it. Pools without a
    GPU come first. A unit for which no pool has enough stays in its suite's; so do all where fewer
    shards are requested than the pools in use. The plan names what needs more than its pool has.
    """
    own = {
        (suite, name): variant.pool
        for suite, entry in basis.suites.items()
        for name, variant in entry.variants.items()
        if variant.pool
    }
    chosen = tuple(own.get(unit.key[:2]) or options.pool_of[unit.suite] for unit in units)
    if options.per_combination:  # what a job runs on is in the user's workflow
        return chosen
    budgets = {name: budget_bytes(pool) for name, pool in basis.pools.items()}
    gpus = basis.declared.gpu_bytes
    ordered = sorted(budgets, key=lambda name: (gpus.get(name, 0), budgets[name] or 0, name))
    found = list(chosen)
    for position, unit in enumerate(units if len(budgets) > 1 else ()):
        pool, need = found[position], needed_bytes(unit, basis.suites) or 0
        budget = budgets[pool]
        fits_gpu = basis.declared.has_gpu_room(position, pool)
        if fits_gpu and (budget is None or need <= budget):
            continue
        # For its GPU a unit may go where the machine's memory is unknown.
        unknown = 0 if fits_gpu else need
        fits = (
            name
            for name in ordered
            if basis.declared.has_gpu_room(position, name) and need <= (budgets[name] or unknown)
        )
        found[position] = next(fits, pool)
    too_many = options.shards is not None and len({*found}) > options.shards
    return chosen if too_many else tuple(found)


class ProblemBuilder:
    """Makes the work of one plan; what all of its pools share is made once.

    Args:
        units: of `planned_units`.
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
        """The work of one pool with these units.

        Args:
            concurrency: its part of the jobs that the pool runs at once; all of them where None.
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
        """All units' work, by pool and command.

        A shard holds units of one pool and command: to reproduce it, one program has to be started.

        Args:
            pools: of each unit.
            by_variant: a shard holds units of one suite and variant, too.
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
        """How many of the pool's jobs a command may have at once, by its time; at least one."""
        cap = self._basis.pools[pool].concurrency
        if cap is None:
            return None
        loads_s = [self._load_s(units) for name, units in parts if name == pool]
        all_s = math.fsum(loads_s)
        return (
            cap
            if len(loads_s) == 1 or not all_s
            else max(1, int(cap * self._load_s(members) / all_s))
        )

    def _load_s(self, members: Sequence[int]) -> float:
        return math.fsum(self._units[place].wall_s for place in members)


def _colocated(
    inventory: Inventory, positions: Sequence[int], group: Grouping
) -> tuple[tuple[int, ...], ...]:
    """Units that stay in one shard at any cost: groups of the suite, and files if `file-strict`.

    A group of the suite that is in several such files joins them.
    """
    names: dict[int, list[tuple[str, ...]]] = {}
    joined: dict[tuple[str, ...], tuple[str, ...]] = {}

    def root(name: tuple[str, ...]) -> tuple[str, ...]:
        while name in joined:
            name = joined[name]
        return name

    for position in sorted(positions):
        unit, file = inventory.units[position], inventory.file_names[position]
        mine: list[tuple[str, ...]] = []
        if unit.group:
            mine.append(("group", unit.suite, unit.variant, unit.group))
        if group == "file-strict" and file:
            mine.append(("file", unit.suite, unit.variant, file))
        if mine:
            names[position] = mine
            first, last = root(mine[0]), root(mine[-1])
            if first != last:
                joined[first] = last
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, mine in names.items():
        found[root(mine[0])].append(position)
    return tuple(tuple(members) for members in found.values())


def _group_key(basis: PlanInputs, group: Grouping) -> GroupKey | None:
    """What keeps units together: suite, variant and name of their group."""
    names = basis.inventory.file_names

    def file(position: int) -> tuple[str, ...] | None:
        unit, name = basis.inventory.units[position], names[position]
        return (unit.suite, unit.variant, name) if name else None

    def fixture(position: int) -> tuple[str, ...] | None:
        place = basis.overheads.file[position] if basis.overheads.file else -1
        is_expensive = place >= 0 and basis.overheads.setup_s[place] > EXPENSIVE_FIXTURE_S
        return file(position) if is_expensive else None

    return {"none": None, "file": file, "file-strict": file, "fixture": fixture}[group]
