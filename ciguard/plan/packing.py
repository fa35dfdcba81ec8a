"""Which units run together, and in which shard: groups, longest first, and the bound beside it.

Longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", 1969. On real
suites it ends within 0.1 % of the bound nearly always, once no group is over half of a shard; where
groups are larger, evening.py divides them.
Units are positions in an inventory sorted by key, so that a lower position is a tie's winner and
everything here is decided by times and names alone. Pure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    # Name of the group that a unit is in; None where it is in none and goes by itself.
    Border = Callable[[int], Hashable | None]


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


@dataclass(frozen=True, slots=True)
class Costs:
    """What units take, and what their group sets up.

    Attributes:
        walls_s: estimate of each unit, by position, finite and >= 0.
        setups_s: by unit, what the group that it is in sets up once; nothing where None.
    """

    walls_s: Sequence[float]
    setups_s: Sequence[float] | None = None

    def setup_s(self, members: Sequence[int]) -> float:
        return self.setups_s[members[0]] if self.setups_s is not None else 0.0

    def of(self, members: Sequence[int]) -> float:
        # Adding first: the groups of one unit are many.
        return self.setup_s(members) + math.fsum([self.walls_s[index] for index in members])

    def group(self, members: Sequence[int], part_of: int | None = None) -> Group:
        return Group(tuple(members), self.of(members), part_of)


def grouped(
    costs: Costs,
    border: Border | None,
    at_least: int = 1,
    units: Sequence[int] | None = None,
    *,
    marked: Sequence[Sequence[int]] = (),
) -> tuple[Group, ...]:
    """Keep units together by a border. If there are too few groups, the longest are halved.

    Args:
        border: what units are kept together by; None for nothing.
        at_least: groups wanted; reached whenever there are as many units.
        units: positions to group, ascending; all where None.
        marked: units that belong together whatever it costs; only `at_least` divides them.

    Returns:
        Groups by their first member. O(units log units).
    """
    everything: Sequence[int] = range(len(costs.walls_s)) if units is None else units
    there = set(everything) if marked else set()
    solid = [members for one in marked if (members := [unit for unit in one if unit in there])]
    taken = {unit for members in solid for unit in members}
    loose = [unit for unit in everything if unit not in taken] if taken else everything
    if border is not None:
        groups = [costs.group(members) for members in _along(border, loose)]
    else:
        groups = [Group((index,), costs.walls_s[index]) for index in loose]
    groups += [replace(costs.group(members), is_solid=True) for members in solid]
    return tuple(sorted(_halved(costs, groups, at_least), key=lambda group: group.members))


def _along(border: Border, members: Iterable[int]) -> Iterable[list[int]]:
    """Members by the border; those without one are by themselves."""
    found: dict[Hashable, list[int]] = {}
    for index in members:
        name = border(index)
        # A bare position cannot be the name of a group: names are wrapped.
        found.setdefault(index if name is None else (name,), []).append(index)
    return found.values()


def _halved(costs: Costs, groups: list[Group], at_least: int) -> list[Group]:
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
        for half in halves(costs, group):
            heapq.heappush(heap, _turn(half))
        missing -= 1
    return [*whole, *(entry[-1] for entry in heap)]


def _turn(group: Group) -> tuple[bool, float, int, tuple[int, ...], Group]:
    return (group.is_solid, -group.wall_s, -len(group.members), group.members, group)


def halves(costs: Costs, group: Group) -> tuple[Group, Group]:
    """Two parts of neighbours, as equal in time as the order allows, neither of them empty."""
    members = group.members
    load_s, cut = 0.0, 1
    total_s = group.wall_s - costs.setup_s(members)
    for cut in range(1, len(members)):
        load_s += costs.walls_s[members[cut - 1]]
        if load_s >= total_s / 2 and (load_s > 0 or 2 * cut >= len(members)):
            break
    whole = members[0] if group.part_of is None else group.part_of
    return costs.group(members[:cut], whole), costs.group(members[cut:], whole)


class Begun(NamedTuple):
    """What a shard holds before groups are given to it."""

    load_s: float = 0.0
    members: tuple[int, ...] = ()

    @property
    def units(self) -> int:
        return len(self.members)


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
    heap = [(held[shard].load_s, held[shard].units, shard) for shard in range(shard_count)]
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
