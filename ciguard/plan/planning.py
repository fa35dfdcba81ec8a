"""A plan: a pure function of inventory, estimates, suites, pools and what is wished for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec import plan as codec
from ciguard.model import Plan, Suspect
from ciguard.plan.base import counted_on, known, moved, number
from ciguard.plan.choices import around, choice, chosen
from ciguard.plan.findings import findings
from ciguard.plan.limits import chance_over
from ciguard.plan.pools import assignment
from ciguard.plan.shards import MOST_SHARDS, apportioned, outlined_s
from ciguard.plan.works import Works, arranged, planned_units
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Choice, PlannedUnit, Pool, Shard
    from ciguard.plan.base import BaseCount
    from ciguard.plan.limits import Limit
    from ciguard.plan.shards import Distribution, Work
    from ciguard.plan.works import Basis, Wishes

DIGITS: Final = 6
RISK_DIGITS: Final = 4
LEAST_KEY_WIDTH: Final = 2
OUTLINED_UNITS: Final = 50_000  # above, only the chosen number of shards is worked out


@dataclass(frozen=True, slots=True)
class Origin:
    """What the plan says of where it comes from; `notes` become its first warnings."""

    history: Mapping[str, Any] = field(default_factory=dict)
    repository: str | None = None
    workflow: str | None = None
    head_sha: str | None = None
    notes: tuple[str, ...] = ()
    base: BaseCount | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, its file's bytes, and the groups that had to be split over shards, by name."""

    plan: Plan
    content: bytes
    split: tuple[str, ...]


def plan(basis: Basis, wishes: Wishes, origin: Origin) -> Planned:
    """Make the plan: every unit in exactly one shard, the same bytes for the same input.

    Raises:
        UsageError: fewer shards are asked for than pools are needed.
    """
    units = planned_units(basis)
    making = Works(basis, units, wishes)
    assigned = assignment(basis, units, wishes, making)
    works, distributions, bound_s = arranged(making, assigned.pools, wishes)
    shards = _keyed(works, distributions, wishes.limit)
    pools = {name: basis.pools[name] for name in sorted({shard.pool for shard in shards})}
    floor_s, floor = max((work.alone_s(work.floor), -work.floor) for work in works)
    found = Plan(
        id="",
        suites={name: basis.suites[name] for name in sorted({unit.suite for unit in units})},
        pools=pools,
        policy=replace(wishes.policy, deadline_s=wishes.limit.deadline_s),
        shards=shards,
        lower_bound_s=round(bound_s, DIGITS),
        gap=_gap(max(one.makespan_s for one in distributions), bound_s),
        inventory=counted_on(basis.inventory.summary(), origin.base),
        floor=units[-floor],
        history=origin.history,
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        base=basis.base.name if basis.base else None,
        choices=_choices(works, shards, pools),
        stopped_by=_stopped_by(works, distributions),
        moved=moved(basis.base, shards) if basis.base else (),
        suspects=_suspects(basis, units, shards),
        job_minutes=wishes.limit.job_minutes,
    )
    spreads = [spread for one in distributions for spread in one.spreads]
    if basis.estimates.known.any():
        walls_s = [shard.predicted.wall_s for shard in shards]
        chance = chance_over(wishes.limit.deadline_s, walls_s, spreads)
        found = replace(found, risk=round(chance, RISK_DIGITS))
    target_s = _target_s(wishes)
    said = findings(found, spreads, target_wall_s=target_s, floor_s=floor_s, risk=wishes.risk)
    notes = [*origin.notes, *assigned.notes, *_shortage(found, wishes), *_of_base(basis)]
    found = replace(found, warnings=(*notes, *said))
    content = codec.encode(found)
    # The id comes first; to read a large plan back for it would take as long again.
    plan_id = content.split(b'"', 4)[3].decode("ascii")
    return Planned(replace(found, id=plan_id), content, _split(works, distributions))


def _split(works: Sequence[Work], distributions: Sequence[Distribution]) -> tuple[str, ...]:
    """Names of the groups that are in several shards."""
    names = set()
    for work, one in zip(works, distributions, strict=True):
        for first in one.split:
            name = work.group_key(first) if work.group_key else None
            names.add(str(name if name is not None else work.units[first].unit))
    return tuple(sorted(names))


def _of_base(basis: Basis) -> list[str]:
    if basis.base is None or known(basis.base, basis.inventory.keys):
        return []
    return [f"the base's shards ({one_line(basis.base.name)}) have none of these units"]


def _choices(
    works: Sequence[Work], shards: Sequence[Shard], pools: Mapping[str, Pool]
) -> tuple[Choice, ...]:
    """Other numbers of shards beside the chosen one, ascending."""
    taken = chosen(shards, pools)
    most = [work.pieces for work in works]
    if sum(len(work.positions) for work in works) > OUTLINED_UNITS:
        return (taken,)
    found = [taken]
    for count in around(len(shards), min(MOST_SHARDS, sum(most))):
        if count < len(works):
            continue
        counts = apportioned(works, count)
        walls_s: dict[str, list[float]] = {}
        for work, part in zip(works, counts, strict=True):
            walls_s.setdefault(work.pool, []).extend(outlined_s(work, part))
        found.append(choice(walls_s, pools, chosen=False))
    return tuple(sorted(found, key=lambda one: one.shards))


def _stopped_by(works: Sequence[Work], distributions: Sequence[Distribution]) -> str:
    if len({one.stopped_by for one in distributions}) == 1:
        return distributions[0].stopped_by
    said = {
        f"{', '.join(sorted({work.units[place].suite for place in work.positions}))} in "
        f"{work.pool}: {one.stopped_by}": None
        for work, one in zip(works, distributions, strict=True)
    }
    return "; ".join(said)


def _suspects(
    basis: Basis, units: Sequence[PlannedUnit], shards: Sequence[Shard]
) -> tuple[Suspect, ...]:
    found = [
        Suspect(unit.unit, one.losses, one.is_alone and len(shards) > 1, unit.suite, unit.variant)
        for one in basis.suspicions
        for unit in (units[position] for position in one.units)
    ]
    return tuple(sorted(found, key=lambda one: (one.suite, one.variant, one.unit)))


def _keyed(
    works: Sequence[Work], distributions: Sequence[Distribution], limit: Limit
) -> tuple[Shard, ...]:
    """Number them from 1, in digits of one width, so that they sort as they count.

    Those that the base has keep its number, as far as there are so many; others get what is free.
    """
    shards: list[tuple[Shard, int | str]] = []
    for work, one in zip(works, distributions, strict=True):
        wanted = [number(key) for key in work.base_keys]
        shards += zip(one.shards, [*wanted, *[""] * len(one.shards)], strict=False)
    numbers = set(range(1, len(shards) + 1))
    found: dict[int, Shard] = {}
    others = []
    for shard, wish in shards:
        if isinstance(wish, int) and wish in numbers and wish not in found:
            found[wish] = shard
        else:
            others.append(shard)
    found.update(zip(sorted(numbers - found.keys()), others, strict=True))
    width = max(LEAST_KEY_WIDTH, len(str(len(shards))))
    return tuple(
        replace(found[place], key=f"{place:0{width}}", timeout_minutes=limit.step_minutes)
        for place in sorted(found)
    )


def _gap(makespan_s: float, bound_s: float) -> float:
    return max(0.0, round(makespan_s / bound_s - 1, DIGITS)) if bound_s > 0 else 0.0


def _target_s(wishes: Wishes) -> float | None:
    return wishes.target_wall_s if wishes.shards is None else None


def _shortage(found: Plan, wishes: Wishes) -> tuple[str, ...]:
    number = len(found.shards)
    if wishes.shards is None or number == wishes.shards:
        return ()
    why = "there are no more tests, or groups of tests that stay together"
    return (f"{wishes.shards} shards requested, {number} planned: {why}",)
