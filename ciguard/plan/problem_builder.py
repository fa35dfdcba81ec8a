"""Inputs and options of a plan, and the packing problem of each pool made from them. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.model import LegPolicy, PlannedUnit
from ciguard.plan.declared_needs import NO_NEEDS
from ciguard.plan.problem import NO_OVERHEADS, PackingProblem
from ciguard.plan.risk import budget_bytes, needed_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.model import Pool, Suite
    from ciguard.plan.deadline import TimeLimits
    from ciguard.plan.declared_needs import DeclaredNeeds
    from ciguard.plan.estimates import Estimates
    from ciguard.plan.inventory import Ancestors, Inventory
    from ciguard.plan.loss_isolation import CandidateSet
    from ciguard.plan.overheads import Overheads
    from ciguard.plan.packing import GroupKey

Grouping = Literal["none", "file", "file-strict", "fixture"]
DEFAULT_POLICY: Final = LegPolicy()
EXPENSIVE_FIXTURE_S: Final = (
    0.05  # of shared fixtures: cheaper ones are no reason to keep a file together
)


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
        """Whether the history has seen any unit: else all times are equal, and nobody's."""
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
