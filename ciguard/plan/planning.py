"""A plan: a pure function of inventory, estimates, suites, pools and what is wished for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ciguard.codec import plan as codec
from ciguard.errors import UsageError
from ciguard.model import LegPolicy, Plan, PlannedUnit
from ciguard.plan.findings import findings
from ciguard.plan.inventory import class_of, file_of
from ciguard.plan.limits import budget_bytes
from ciguard.plan.shards import MOST_SHARDS, Distribution, Work, apportioned, even, fitting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Pool, Shard, Suite
    from ciguard.plan.estimates import Estimates
    from ciguard.plan.inventory import Inventory, Kin
    from ciguard.plan.limits import Limit
    from ciguard.plan.packing import Border

Grouping = Literal["none", "class", "file"]
DIGITS: Final = 6
LEAST_KEY_WIDTH: Final = 2
DEFAULT_POLICY: Final = LegPolicy()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asks of a plan.

    Attributes:
        shards: exactly so many, or as many as `target_wall_s` needs.
        risk: accepted P(any shard passes its limit).
        processes: side by side in each leg.
        pool_of: by suite, a name of `pools`.
        timeout_s: of one unit, by suite.
        policy: of the legs; its deadline comes from `limit`.
    """

    limit: Limit
    pool_of: Mapping[str, str]
    shards: int | None = None
    target_wall_s: float = 600.0
    risk: float = 0.01
    processes: int = 1
    group: Grouping = "file"
    timeout_s: Mapping[str, float | None] = field(default_factory=dict)
    policy: LegPolicy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True)
class Origin:
    """What the plan says of where it comes from; `notes` become its first warnings."""

    history: Mapping[str, Any] = field(default_factory=dict)
    repository: str | None = None
    workflow: str | None = None
    head_sha: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, its file's bytes, and the groups that had to be split over shards, by name."""

    plan: Plan
    content: bytes
    split: tuple[str, ...]


class Name(NamedTuple):
    """A group's name: within its suite and variant."""

    suite: str
    variant: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Basis:
    """What is there.

    Attributes:
        estimates: for the inventory's units.
        suites: with what their processes cost.
        kin: by suite, names of the groups that a unit belongs to, nearest first.
    """

    inventory: Inventory
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    kin: Mapping[str, Kin]


def plan(basis: Basis, wishes: Wishes, origin: Origin) -> Planned:
    """Make the plan: every unit in exactly one shard, the same bytes for the same input.

    Raises:
        UsageError: fewer shards are asked for than pools are needed.
    """
    units = _planned_units(basis, wishes.timeout_s)
    works = _works(basis, units, wishes)
    made = _made(works, wishes)
    shards = _keyed([shard for one in made for shard in one.shards], wishes.limit)
    bound_s = max(one.bound_s for one in made)
    floor_work = max(works, key=lambda work: work.alone_s(work.floor))
    found = Plan(
        id="",
        suites={name: basis.suites[name] for name in sorted({unit.suite for unit in units})},
        pools={name: basis.pools[name] for name in sorted({shard.pool for shard in shards})},
        policy=replace(wishes.policy, deadline_s=wishes.limit.deadline_s),
        shards=shards,
        lower_bound_s=round(bound_s, DIGITS),
        gap=_gap(max(one.makespan_s for one in made), bound_s),
        inventory=basis.inventory.summary(),
        floor=units[floor_work.floor],
        history=origin.history,
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
    )
    spreads = [spread for one in made for spread in one.spreads]
    said = findings(found, spreads, target_wall_s=_target_s(wishes), risk=wishes.risk)
    found = replace(found, warnings=(*origin.notes, *_shortage(found, wishes), *said))
    content = codec.encode(found)
    # The id comes first; to read a large plan back for it would take as long again.
    plan_id = content.split(b'"', 4)[3].decode("ascii")
    border = works[0].borders[:1]
    names = sorted(str(border[0](first)) for one in made for first in one.split if border)
    return Planned(replace(found, id=plan_id), content, tuple(dict.fromkeys(names)))


def _works(basis: Basis, units: Sequence[PlannedUnit], wishes: Wishes) -> list[Work]:
    """What each pool has to do, pools by name."""
    variances_s2 = basis.estimates.variance_s2.tolist()
    borders = _borders(basis, wishes.group)
    return [
        Work(
            pool=name,
            budget_bytes=budget_bytes(basis.pools[name]),
            processes=wishes.processes,
            units=units,
            positions=positions,
            turn=basis.inventory.turn,
            variances_s2=variances_s2,
            speed_spread=basis.estimates.speed_spread,
            borders=borders,
            suites=basis.suites,
        )
        for name, positions in _by_pool(units, wishes.pool_of).items()
    ]


def _planned_units(basis: Basis, timeout_s: Mapping[str, float | None]) -> tuple[PlannedUnit, ...]:
    estimates = basis.estimates
    columns = zip(
        basis.inventory.units,
        estimates.wall_s.tolist(),
        estimates.peak_delta_bytes.tolist(),
        estimates.retained_bytes.tolist(),
        estimates.known.tolist(),
        strict=True,
    )
    return tuple(
        PlannedUnit(
            unit=unit.unit,
            suite=unit.suite,
            variant=unit.variant,
            wall_s=wall_s,
            peak_delta_bytes=None if math.isnan(peak) else int(peak),
            retained_bytes=None if math.isnan(retained) else int(retained),
            timeout_s=timeout_s.get(unit.suite),
            known=known,
        )
        for unit, wall_s, peak, retained, known in columns
    )


def _borders(basis: Basis, group: Grouping) -> tuple[Border, ...]:
    """What keeps units together; groups of different suites and variants are different groups."""

    def file(position: int) -> Name | None:
        unit = basis.inventory.units[position]
        name = file_of(unit)
        return Name(unit.suite, unit.variant, name) if name else None

    def class_(position: int) -> Name | None:
        unit = basis.inventory.units[position]
        name = class_of(unit.unit, basis.kin[unit.suite](unit.unit))
        return Name(unit.suite, unit.variant, name) if name else None

    return {"none": (), "class": (class_,), "file": (file, class_)}[group]


def _by_pool(
    units: Sequence[PlannedUnit], pool_of: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for position, unit in enumerate(units):
        found.setdefault(pool_of[unit.suite], []).append(position)
    return {name: tuple(found[name]) for name in sorted(found)}


def _made(works: Sequence[Work], wishes: Wishes) -> list[Distribution]:
    pools = ", ".join(work.pool for work in works)
    if wishes.shards is None:
        most = MOST_SHARDS - len(works) + 1
        made = []
        for work in works:
            one = fitting(work, wishes.target_wall_s, wishes.limit.deadline_s, wishes.risk, most)
            most -= len(one.shards) - 1
            made.append(one)
        return made
    if wishes.shards < len(works):
        what = f"{wishes.shards} shards for the units of {len(works)} pools: {pools}"
        fix = f"pass --shards {len(works)}, or name one pool for all with --pool"
        raise UsageError(what, fix=fix)
    counts = apportioned(
        [work.total_s for work in works], [len(work.positions) for work in works], wishes.shards
    )
    return [even(work, count) for work, count in zip(works, counts, strict=True)]


def _keyed(shards: Sequence[Shard], limit: Limit) -> tuple[Shard, ...]:
    """Number them from 1, in digits of one width, so that they sort as they count."""
    width = max(LEAST_KEY_WIDTH, len(str(len(shards))))
    return tuple(
        replace(shard, key=f"{number:0{width}}", timeout_minutes=limit.step_minutes)
        for number, shard in enumerate(shards, 1)
    )


def _gap(makespan_s: float, bound_s: float) -> float:
    return max(0.0, round(makespan_s / bound_s - 1, DIGITS)) if bound_s > 0 else 0.0


def _target_s(wishes: Wishes) -> float | None:
    return wishes.target_wall_s if wishes.shards is None else None


def _shortage(found: Plan, wishes: Wishes) -> tuple[str, ...]:
    number = len(found.shards)
    if wishes.shards is None or number == wishes.shards:
        return ()
    return (f"{wishes.shards} shards were asked for: with one unit each there are only {number}",)
