"""Which units stay together, and in which shard each group goes. Pure.

Longest processing time first (Graham, "Bounds on multiprocessing timing anomalies", 1969), with the
wrap-around rule (McNaughton, "Scheduling with deadlines and loss functions", 1959) for a group that
does not fit: it is cut where the shard reaches the target, and its rest waits as a smaller group.
Units are positions in an inventory sorted by key: ties go to the lower position, so that times and
names alone decide.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    # Names the group of a unit; None for a unit that is in no group.
    GroupKey = Callable[[int], Hashable | None]

TOLERANCE: Final = 1.005  # x the best possible makespan: no group is cut to get closer
# x the target: the units of a folder are built together (a package of Go), so that each part of it
# costs a build, which no time of a unit contains. Only what is longer is cut.
FOLDER_CUT: Final = 0.5


# Not frozen, and never changed: without a group key there is one for each unit.
@dataclass(slots=True)
class Group:
    """Units that go to one shard together.

    Attributes:
        members: ascending.
        split_from: first unit of the group that this one is a part of; None for a whole group.
        indivisible: never cut.
        is_folder: cut only where it takes more than half of the target.
    """

    members: tuple[int, ...]
    wall_s: float
    split_from: int | None = None
    indivisible: bool = False
    is_folder: bool = False


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
        in_folder: by unit, whether its group is a folder; none is where None.
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
        """Some members of a group, as a group that pays the set-up, too."""
        found = self.group(members)
        found.split_from = group.members[0] if group.split_from is None else group.split_from
        found.is_folder = False  # it is cut already
        return found


def form_groups(
    costs: Costs,
    group_key: GroupKey | None,
    units: Sequence[int] | None = None,
    *,
    colocated: Iterable[Sequence[int]] = (),
) -> tuple[Group, ...]:
    """Group units by key.

    Args:
        group_key: None puts each unit in a group of its own.
        units: positions to group, ascending; all where None.
        colocated: units that make one indivisible group each, whatever their keys are.

    Returns:
        Groups by their first member. O(units log units).
    """
    left: Sequence[int] = range(len(costs.walls_s)) if units is None else units
    groups = []
    if colocated:
        wanted = set(left)
        for some in colocated:
            members = [unit for unit in some if unit in wanted]
            if members:
                groups.append(costs.group(members, indivisible=True))
                wanted.difference_update(members)
        left = sorted(wanted)
    if group_key is None:
        groups += [Group((unit,), costs.walls_s[unit]) for unit in left]
    else:
        groups += [costs.group(members) for members in _by_key(group_key, left)]
    return tuple(sorted(groups, key=lambda group: group.members))


def _by_key(group_key: GroupKey, units: Iterable[int]) -> Iterable[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for unit in units:
        name = group_key(unit)
        # A bare position cannot be the name of a group: names are wrapped.
        found.setdefault(unit if name is None else (name,), []).append(unit)
    return found.values()


class Preassigned(NamedTuple):
    """What a shard holds before groups are given to it."""

    load_s: float = 0.0
    members: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """Groups by shard, and what each shard held before."""

    groups_by_shard: Sequence[Sequence[Group]]
    preassigned: Sequence[Preassigned]

    @property
    def shards(self) -> tuple[tuple[int, ...], ...]:
        """Units of each shard, ascending, with the preassigned ones."""
        return tuple(
            tuple(sorted([*before.members, *(unit for group in mine for unit in group.members)]))
            for before, mine in zip(self.preassigned, self.groups_by_shard, strict=True)
        )

    @property
    def loads_s(self) -> list[float]:
        return [
            before.load_s + math.fsum([group.wall_s for group in mine])
            for before, mine in zip(self.preassigned, self.groups_by_shard, strict=True)
        ]

    @property
    def makespan_s(self) -> float:
        return max(self.loads_s, default=0.0)

    @property
    def split_groups(self) -> tuple[int, ...]:
        """First units of the groups whose parts are in more than one shard, ascending."""
        found: dict[int, set[int]] = {}
        for shard, mine in enumerate(self.groups_by_shard):
            for group in mine:
                if group.split_from is not None:
                    found.setdefault(group.split_from, set()).add(shard)
        return tuple(sorted(first for first, shards in found.items() if len(shards) > 1))


def pack_balanced(
    groups: Sequence[Group],
    preassigned: Sequence[Preassigned],
    costs: Costs,
    target_s: float = 0.0,
) -> Packing:
    """Give the longest remaining group to the least loaded shard, cut where it passes the target.

    The target is the larger of the mean load and of the longest thing that cannot be cut, plus
    0.5 %. A cut makes a group pay its set-up once more. It is made where all shards together wait
    at least as much less for the longest one; in a folder, only if that is over half of the target.

    Args:
        preassigned: what each shard holds already; at least one shard.
        target_s: load of a shard up to which no group is cut, even if it is over the target.

    Returns:
        Each unit in exactly one shard. No shard is empty if there are units and indivisible groups
        enough. Ties go to the shard with fewer units, then to the first one. Without set-ups the
        makespan is at most that of the best packing plus the longest unit, indivisible group or
        folder that is not cut.
        O(groups log groups + units + cuts x (groups + units of the group)).
    """
    count = len(preassigned)
    total_s = math.fsum([before.load_s for before in preassigned])
    total_s += math.fsum([group.wall_s for group in groups])
    longest_s = max((_uncut_s(costs, group) for group in groups), default=0.0)
    queue = sorted(groups, key=_priority)
    heap = [(before.load_s, len(before.members), n) for n, before in enumerate(preassigned)]
    heapq.heapify(heap)
    held: list[list[Group]] = [[] for _ in preassigned]
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
                place = _units_within(costs, group, aim_s - load_s - setup_s)
                insort(queue, costs.part(group, group.members[place:]), key=_priority)
                group = costs.part(group, group.members[:place])
                total_s += setup_s
        held[shard].append(group)
        heapq.heapreplace(heap, (load_s + group.wall_s, size + len(group.members), shard))
    _fill_empty(held, preassigned, costs)
    return Packing(held, preassigned)


def _is_divisible(group: Group) -> bool:
    return len(group.members) > 1 and not group.indivisible


def _priority(group: Group) -> tuple[float, int, int]:
    """The last is the first to go: the longest, with the most units, with the lowest unit."""
    return group.wall_s, len(group.members), -group.members[0]


def _uncut_s(costs: Costs, group: Group) -> float:
    """What the longest part of a group takes that cannot be cut."""
    if not _is_divisible(group):
        return group.wall_s
    return costs.setup_s(group.members) + max([costs.walls_s[unit] for unit in group.members])


def _units_within(costs: Costs, group: Group, room_s: float) -> int:
    """How many units from the first one on take no longer; at least one, and not all."""
    load_s = 0.0
    for number, unit in enumerate(group.members):
        load_s += costs.walls_s[unit]
        if load_s > room_s:
            return max(number, 1)
    return len(group.members) - 1  # sums of the same numbers in another order differ


def _fill_empty(
    held: Sequence[list[Group]], preassigned: Sequence[Preassigned], costs: Costs
) -> None:
    """Move half of the longest group to each empty shard: there were fewer groups than shards."""
    for mine, before in zip(held, preassigned, strict=True):
        if mine or before.members:
            continue
        divisible = [
            (_priority(group), shard, number)
            for shard, theirs in enumerate(held)
            for number, group in enumerate(theirs)
            if _is_divisible(group)
        ]
        if divisible:
            _, shard, number = max(divisible)
            group = held[shard][number]
            middle = (len(group.members) + 1) // 2
            held[shard][number] = costs.part(group, group.members[:middle])
            mine.append(costs.part(group, group.members[middle:]))
