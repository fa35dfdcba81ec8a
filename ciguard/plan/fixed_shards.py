"""A plan whose shards somebody else has chosen: the contract of a run that exists already. Pure.

Nothing is moved. A unit may be in several shards, as it is in many a matrix written by hand: the
guard says so. What a shard is expected to take is the sum of what its units do, of the start and
end of a process for each of its suites and variants, and of the leg's own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.codec import plan_file as codec
from ciguard.errors import InputError
from ciguard.model import Plan, Prediction, Shard
from ciguard.plan.base_plan import with_base_counts
from ciguard.plan.inventory import name_some
from ciguard.plan.planner import DIGITS, PlanResult, Provenance
from ciguard.plan.problem_builder import ProblemBuilder, with_estimates
from ciguard.plan.risk import WallTimeSpread
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.model import UnitKey
    from ciguard.plan.problem import PackingProblem
    from ciguard.plan.problem_builder import PlanInputs, PlanOptions


@dataclass(frozen=True, slots=True)
class FixedAssignment:
    """Units, each once, and in which shards each is; `empty` shards have none."""

    units: tuple[InventoryUnit, ...]
    shards: Mapping[UnitKey, tuple[str, ...]]
    empty: tuple[str, ...] = ()


def fixed_assignment(
    units: Sequence[InventoryUnit], empty: Sequence[str], source: str
) -> FixedAssignment | None:
    """The shards that a listing names; None where it names none.

    Raises:
        InputError: it names them for some units only.
    """
    without = [unit.unit for unit in units if unit.shard is None]
    if len(without) == len(units) and not empty:
        return None
    if without:
        what = f"{count_of(len(without), 'unit')} without a shard: {name_some(without)}"
        fix = "name the shard of every unit, or of none"
        raise InputError(what, where=source, fix=fix)
    shards: dict[UnitKey, list[str]] = defaultdict(list)
    first: dict[UnitKey, InventoryUnit] = {}
    for unit in units:
        first.setdefault(unit.key, unit)
        shards[unit.key].append(unit.shard or "")
    found = {key: tuple(names) for key, names in shards.items()}
    return FixedAssignment(tuple(first.values()), found, tuple(empty))


def plan_fixed(
    basis: PlanInputs, assignment: FixedAssignment, options: PlanOptions, origin: Provenance
) -> PlanResult:
    """Make the plan: every unit in its own shards, by name; the same bytes for the same input."""
    units = with_estimates(basis)
    pool = next(iter(basis.pools))
    making = ProblemBuilder(basis, units, replace(options, processes=1))
    homes: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        for name in assignment.shards[unit.key]:
            homes[name].append(position)
    pools = {
        name: options.pool_of.get(units[members[0]].suite) or pool
        for name, members in homes.items()
    }
    works = {name: making.for_units(name, range(len(units))) for name in sorted({*pools.values()})}
    shards = tuple(
        Shard(
            key=name,
            pool=pools[name],
            units=tuple(units[position] for position in members),
            predicted=_prediction(works[pools[name]], members),
            timeout_minutes=options.limit.step_minutes,
        )
        for name, members in sorted(homes.items())
    )
    longest = max(units, key=lambda unit: (unit.wall_s, unit.key))
    bound_s = min(work.bound_s(len(shards)) for work in works.values())
    makespan_s = max(shard.predicted.wall_s for shard in shards)
    found = Plan(
        id="",
        suites={name: basis.suites[name] for name in sorted({unit.suite for unit in units})},
        pools={name: basis.pools[name] for name in sorted({shard.pool for shard in shards})},
        policy=replace(options.policy, deadline_s=options.limit.deadline_s),
        shards=shards,
        lower_bound_s=round(bound_s, DIGITS),
        gap=max(0.0, round(makespan_s / bound_s - 1, DIGITS)) if bound_s > 0 else 0.0,
        inventory=with_base_counts(basis.inventory.summary(), origin.base),
        floor=longest,
        history=origin.history,
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        job_minutes=options.limit.job_minutes,
        warnings=(*origin.notes, *_warnings(assignment, [shard.key for shard in shards])),
    )
    content = codec.encode(found)
    return PlanResult(codec.decode(content, "plan"), content, ())


def _prediction(work: PackingProblem, members: Sequence[int]) -> Prediction:
    overhead_s = work.leg.total_s + sum(work.processes_s(members))
    wall_s = round(overhead_s + work.load_s(members), DIGITS)
    variance_s2 = sum(work.variances_s2[member] for member in members)
    spread = WallTimeSpread(variance_s2, 1, work.speed_spread, work.leg.spread_s)
    return Prediction(wall_s, round(spread.p95_s(wall_s), DIGITS))


def _warnings(assignment: FixedAssignment, planned: Sequence[str]) -> list[str]:
    found = []
    several = [key.unit for key, names in assignment.shards.items() if len(names) > 1]
    if several:
        found.append(
            f"{count_of(len(several), 'unit')} in more than one shard: {name_some(several)}"
        )
    named_ones = {name for names in assignment.shards.values() for name in names} | {
        *assignment.empty
    }
    idle = sorted(named_ones - {*planned})
    if idle:
        found.append(f"{count_of(len(idle), 'shard')} without a unit, left out: {name_some(idle)}")
    return found
