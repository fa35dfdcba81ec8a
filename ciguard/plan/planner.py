"""The plan as a pure function of its inputs: `plan`, and `with_listing_shards` if jobs list tests.

problem.py estimates the units, allocation.py chooses the number of shards, packing.py fills them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from ciguard.codec import plan_file as codec
from ciguard.errors import UsageError
from ciguard.history.query import BaseUnitCount
from ciguard.model import (
    CulpritCandidate,
    InventorySummary,
    LegPolicy,
    Plan,
    PlanNote,
    Pool,
    Prediction,
    Shard,
    ShardCountOption,
    Suite,
)
from ciguard.plan.allocation import (
    allocate_together_or_apart,
    apportion,
    counts_to_try,
    first_listing_shards,
    shard_count_option,
    walls_of,
)
from ciguard.plan.declared_needs import gpu_notes
from ciguard.plan.inventory import with_base_counts
from ciguard.plan.pool_shards import PoolAllocation, quick_makespans_s
from ciguard.plan.problem import (
    MAX_SHARDS,
    PackingProblem,
    PlanInputs,
    PlanOptions,
    ProblemBuilder,
    assign_pools,
    with_estimates,
)
from ciguard.plan.risk import WallTimeSpread, budget_bytes, overrun_probability
from ciguard.plan.shard_memory import predict_memory
from ciguard.plan.warnings import plan_warnings
from ciguard.run.frameworks.registry import framework
from ciguard.run.policy.recycling import exceeds_side_by_side
from ciguard.run.policy.reruns import PROBE_RATIO
from ciguard.run.policy.state import State

DIGITS: Final = 6
RISK_DIGITS: Final = 4
MIN_KEY_WIDTH: Final = 2
_NO_PREDICTION: Final = Prediction(0.0, 0.0)
QUICK_ESTIMATE_UNITS: Final = 50_000  # for more units, other numbers of shards are not estimated


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of a plan: history, commit and base; `notes` become its first warnings."""

    history: Mapping[str, Any] = field(default_factory=dict)
    repository: str | None = None
    workflow: str | None = None
    head_sha: str | None = None
    notes: tuple[PlanNote, ...] = ()
    base: BaseUnitCount | None = None


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan, the bytes of its file, and the names of groups that are split over shards."""

    plan: Plan
    content: bytes
    split: tuple[str, ...]


def plan(basis: PlanInputs, options: PlanOptions, origin: Provenance) -> PlanResult:
    """Make the plan: every unit in exactly one shard, the same bytes for the same input.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    units = with_estimates(basis)
    builder = ProblemBuilder(basis, units, options)
    pools = assign_pools(basis, units, options)
    works, allocations, bound_s = allocate_together_or_apart(builder, pools, options)
    shards, memory_risk = predict_memory(
        _number_shards([shard for allocation in allocations for shard in allocation.shards]),
        basis.suites,
        basis.inventory.keys,
        basis.estimates,
        basis.past_shards,
    )
    spreads = [spread for allocation in allocations for spread in allocation.spreads]
    draft = assemble_plan(
        basis, options, origin, shards=shards, spreads=spreads, works=works, bound_s=bound_s
    )
    draft = replace(
        draft,
        alternatives=_alternatives(works, shards, draft.pools) if basis.has_timings else (),
        shard_count_limited_by=_limiting_notes(allocations),
        culprit_candidates=_culprit_candidates(basis, shards),
        memory_risk=None if memory_risk is None else round(memory_risk, RISK_DIGITS),
    )
    wanted = options.shards
    if wanted is not None and options.per_combination:
        # If jobs list, `with_listing_shards` adds the missing shards of each combination.
        wanted = None if options.policy.lists else wanted * len(works)
    if wanted is not None and len(shards) < wanted:
        facts = {"requested": wanted, "planned": len(shards)}
        draft = replace(draft, warnings=(*draft.warnings, PlanNote("fewer_shards", facts)))
    target_wall_s = options.target_wall_s if options.shards is None else None
    floor_s = max(work.solo_s(work.floor) for work in works)
    notes = plan_warnings(draft, spreads, target_wall_s, options.risk, floor_s)
    notes = chain(notes, gpu_notes(basis.inventory.keys, shards, basis.declared))
    return encode_plan(draft, notes, _split_names(works, allocations))


def assemble_plan(
    basis: PlanInputs,
    options: PlanOptions,
    origin: Provenance,
    *,
    shards: Sequence[Shard],
    spreads: Sequence[WallTimeSpread],
    works: Sequence[PackingProblem],
    bound_s: float,
) -> Plan:
    """Make the plan with this lower bound; id, new warnings and notes on shards are missing."""
    walls_s = [shard.predicted.wall_s for shard in shards]
    makespan_s = max(walls_s)
    work = max(works, key=lambda each: (each.solo_s(each.floor), -each.floor))
    deadline_s = options.limit.deadline_s
    risk, probe_s, repeat_until_s = None, options.policy.probe_s, None
    if basis.has_timings:
        if options.repeat_budget is not None:
            repeat_until_s = round(makespan_s * (1 + options.repeat_budget), DIGITS)
        if probe_s is not None:
            probe_s = max(probe_s, round(PROBE_RATIO * makespan_s, DIGITS))
        risk = round(overrun_probability(deadline_s, walls_s, spreads), RISK_DIGITS)
    return Plan(
        id="",
        suites=dict(sorted(basis.suites.items())),
        pools={name: basis.pools[name] for name in sorted({shard.pool for shard in shards})},
        policy=replace(
            options.policy, deadline_s=deadline_s, probe_s=probe_s, repeat_until_s=repeat_until_s
        ),
        shards=tuple(
            replace(
                each, timeout_minutes=options.limit.step_minutes, serial=_is_serial(each, basis)
            )
            for each in shards
        ),
        lower_bound_s=round(bound_s, DIGITS),
        gap=max(0.0, round(makespan_s / bound_s - 1, DIGITS)) if bound_s > 0 else 0.0,
        inventory=with_base_counts(basis.inventory.summary(), origin.base),
        floor=work.units[work.floor],
        history=origin.history,
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        risk=risk,
        job_minutes=options.limit.job_minutes,
        claims=options.claims,
        warnings=origin.notes,
    )


def _is_serial(shard: Shard, basis: PlanInputs) -> bool:
    """Return whether tests that run in parallel would exceed the memory of their process."""
    for name in {unit.suite for unit in shard.units}:
        suite, row = basis.suites[name], framework(basis.suites[name].framework)
        count = (basis.pools[shard.pool].cpus or 1) if row.has_overlap else 1
        if row.has_parallel and suite.parallel is not False and suite.workers == "auto":
            state = State(shard, basis.suites, LegPolicy())
            if exceeds_side_by_side(state, name, count):
                return True
    return False


def encode_plan(
    draft: Plan, warnings: Iterable[PlanNote], split: tuple[str, ...] = ()
) -> PlanResult:
    """Add warnings and the id to a plan, and encode it."""
    draft = replace(draft, warnings=(*draft.warnings, *warnings))
    content = codec.encode(draft)
    # The id is the first value of the file. Decoding a large plan would double the time.
    plan_id = content.split(b'"', 4)[3].decode("ascii")
    return PlanResult(replace(draft, id=plan_id), content, split)


def _split_names(
    works: Sequence[PackingProblem], allocations: Sequence[PoolAllocation]
) -> tuple[str, ...]:
    """Return the names of groups that are in several shards."""
    names = set()
    for work, allocation in zip(works, allocations, strict=True):
        for first in allocation.split:
            name = work.group_key(first) if work.group_key else None
            names.add(name[-1] if isinstance(name, tuple) else work.units[first].unit)
    return tuple(sorted(names))


def _alternatives(
    works: Sequence[PackingProblem], shards: Sequence[Shard], pools: Mapping[str, Pool]
) -> tuple[ShardCountOption, ...]:
    """Return the cost of the chosen number of shards and of other numbers, ascending."""
    options = [shard_count_option(walls_of(shards), pools, chosen=True)]
    is_quick = sum(len(work.positions) for work in works) <= QUICK_ESTIMATE_UNITS
    max_count = min(MAX_SHARDS, sum(work.max_shards for work in works))
    for count in counts_to_try(len(shards), max_count) if is_quick else ():
        if count < len(works):
            continue
        walls_s: dict[str, list[float]] = {}
        for work, part in zip(works, apportion(works, count), strict=True):
            walls_s.setdefault(work.pool, []).extend(quick_makespans_s(work, part))
        options.append(shard_count_option(walls_s, pools, chosen=False))
    return tuple(sorted(options, key=lambda each: each.shards))


def _limiting_notes(allocations: Sequence[PoolAllocation]) -> tuple[PlanNote, ...]:
    """Return the reasons why there are not more shards, without duplicates."""
    notes = [allocation.limited_by for allocation in allocations]
    return tuple(note for position, note in enumerate(notes) if note not in notes[:position])


def _culprit_candidates(basis: PlanInputs, shards: Sequence[Shard]) -> tuple[CulpritCandidate, ...]:
    """Return the candidates; a candidate is isolated if its shard contains only candidates."""
    keys = basis.inventory.keys
    losses = {keys[unit]: each.losses for each in basis.candidate_sets for unit in each.units}
    candidates = []
    for shard in shards if losses else ():
        isolated = len(shards) > 1 and all(unit.key in losses for unit in shard.units)
        for key in (unit.key for unit in shard.units if unit.key in losses):
            suite, variant, unit = key
            candidates.append(CulpritCandidate(unit, losses[key], isolated, suite, variant))
    return tuple(sorted(candidates, key=attrgetter("suite", "variant", "unit")))


def _number_shards(shards: Sequence[Shard]) -> tuple[Shard, ...]:
    """Number the shards from 1 with digits of equal width, so that keys sort like numbers."""
    width = max(MIN_KEY_WIDTH, len(str(len(shards))))
    return tuple(replace(shard, key=f"{number:0{width}}") for number, shard in enumerate(shards, 1))


def empty_plan(
    options: PlanOptions, origin: Provenance, pools: Mapping[str, Pool], files: tuple[str, ...]
) -> Plan:
    """Make a plan without units, to which `with_listing_shards` adds shards."""
    return Plan(
        id="",
        suites={},
        pools=pools,
        policy=replace(options.policy, deadline_s=options.limit.deadline_s),
        shards=(),
        lower_bound_s=0.0,
        gap=0.0,
        inventory=InventorySummary(0, dict.fromkeys(files, 0), hash=""),
        history=origin.history,
        shard_count_limited_by=(PlanNote("requested" if options.shards else "no_timings"),),
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        job_minutes=options.limit.job_minutes,
        warnings=origin.notes,
    )


def with_listing_shards(
    draft: Plan,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    options: PlanOptions,
    split: tuple[str, ...] = (),
) -> PlanResult:
    """Complete a plan whose jobs list the units: every variant gets shards, even without a unit.

    Raises:
        UsageError: there are more shards than GitHub allows jobs.
    """
    shards: list[Shard] = []
    empty_shards: list[Shard] = []
    first = first_listing_shards(suites)
    for name, suite in sorted(suites.items()):
        for variant, entry in suite.variants.items():
            planned = [
                replace(shard, suite=name, variant=variant, processes=options.processes)
                for shard in draft.shards
                if shard.suite_key == (name, variant)
            ]
            pool = entry.pool or options.pool_of[name]
            empty = Shard(
                "",
                pool,
                (),
                _NO_PREDICTION,
                options.processes,
                options.limit.step_minutes,
                budget_bytes(pools[pool]),
                name,
                variant,
            )
            shards += planned
            least = max(len(planned) or first, options.min_shards)
            empty_shards += [empty] * ((options.shards or least) - len(planned))
    count = len(shards) + len(empty_shards)
    if count > MAX_SHARDS:
        fix = "request fewer shards for each combination, or divide the job"
        raise UsageError(f"{count} shards, and GitHub runs at most {MAX_SHARDS} jobs", fix=fix)
    unplanned = draft.policy.repeat_unplanned // max(1, count)
    ordered = [*sorted(shards, key=lambda shard: shard.key), *empty_shards]
    used = {shard.pool for shard in ordered}
    return encode_plan(
        replace(
            draft,
            policy=replace(draft.policy, repeat_unplanned=unplanned),
            suites={name: draft.suites.get(name, suite) for name, suite in suites.items()},
            pools={name: pool for name, pool in pools.items() if name in used},
            shards=_number_shards(ordered),
        ),
        (),
        split,
    )
