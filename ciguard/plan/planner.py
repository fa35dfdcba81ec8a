"""A plan: a pure function of inventory, estimates, suites, pools and options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec import plan_file as codec
from ciguard.model import CulpritCandidate, Plan, PlanNote, Pool, Shard, ShardCountOption, UnitKey
from ciguard.plan.allocation import (
    allocate_together_or_apart,
    apportion,
    counts_to_try,
    option,
    walls_of,
)
from ciguard.plan.declared_needs import gpu_notes
from ciguard.plan.inventory import BaseCount, with_base_counts
from ciguard.plan.memory_risk import plan_memory_risk
from ciguard.plan.pool_shards import PoolAllocation, quick_makespans_s
from ciguard.plan.problem import MAX_SHARDS, ProblemBuilder, assign_pools, with_estimates
from ciguard.plan.risk import WallTimeSpread, overrun_probability
from ciguard.plan.warnings import plan_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.plan.problem import PackingProblem, PlanInputs, PlanOptions

DIGITS: Final = 6
RISK_DIGITS: Final = 4
MIN_KEY_WIDTH: Final = 2
QUICK_ESTIMATE_UNITS: Final = 50_000  # above, only the chosen number of shards is worked out


@dataclass(frozen=True, slots=True)
class Provenance:
    """The plan's source: history, commit, base; `notes` become its first warnings."""

    history: Mapping[str, Any] = field(default_factory=dict)
    repository: str | None = None
    workflow: str | None = None
    head_sha: str | None = None
    notes: tuple[PlanNote, ...] = ()
    base: BaseCount | None = None


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The plan, its file's bytes, and the groups that had to be split over shards, by name."""

    plan: Plan
    content: bytes
    split: tuple[str, ...]


def plan(basis: PlanInputs, options: PlanOptions, origin: Provenance) -> PlanResult:
    """Make the plan: every unit in exactly one shard, the same bytes for the same input.

    Raises:
        UsageError: fewer shards are requested than there are pools and commands.
    """
    units = with_estimates(basis)
    making = ProblemBuilder(basis, units, options)
    pools = assign_pools(basis, units, options)
    works, distributions, bound_s = allocate_together_or_apart(making, pools, options)
    shards = _number_shards(distributions)
    spreads = [spread for one in distributions for spread in one.spreads]
    made = ShardSet(shards, spreads, works, bound_s)
    draft = assemble_plan(basis, options, origin, made)
    draft = replace(
        draft,
        alternatives=_alternatives(works, shards, draft.pools) if basis.has_timings else (),
        shard_count_limited_by=_limiting_notes(distributions),
        culprit_candidates=_culprit_candidates(basis, shards),
        memory_risk=_memory_risk(basis, shards),
    )
    wanted = options.shards
    if wanted is not None and options.per_combination:
        # Where legs list, a combination gets the shards that it lacks without a test.
        wanted = None if options.policy.lists else wanted * len(works)
    if wanted not in (None, len(shards)):
        facts = {"requested": wanted, "planned": len(shards)}
        draft = replace(draft, warnings=(*draft.warnings, PlanNote("fewer_shards", facts)))
    target_wall_s = options.target_wall_s if options.shards is None else None
    floor_s = max(work.solo_s(work.floor) for work in works)
    notes = plan_warnings(draft, spreads, target_wall_s, options.risk, floor_s)
    notes = chain(notes, gpu_notes(basis.inventory.keys, shards, basis.declared))
    return encode_plan(draft, notes, _split(works, distributions))


def _memory_risk(basis: PlanInputs, shards: Sequence[Shard]) -> float | None:
    found = plan_memory_risk(shards, basis.suites, basis.inventory.keys, basis.estimates)
    return None if found is None else round(found, RISK_DIGITS)


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of a plan, numbered, and what they were made from.

    Attributes:
        spreads: of the shards.
        works: the problems that they solve together.
        bound_s: no other assignment to as many shards ends earlier.
    """

    shards: tuple[Shard, ...]
    spreads: Sequence[WallTimeSpread]
    works: Sequence[PackingProblem]
    bound_s: float


def assemble_plan(
    basis: PlanInputs, options: PlanOptions, origin: Provenance, made: ShardSet
) -> Plan:
    """The plan without its id, its warnings, and what only a plan with a choice of shards has."""
    walls_s = [shard.predicted.wall_s for shard in made.shards]
    makespan_s, bound_s = max(walls_s), made.bound_s
    work = max(made.works, key=lambda one: (one.solo_s(one.floor), -one.floor))
    deadline_s = options.limit.deadline_s
    risk = None
    if basis.has_timings:
        risk = round(overrun_probability(deadline_s, walls_s, made.spreads), RISK_DIGITS)
    return Plan(
        id="",
        suites=dict(sorted(basis.suites.items())),
        pools={name: basis.pools[name] for name in sorted({one.pool for one in made.shards})},
        policy=replace(options.policy, deadline_s=deadline_s),
        shards=tuple(
            replace(shard, timeout_minutes=options.limit.step_minutes) for shard in made.shards
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


def encode_plan(
    draft: Plan, warnings: Iterable[PlanNote], split: tuple[str, ...] = ()
) -> PlanResult:
    """The plan with more warnings and its id, and the bytes of its file."""
    draft = replace(draft, warnings=(*draft.warnings, *warnings))
    content = codec.encode(draft)
    # The id comes first; to read a large plan back for it would take as long again.
    plan_id = content.split(b'"', 4)[3].decode("ascii")
    return PlanResult(replace(draft, id=plan_id), content, split)


def _split(
    works: Sequence[PackingProblem], distributions: Sequence[PoolAllocation]
) -> tuple[str, ...]:
    """Names of the groups that are in several shards."""
    names = set()
    for work, one in zip(works, distributions, strict=True):
        for first in one.split:
            name = work.group_key(first) if work.group_key else None
            names.add(name[-1] if isinstance(name, tuple) else work.units[first].unit)
    return tuple(sorted(names))


def _alternatives(
    works: Sequence[PackingProblem], shards: Sequence[Shard], pools: Mapping[str, Pool]
) -> tuple[ShardCountOption, ...]:
    """The chosen number of shards and others, ascending."""
    found = [option(walls_of(shards), pools, chosen=True)]
    is_quick = sum(len(work.positions) for work in works) <= QUICK_ESTIMATE_UNITS
    max_count = min(MAX_SHARDS, sum(work.max_shards for work in works))
    for count in counts_to_try(len(shards), max_count) if is_quick else ():
        if count < len(works):
            continue
        walls_s: dict[str, list[float]] = {}
        for work, part in zip(works, apportion(works, count), strict=True):
            walls_s.setdefault(work.pool, []).extend(quick_makespans_s(work, part))
        found.append(option(walls_s, pools, chosen=False))
    return tuple(sorted(found, key=lambda one: one.shards))


def _limiting_notes(distributions: Sequence[PoolAllocation]) -> tuple[PlanNote, ...]:
    """Why there are not more shards, each reason once."""
    found: list[PlanNote] = []
    for one in distributions:
        if one.limited_by not in found:
            found.append(one.limited_by)
    return tuple(found)


def _culprit_candidates(basis: PlanInputs, shards: Sequence[Shard]) -> tuple[CulpritCandidate, ...]:
    """Isolated are those in whose shards there is no other test."""
    keys = basis.inventory.keys
    losses = {keys[unit]: one.losses for one in basis.candidate_sets for unit in one.units}
    found = []
    for shard in shards if losses else ():
        isolated = len(shards) > 1 and all(unit.key in losses for unit in shard.units)
        for suite, variant, unit in (one.key for one in shard.units if one.key in losses):
            lost = losses[UnitKey(suite, variant, unit)]
            found.append(CulpritCandidate(unit, lost, isolated, suite, variant))
    return tuple(sorted(found, key=lambda one: (one.suite, one.variant, one.unit)))


def _number_shards(distributions: Sequence[PoolAllocation]) -> tuple[Shard, ...]:
    """Number them from 1, in digits of one width, so that they sort as they count."""
    shards = [shard for one in distributions for shard in one.shards]
    width = max(MIN_KEY_WIDTH, len(str(len(shards))))
    return tuple(replace(shard, key=f"{number:0{width}}") for number, shard in enumerate(shards, 1))
