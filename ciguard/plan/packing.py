"""Which units run together, and in which shard: groups, longest first, and the bound beside it.

Longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", 1969. On real
suites it ends within 0.1 % of the bound nearly always, once no group is over half of a shard.
Units are positions in an inventory sorted by key, so that a lower position is a tie's winner and
everything here is decided by times and names alone. Pure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    # Name of the group that a unit is in; None where it is in none and goes by itself.
    Border = Callable[[int], Hashable | None]

LARGE_RATIO: Final = 0.5  # of a shard's target: a larger group decides how long the shard takes
RUN_RATIO: Final = 0.125  # of the target: what is left of a split group fills gaps of this size
SETUP_RATIO: Final = 4.0  # a part of a split group takes at least so many times its set-up


# Not frozen, and never changed: without borders there is one for each unit.
@dataclass(slots=True)
class Group:
    """Units that stay together; `part_of` is the first unit of the group that was split.

    `is_solid`: the suite itself says so.
    """

    members: tuple[int, ...]  # ascending
    wall_s: float
    part_of: int | None = None
    is_solid: bool = False


def lower_bound_s(total_s: float, floor_s: float, slots: int, *, setup_s: float = 0.0) -> float:
    """What no distribution can beat: the mean load of all slots, or the longest unit alone.

    Args:
        total_s: sum over the units.
        floor_s: the longest unit, with what its process needs before it.
        slots: shards x processes, >= 1.
        setup_s: the least that any process needs before its first unit.
    """
    return max(total_s / slots + setup_s, floor_s)


def grouped(
    walls_s: Sequence[float],
    borders: Sequence[Border],
    target_s: float,
    at_least: int = 1,
    units: Sequence[int] | None = None,
    *,
    setups_s: Sequence[float] | None = None,
    marked: Sequence[Sequence[int]] = (),
) -> tuple[Group, ...]:
    """Keep units together by their widest border, splitting what is too large for balance.

    A group over half of `target_s` is split along its next border, what is still too large into
    runs of neighbours. Every part pays the set-up that the group shares, so that parts are larger
    where it is dear. If there are fewer than `at_least` groups, the longest are halved.

    Args:
        walls_s: estimate of each unit, finite and >= 0.
        borders: what units are kept together by, widest first (file, class); () for nothing.
        target_s: the load wanted for a shard, > 0.
        at_least: groups wanted; reached whenever there are as many units.
        units: positions to group, ascending; all where None.
        setups_s: by unit, what the widest group that it is in sets up once; nothing where None.
        marked: units that belong together whatever it costs; only `at_least` divides them.

    Returns:
        Groups by their first member. O(units log units).
    """
    everything: Sequence[int] = range(len(walls_s)) if units is None else units
    costs = _Costs(walls_s, setups_s if borders else None)
    there = set(everything) if marked else set()
    solid = [members for one in marked if (members := [unit for unit in one if unit in there])]
    taken = {unit for members in solid for unit in members}
    loose = [unit for unit in everything if unit not in taken] if taken else everything
    if borders:
        groups = [
            part
            for members in _along(borders[:1], loose)
            for part in _fitting(costs, borders[1:], members, target_s, None)
        ]
    else:
        groups = [Group((index,), walls_s[index]) for index in loose]
    groups += [replace(_group(costs, members, None), is_solid=True) for members in solid]
    return tuple(sorted(_halved(costs, groups, at_least), key=lambda group: group.members))


@dataclass(frozen=True, slots=True)
class _Costs:
    """What units take, and what their group sets up."""

    walls_s: Sequence[float]
    setups_s: Sequence[float] | None

    def setup_s(self, members: Sequence[int]) -> float:
        return self.setups_s[members[0]] if self.setups_s is not None else 0.0

    def of(self, members: Sequence[int]) -> float:
        # Adding first: the groups of one unit are many.
        return self.setup_s(members) + math.fsum([self.walls_s[index] for index in members])


def _along(borders: Sequence[Border], members: Iterable[int]) -> Iterable[list[int]]:
    """Members by the first border; those without one are by themselves."""
    border = borders[0]
    found: dict[Hashable, list[int]] = {}
    for index in members:
        name = border(index)
        # A bare position cannot be the name of a group: names are wrapped.
        found.setdefault(index if name is None else (name,), []).append(index)
    return found.values()


def _group(costs: _Costs, members: Sequence[int], part_of: int | None) -> Group:
    return Group(tuple(members), costs.of(members), part_of)


def _fitting(
    costs: _Costs,
    borders: Sequence[Border],
    members: list[int],
    target_s: float,
    part_of: int | None,
) -> list[Group]:
    group = _group(costs, members, part_of)
    if len(members) == 1 or group.wall_s <= LARGE_RATIO * target_s:
        return [group]
    whole = members[0] if part_of is None else part_of
    setup_s = costs.setup_s(members)
    most_s = max(RUN_RATIO * target_s, SETUP_RATIO * setup_s)
    if borders:
        parts = [
            part
            for inner in _along(borders[:1], members)
            for part in _fitting(costs, borders[1:], inner, target_s, whole)
        ]
        return _joined(costs, parts, most_s, whole) if setup_s else parts
    return [
        _group(costs, [index for (index,) in run], whole)
        for run in _runs([((index,), costs.walls_s[index]) for index in members], most_s)
    ]


def _joined(costs: _Costs, parts: Sequence[Group], most_s: float, whole: int) -> list[Group]:
    """Small parts of a group that shares a set-up, put together again so that fewer pay it."""
    setup_s = costs.setup_s(parts[0].members)
    runs = _runs([(part.members, part.wall_s - setup_s) for part in parts], most_s)
    return [_group(costs, sorted(sum(run, ())), whole) for run in runs]


def _runs(
    parts: Sequence[tuple[tuple[int, ...], float]], most_s: float
) -> list[list[tuple[int, ...]]]:
    """Neighbours together up to `most_s`; what is longer is a run by itself."""
    runs: list[list[tuple[int, ...]]] = []
    load_s = math.inf
    for members, wall_s in parts:
        if load_s + wall_s > most_s:
            runs.append([])
            load_s = 0.0
        runs[-1].append(members)
        load_s += wall_s
    return runs


def _halved(costs: _Costs, groups: list[Group], at_least: int) -> list[Group]:
    missing = min(at_least, sum(len(group.members) for group in groups)) - len(groups)
    if missing <= 0:
        return groups
    # The second number: where all take no time, the one with the most units is halved.
    heap = [_turn(group) for group in groups]
    heapq.heapify(heap)
    whole: list[Group] = []
    while missing > 0:
        group = heapq.heappop(heap)[-1]
        if len(group.members) == 1:
            whole.append(group)
            continue
        for half in _halves(costs, group):
            heapq.heappush(heap, _turn(half))
        missing -= 1
    return [*whole, *(entry[-1] for entry in heap)]


def _turn(group: Group) -> tuple[bool, float, int, tuple[int, ...], Group]:
    return (group.is_solid, -group.wall_s, -len(group.members), group.members, group)


def _halves(costs: _Costs, group: Group) -> tuple[Group, Group]:
    """Two parts of neighbours, as equal in time as the order allows, neither of them empty."""
    members = group.members
    load_s, cut = 0.0, 1
    total_s = group.wall_s - costs.setup_s(members)
    for cut in range(1, len(members)):
        load_s += costs.walls_s[members[cut - 1]]
        if load_s >= total_s / 2 and (load_s > 0 or 2 * cut >= len(members)):
            break
    whole = members[0] if group.part_of is None else group.part_of
    return _group(costs, members[:cut], whole), _group(costs, members[cut:], whole)


class Begun(NamedTuple):
    """What a shard holds before groups are given to it."""

    load_s: float = 0.0
    units: int = 0


def longest_first(
    groups: Sequence[Group], shard_count: int, begun: Sequence[Begun] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Give the longest remaining group to the least loaded shard.

    Args:
        shard_count: >= 1.
        begun: by shard; nothing where None.

    Returns:
        Positions of units by shard, ascending; every one in exactly one shard. With as many groups
        as shards none is empty. Ties go to the shard with fewer units, then to the first one. The
        makespan is at most 4/3 - 1/(3 m) of the best one for these groups. O(groups log groups).
    """
    held = begun or [Begun()] * shard_count
    heap = [(*held[shard], shard) for shard in range(shard_count)]
    heapq.heapify(heap)
    shards: list[list[int]] = [[] for _ in range(shard_count)]
    for group in sorted(groups, key=lambda group: (-group.wall_s, group.members[0])):
        load_s, count, shard = heap[0]
        shards[shard].extend(group.members)
        heapq.heapreplace(heap, (load_s + group.wall_s, count + len(group.members), shard))
    return tuple(tuple(sorted(shard)) for shard in shards)


def scattered(groups: Sequence[Group], shards: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """First units of the groups that were split and did end in more than one shard, ascending."""
    place = {index: shard for shard, members in enumerate(shards) for index in members}
    seen: dict[int, set[int]] = {}
    for group in groups:
        if group.part_of is not None:
            seen.setdefault(group.part_of, set()).add(place[group.members[0]])
    return tuple(sorted(first for first, found in seen.items() if len(found) > 1))
