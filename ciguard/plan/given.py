"""A plan whose shards somebody else has chosen: the contract of a run that exists already. Pure.

Nothing is moved. A unit may be in several shards, as it is in many a matrix written by hand: the
guard says so. What a shard is expected to take is the sum of what its units do, of the start and
end of a process for each of its suites and variants, and of the leg's own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.codec import plan as codec
from ciguard.errors import InputError
from ciguard.model import Plan, Prediction, Shard
from ciguard.plan.base import counted_on
from ciguard.plan.inventory import named
from ciguard.plan.limits import Spread
from ciguard.plan.planning import DIGITS, Origin, Planned
from ciguard.plan.works import Works, planned_units
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.codec.inventory import InventoryUnit
    from ciguard.model import UnitKey
    from ciguard.plan.shards import Work
    from ciguard.plan.works import Basis, Wishes


@dataclass(frozen=True, slots=True)
class Given:
    """Units, each once, and in which shards each is; `empty` shards have none."""

    units: tuple[InventoryUnit, ...]
    shards: Mapping[UnitKey, tuple[str, ...]]
    empty: tuple[str, ...] = ()


def given_shards(units: Sequence[InventoryUnit], empty: Sequence[str], source: str) -> Given | None:
    """The shards that a listing names; None where it names none.

    Raises:
        InputError: it names them for some units only.
    """
    without = [unit.unit for unit in units if unit.shard is None]
    if len(without) == len(units) and not empty:
        return None
    if without:
        what = f"{counted(len(without), 'unit')} without a shard: {named(without)}"
        fix = "name the shard of every unit, or of none"
        raise InputError(what, where=source, fix=fix)
    shards: dict[UnitKey, list[str]] = defaultdict(list)
    first: dict[UnitKey, InventoryUnit] = {}
    for unit in units:
        first.setdefault(unit.key, unit)
        shards[unit.key].append(unit.shard or "")
    found = {key: tuple(names) for key, names in shards.items()}
    return Given(tuple(first.values()), found, tuple(empty))


def plan_of_given(basis: Basis, given: Given, wishes: Wishes, origin: Origin) -> Planned:
    """Make the plan: every unit in its own shards, by name; the same bytes for the same input."""
    units = planned_units(basis)
    pool = next(iter(basis.pools))
    making = Works(basis, units, replace(wishes, processes=1))
    homes: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        for name in given.shards[unit.key]:
            homes[name].append(position)
    pools = {
        name: wishes.pool_of.get(units[members[0]].suite) or pool for name, members in homes.items()
    }
    works = {name: making.of(name, range(len(units))) for name in sorted({*pools.values()})}
    shards = tuple(
        Shard(
            key=name,
            pool=pools[name],
            units=tuple(units[position] for position in members),
            predicted=_prediction(works[pools[name]], members),
            timeout_minutes=wishes.limit.step_minutes,
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
        policy=replace(wishes.policy, deadline_s=wishes.limit.deadline_s),
        shards=shards,
        lower_bound_s=round(bound_s, DIGITS),
        gap=max(0.0, round(makespan_s / bound_s - 1, DIGITS)) if bound_s > 0 else 0.0,
        inventory=counted_on(basis.inventory.summary(), origin.base),
        floor=longest,
        history=origin.history,
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        job_minutes=wishes.limit.job_minutes,
        warnings=(*origin.notes, *_oddities(given, [shard.key for shard in shards])),
    )
    content = codec.encode(found)
    return Planned(codec.decode(content, "plan"), content, ())


def _prediction(work: Work, members: Sequence[int]) -> Prediction:
    beside_s = work.leg.both_s + sum(work.processes_s(members))
    wall_s = round(beside_s + work.takes_s(members), DIGITS)
    variance_s2 = sum(work.variances_s2[member] for member in members)
    spread = Spread(variance_s2, 1, work.speed_spread, work.leg.spread_s)
    return Prediction(wall_s, round(spread.p95_s(wall_s), DIGITS))


def _oddities(given: Given, planned: Sequence[str]) -> list[str]:
    found = []
    several = [key.unit for key, names in given.shards.items() if len(names) > 1]
    if several:
        found.append(f"{counted(len(several), 'unit')} in more than one shard: {named(several)}")
    named_ones = {name for names in given.shards.values() for name in names} | {*given.empty}
    idle = sorted(named_ones - {*planned})
    if idle:
        found.append(f"{counted(len(idle), 'shard')} without a unit, left out: {named(idle)}")
    return found
