"""Which pool a unit runs in: as configured, the cheapest, a larger one if it is too big. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.history.query import legs
from ciguard.model import PlanNote
from ciguard.plan.cost import cost_of
from ciguard.plan.problem import RELATIVE_TOLERANCE
from ciguard.plan.risk import budget_bytes
from ciguard.plan.shard_count import allocate
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.history.file import History
    from ciguard.model import PlannedUnit, Pool
    from ciguard.plan.problem_builder import PlanInputs, PlanOptions, ProblemBuilder

MAX_LEGS: Final = 40  # newest legs of a pool that its capacity is taken from


@dataclass(frozen=True, slots=True)
class PoolAssignment:
    """The pool of each unit, by position, and notes on it."""

    pools: tuple[str, ...]
    notes: tuple[PlanNote, ...] = ()


def assign_pools(
    basis: PlanInputs, units: Sequence[PlannedUnit], options: PlanOptions, works: ProblemBuilder
) -> PoolAssignment:
    """Give every unit its pool.

    A suite that names no pool runs where it costs least of the pools that keep the target; prices
    must be known of all of them, else the first one is taken. A unit that needs more memory than
    its pool gives goes to the smallest one that has enough; where none has, or the number of shards
    that was requested leaves no room for another pool, it stays.
    """
    chosen = _of_suites(basis, units, options, works)
    as_chosen = tuple(chosen[unit.suite] for unit in units)
    pools = list(as_chosen)
    larger: Counter[tuple[str, str]] = Counter()
    for position, unit in enumerate(units if len(basis.pools) > 1 else ()):
        fits = _smallest_that_fits(basis, unit, pools[position])
        if fits != pools[position]:
            larger[pools[position], fits] += 1
            pools[position] = fits
    if options.shards is not None and len(set(pools)) > options.shards:
        return PoolAssignment(
            as_chosen
        )  # no shard is left for another pool: they are named instead
    notes = tuple(
        PlanNote("larger_pool", {"tests": count, "pool": small, "larger_pool": big})
        for (small, big), count in sorted(larger.items())
    )
    return PoolAssignment(tuple(pools), notes)


def _of_suites(
    basis: PlanInputs, units: Sequence[PlannedUnit], options: PlanOptions, works: ProblemBuilder
) -> dict[str, str]:
    names = list(basis.pools)
    found = {suite: pool or names[0] for suite, pool in options.pool_of.items()}
    free = sorted(suite for suite, pool in options.pool_of.items() if pool is None)
    priced = all(pool.usd_per_minute is not None for pool in basis.pools.values())
    if len(names) < 2 or not priced or not free:  # noqa: PLR2004  # nothing to choose from
        return found
    members: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        members[unit.suite].append(position)
    for suite in free:
        if members[suite]:
            found[suite] = _cheapest(basis, units, options, works, members[suite])
    return found


def _cheapest(
    basis: PlanInputs,
    units: Sequence[PlannedUnit],
    options: PlanOptions,
    works: ProblemBuilder,
    positions: Sequence[int],
) -> str:
    """Of the pools that keep the target the cheapest; ties go to the first."""
    offers = []
    for rank, name in enumerate(basis.pools):
        # What is too big for it goes to another pool, and its price with it.
        parts: dict[str, list[int]] = defaultdict(list)
        for place in positions:
            parts[_smallest_that_fits(basis, units[place], name)].append(place)
        held = [works.for_units(pool, members) for pool, members in sorted(parts.items())]
        free = (
            replace(options, shards=max(options.shards, len(held))) if options.shards else options
        )
        costs = [
            cost_of([shard.predicted.wall_s for shard in one.shards], basis.pools[work.pool])
            for work, one in zip(held, allocate(held, free), strict=True)
        ]
        setup_s = basis.pools[name].setup_s or 0.0
        late_s = max(cost.wall_s for cost in costs) - setup_s - options.target_wall_s
        late = max(0.0, late_s - RELATIVE_TOLERANCE * options.target_wall_s)
        offers.append((late, sum(cost.price_usd or 0.0 for cost in costs), rank, name))
    return min(offers)[-1]


def _smallest_that_fits(basis: PlanInputs, unit: PlannedUnit, name: str) -> str:
    """This pool, or the smallest one in which the unit fits by itself."""
    if unit.peak_delta_bytes is None:
        return name
    base = basis.suites[unit.suite].base_bytes
    need = (UNKNOWN_BASE_BYTES if base is None else base) + unit.peak_delta_bytes
    budget = budget_bytes(basis.pools[name])
    if budget is None or need <= budget:
        return name
    budgets = {other: budget_bytes(pool) for other, pool in basis.pools.items()}
    enough = [(size, other) for other, size in budgets.items() if size is not None and size >= need]
    return min(enough)[1] if enough else name


def with_observed_capacity(pools: Mapping[str, Pool], history: History) -> dict[str, Pool]:
    """Pools with the memory and the cores that their legs found, where the configuration has none.

    Machines of one pool may differ: the smallest of the last legs is what can be counted on.
    """
    found: dict[str, list[tuple[int | None, int | None]]] = defaultdict(list)
    for leg in reversed(legs(history)):
        if leg.runner.pool in pools and len(found[leg.runner.pool]) < MAX_LEGS:
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
