"""The plan for shards that the inventory names: an existing matrix as it is. Pure.

No unit changes its shard. A unit may be in several shards, as in many matrices written by hand; the
guard reports it. A shard's predicted time is the sum of its units, of the start and end of a
process for each of its suites and variants, and of the leg's own overhead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError
from ciguard.model import Plan, PlanNote, Prediction, Shard, UnitKey
from ciguard.plan.declared_needs import gpu_notes
from ciguard.plan.planner import DIGITS, PlanResult, Provenance, assemble_plan, encode_plan
from ciguard.plan.problem import (
    PackingProblem,
    PlanInputs,
    PlanOptions,
    ProblemBuilder,
    with_estimates,
)
from ciguard.plan.risk import WallTimeSpread
from ciguard.plan.warnings import plan_warnings
from ciguard.text import count_of, name_some, one_line


@dataclass(frozen=True, slots=True)
class FixedJob:
    """The job of a shard in a workflow written by hand; `name` as GitHub shows it."""

    name: str
    pool: str
    timeout_minutes: int


@dataclass(frozen=True, slots=True)
class FixedAssignment:
    """Units, each once, with their shards.

    Attributes:
        empty: shards without units.
        jobs: of all shards, or of none. With jobs the empty shards stay in the plan.
    """

    units: tuple[InventoryUnit, ...]
    shards: Mapping[UnitKey, tuple[str, ...]]
    empty: tuple[str, ...] = ()
    jobs: Mapping[str, FixedJob] = field(default_factory=dict)


def fixed_assignment(
    units: Sequence[InventoryUnit], empty: Sequence[str], source: str
) -> FixedAssignment | None:
    """Return the shards that a listing names; None if it names none.

    Raises:
        InputError: the listing names shards for some units only.
    """
    without = [unit.unit for unit in units if unit.shard is None]
    if len(without) == len(units) and not empty:
        return None
    if without:
        what = f"{count_of(len(without), 'test')} without a shard: {name_some(without, one_line)}"
        fix = "name the shard of every test, or of none"
        raise InputError(what, where=source, fix=fix)
    shards: dict[UnitKey, list[str]] = defaultdict(list)
    first: dict[UnitKey, InventoryUnit] = {}
    for unit in units:
        first.setdefault(unit.key, unit)
        shards[unit.key].append(unit.shard or "")
    shards_of_unit = {key: tuple(names) for key, names in shards.items()}
    return FixedAssignment(tuple(first.values()), shards_of_unit, tuple(empty))


def plan_fixed(
    basis: PlanInputs, assignment: FixedAssignment, options: PlanOptions, origin: Provenance
) -> PlanResult:
    """Make the plan: every unit in its own shards, by name; the same bytes for the same input."""
    units = with_estimates(basis)
    builder = ProblemBuilder(basis, units, replace(options, processes=1))
    members: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        for name in assignment.shards[unit.key]:
            members[name].append(position)
    names = sorted(members)
    jobs = assignment.jobs
    pools = {
        name: jobs[name].pool if jobs else options.pool_of[units[members[name][0]].suite]
        for name in names
    }
    positions_by_pool: dict[str, set[int]] = defaultdict(set)
    for name in names:
        positions_by_pool[pools[name]].update(members[name])
    works = {
        pool: builder.for_units(pool, sorted(positions))
        for pool, positions in sorted(positions_by_pool.items())
    }
    spreads = [works[pools[name]].spread(members[name], 1) for name in names]
    shards = tuple(
        _shard(name, works[pools[name]], members[name], spread)
        for name, spread in zip(names, spreads, strict=True)
    )
    counts = Counter(pools.values())
    bound_s = max(work.bound_s(counts[pool]) for pool, work in works.items())
    all_works = [*works.values()]
    draft = assemble_plan(
        basis, options, origin, shards=shards, spreads=spreads, works=all_works, bound_s=bound_s
    )
    warnings = (
        *_warnings(assignment, names),
        *plan_warnings(draft, spreads, None, options.risk),
        *gpu_notes(basis.inventory.keys, shards, basis.declared),
    )
    return encode_plan(_with_jobs(draft, basis, jobs) if jobs else draft, warnings)


def _with_jobs(draft: Plan, basis: PlanInputs, jobs: Mapping[str, FixedJob]) -> Plan:
    """Add names and limits of the jobs, and the jobs without a unit, to the plan."""
    planned = {shard.key: shard for shard in draft.shards}
    shards = [
        replace(
            planned.get(key) or Shard(key, job.pool, (), Prediction(0.0, 0.0)),
            job=job.name,
            timeout_minutes=job.timeout_minutes,
        )
        for key, job in sorted(jobs.items())
    ]
    pools = {name: basis.pools[name] for name in sorted({shard.pool for shard in shards})}
    return replace(draft, shards=tuple(shards), pools=pools, job_minutes=None)


def _shard(
    name: str, work: PackingProblem, members: Sequence[int], spread: WallTimeSpread
) -> Shard:
    """Make a shard that runs its units one after the other."""
    overhead_s = work.leg.total_s + sum(work.processes_s(members))
    wall_s = round(overhead_s + work.load_s(members), DIGITS)
    units = tuple(work.units[member] for member in members)
    return Shard(name, work.pool, units, Prediction(wall_s, round(spread.p95_s(wall_s), DIGITS)))


def _warnings(assignment: FixedAssignment, planned: Sequence[str]) -> Iterator[PlanNote]:
    repeated = [key.unit for key, names in assignment.shards.items() if len(names) > 1]
    if repeated:
        yield PlanNote("tests_in_several_shards", {"tests": repeated})
    empty = sorted({*assignment.empty} - {*planned})
    if empty and not assignment.jobs:
        yield PlanNote("empty_shards", {"shards": empty})
