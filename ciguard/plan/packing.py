"""Groups of units that stay together, and their packing into shards. Pure.

The rule is longest processing time first (Graham, "Bounds on multiprocessing timing anomalies",
1969). A group that does not fit is cut by the wrap-around rule (McNaughton, "Scheduling with
deadlines and loss functions", 1959): it is cut where the shard reaches the target, and the rest
becomes a smaller group. Units are positions in an inventory sorted by key. Ties go to the lower
position, so that only times and names decide.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

# Returns the name of a unit's group; None for a unit that is in no group.
GroupKey = Callable[[int], Hashable | None]

TOLERANCE: Final = 1.005  # x the best possible makespan: no group is cut to get closer
# x the target: only longer folders are cut. The units of a folder (a package of Go) are built
# together: each part needs another build, which no unit's time contains.
FOLDER_CUT: Final = 0.5


# Not frozen, but never changed: without a group key there is a group for each unit.
@dataclass(slots=True)
class Group:
    """Units that go to one shard together.

    Attributes:
        members: positions of the units, ascending.
        split_from: first unit of the group of which this group is a part; None for a whole group.
        indivisible: the group is never cut.
        is_folder: the group is cut only if it is longer than half of the target.
    """

    members: tuple[int, ...]
    wall_s: float
    split_from: int | None = None
    indivisible: bool = False
    is_folder: bool = False


def lower_bound_s(total_s: float, floor_s: float, slots: int, *, setup_s: float = 0.0) -> float:
    """Return the least makespan of any packing: the mean load of a slot, or the longest unit.

    Args:
        total_s: sum over the units.
        floor_s: the longest unit, with the set-up of its process.
        slots: shards x processes, >= 1.
        setup_s: the shortest set-up of any process.
    """
    return max(total_s / slots + setup_s, floor_s)


@dataclass(frozen=True, slots=True)
class Costs:
    """Times of units, and set-ups of their groups.

    Attributes:
        walls_s: estimate of each unit, by position, finite and >= 0.
        setups_s: by unit, the set-up that its group needs once in a shard; None for no set-ups.
        in_folder: by unit, whether its group is a folder; None for no folders.
    """

    walls_s: Sequence[float]
    setups_s: Sequence[float] | None = None
    in_folder: Sequence[bool] | None = None

    def setup_s(self, members: Sequence[int]) -> float:
        return self.setups_s[members[0]] if self.setups_s is not None else 0.0

    def group(self, members: Sequence[int], *, indivisible: bool = False) -> Group:
        wall_s = self.setup_s(members) + math.fsum([self.walls_s[unit] for unit in members])
        is_folder = self.in_folder is not None and self.in_folder[members[0]]
        return Group(tuple(members), wall_s, indivisible=indivisible, is_folder=is_folder)

    def part(self, group: Group, members: Sequence[int]) -> Group:
        """Make a group of some members of a group; each part needs the set-up."""
        part = self.group(members)
        part.split_from = group.members[0] if group.split_from is None else group.split_from
        part.is_folder = False  # the folder is already cut
        return part


def form_groups(
    costs: Costs,
    group_key: GroupKey | None,
    units: Sequence[int] | None = None,
    *,
    colocated: Iterable[Sequence[int]] = (),
) -> tuple[Group, ...]:
    """Group units by key.

    Args:
        group_key: None makes a group of each unit.
        units: positions to group, ascending; None for all units.
        colocated: sets of units, each of which is an indivisible group, for any keys.

    Returns:
        Groups by their first member. O(units log units).
    """
    remaining: Sequence[int] = range(len(costs.walls_s)) if units is None else units
    groups = []
    if colocated:
        unassigned = set(remaining)
        for colocated_units in colocated:
            members = [unit for unit in colocated_units if unit in unassigned]
            if members:
                groups.append(costs.group(members, indivisible=True))
                unassigned.difference_update(members)
        remaining = sorted(unassigned)
    if group_key is None:
        groups += [Group((unit,), costs.walls_s[unit]) for unit in remaining]
    else:
        groups += [costs.group(members) for members in _by_key(group_key, remaining)]
    return tuple(sorted(groups, key=lambda group: group.members))


def _by_key(group_key: GroupKey, units: Iterable[int]) -> Iterable[list[int]]:
    members: dict[Hashable, list[int]] = {}
    for unit in units:
        name = group_key(unit)
        # A tuple of the name cannot equal the position of an ungrouped unit.
        members.setdefault(unit if name is None else (name,), []).append(unit)
    return members.values()


class Preassigned(NamedTuple):
    """Units of a shard before the packing."""

    load_s: float = 0.0
    members: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """Groups by shard, and the preassigned units of each shard."""

    groups_by_shard: Sequence[Sequence[Group]]
    preassigned: Sequence[Preassigned]

    @property
    def shards(self) -> tuple[tuple[int, ...], ...]:
        """Return the units of each shard, ascending, with the preassigned ones."""
        return tuple(
            tuple(sorted([*before.members, *(unit for group in groups for unit in group.members)]))
            for before, groups in zip(self.preassigned, self.groups_by_shard, strict=True)
        )

    @property
    def split_groups(self) -> tuple[int, ...]:
        """Return the first units of the groups with parts in several shards, ascending."""
        shards_of_group: dict[int, set[int]] = {}
        for shard, groups in enumerate(self.groups_by_shard):
            for group in groups:
                if group.split_from is not None:
                    shards_of_group.setdefault(group.split_from, set()).add(shard)
        return tuple(sorted(first for first, shards in shards_of_group.items() if len(shards) > 1))


def pack_balanced(
    groups: Sequence[Group], preassigned: Sequence[Preassigned], costs: Costs, target_s: float = 0.0
) -> Packing:
    """Assign the longest remaining group to the least loaded shard, and cut it at the target.

    The target is the larger of the mean load and the longest part that cannot be cut, plus 0.5 %. A
    cut group needs its set-up once more. A group is cut only if the cut saves at least this set-up
    in the sum of the shards' waits for the longest shard; a folder only if it is longer than half
    of the target.

    Args:
        preassigned: units of each shard before the packing; at least one shard.
        target_s: load of a shard up to which no group is cut, even above the target.

    Returns:
        Each unit in exactly one shard. No shard is empty if there are enough units and indivisible
        groups. Ties go to the shard with fewer units, then to the first shard. Without set-ups the
        makespan is at most that of the best packing plus the longest unit, indivisible group or
        uncut folder. O(groups log groups + units + cuts x (groups + units of the group)).
    """
    count = len(preassigned)
    total_s = math.fsum([before.load_s for before in preassigned])
    total_s += math.fsum([group.wall_s for group in groups])
    longest_s = max((_uncut_s(costs, group) for group in groups), default=0.0)
    queue = sorted(groups, key=_priority)
    heap = [(before.load_s, len(before.members), n) for n, before in enumerate(preassigned)]
    heapq.heapify(heap)
    groups_by_shard: list[list[Group]] = [[] for _ in preassigned]
    while queue:
        group = queue.pop()
        load_s, size, shard = heap[0]
        if _is_divisible(group):
            setup_s = costs.setup_s(group.members)
            aim_s = TOLERANCE * max((total_s + setup_s) / count, longest_s)
            limit_s = max(aim_s, target_s)
            excess_s = load_s + group.wall_s - limit_s
            is_short = group.is_folder and group.wall_s <= FOLDER_CUT * limit_s
            if excess_s > 0 and excess_s * count >= setup_s and not is_short:
                end = _units_within(costs, group, aim_s - load_s - setup_s)
                insort(queue, costs.part(group, group.members[end:]), key=_priority)
                group = costs.part(group, group.members[:end])
                total_s += setup_s
        groups_by_shard[shard].append(group)
        heapq.heapreplace(heap, (load_s + group.wall_s, size + len(group.members), shard))
    _fill_empty(groups_by_shard, preassigned, costs)
    return Packing(groups_by_shard, preassigned)


def _is_divisible(group: Group) -> bool:
    return len(group.members) > 1 and not group.indivisible


def _priority(group: Group) -> tuple[float, int, int]:
    """Return the sort key of the queue, whose end is packed first: the longest, largest group."""
    return group.wall_s, len(group.members), -group.members[0]


def _uncut_s(costs: Costs, group: Group) -> float:
    """Return the time of the longest part of a group that cannot be cut."""
    if not _is_divisible(group):
        return group.wall_s
    return costs.setup_s(group.members) + max([costs.walls_s[unit] for unit in group.members])


def _units_within(costs: Costs, group: Group, room_s: float) -> int:
    """Return how many of the first units fit in `room_s`; at least one, but not all."""
    load_s = 0.0
    for number, unit in enumerate(group.members):
        load_s += costs.walls_s[unit]
        if load_s > room_s:
            return max(number, 1)
    return len(group.members) - 1  # sums differ by the order of numbers


def _fill_empty(
    groups_by_shard: Sequence[list[Group]], preassigned: Sequence[Preassigned], costs: Costs
) -> None:
    """Move half of the longest group to each shard that is empty because there are few groups."""
    for own, before in zip(groups_by_shard, preassigned, strict=True):
        if own or before.members:
            continue
        divisible = [
            (_priority(group), shard, number)
            for shard, groups in enumerate(groups_by_shard)
            for number, group in enumerate(groups)
            if _is_divisible(group)
        ]
        if divisible:
            _, shard, number = max(divisible)
            group = groups_by_shard[shard][number]
            middle = (len(group.members) + 1) // 2
            groups_by_shard[shard][number] = costs.part(group, group.members[:middle])
            own.append(costs.part(group, group.members[middle:]))
