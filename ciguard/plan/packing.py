"""Which units run together, and in which shard: groups, longest first, and the bound beside it.

Longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", 1969. On real
suites it ends within 0.1 % of the bound nearly always, once no group is over half of a shard.
Units are positions in an inventory sorted by key, so that a lower position is a tie's winner and
everything here is decided by times and names alone. Pure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    # Name of the group that a unit is in; None where it is in none and goes by itself.
    Border = Callable[[int], Hashable | None]

LARGE_RATIO: Final = 0.5  # of a shard's target: a larger group decides how long the shard takes
RUN_RATIO: Final = 0.125  # of the target: what is left of a split group fills gaps of this size


@dataclass(frozen=True, slots=True)
class Group:
    """Units that stay together; `part_of` is the first unit of the group that was split."""

    members: tuple[int, ...]  # ascending
    wall_s: float
    part_of: int | None = None


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
) -> tuple[Group, ...]:
    """Keep units together by their widest border, splitting what is too large for balance.

    A group over half of `target_s` is split along its next border, what is still too large into
    runs of neighbours. If there are fewer than `at_least` groups, the longest are halved.

    Args:
        walls_s: estimate of each unit, finite and >= 0.
        borders: what units are kept together by, widest first (file, class); () for nothing.
        target_s: the load wanted for a shard, > 0.
        at_least: groups wanted; reached whenever there are as many units.
        units: positions to group, ascending; all where None.

    Returns:
        Groups by their first member. O(units log units).
    """
    everything: Sequence[int] = range(len(walls_s)) if units is None else units
    groups = [
        part
        for members in _along(borders[:1], everything)
        for part in _fitting(walls_s, borders[1:], members, target_s, None)
    ]
    return tuple(sorted(_halved(walls_s, groups, at_least), key=lambda group: group.members))


def _along(borders: Sequence[Border], members: Iterable[int]) -> Iterable[list[int]]:
    """Members by the first border; those without one are by themselves."""
    if not borders:
        return [[index] for index in members]
    border = borders[0]
    found: dict[Hashable, list[int]] = {}
    for index in members:
        name = border(index)
        # A bare position cannot be the name of a group: names are wrapped.
        found.setdefault(index if name is None else (name,), []).append(index)
    return found.values()


def _group(walls_s: Sequence[float], members: Sequence[int], part_of: int | None) -> Group:
    wall_s = math.fsum([walls_s[index] for index in members])
    return Group(tuple(members), wall_s, part_of)


def _fitting(
    walls_s: Sequence[float],
    borders: Sequence[Border],
    members: list[int],
    target_s: float,
    part_of: int | None,
) -> list[Group]:
    group = _group(walls_s, members, part_of)
    if len(members) == 1 or group.wall_s <= LARGE_RATIO * target_s:
        return [group]
    whole = members[0] if part_of is None else part_of
    if borders:
        return [
            part
            for inner in _along(borders[:1], members)
            for part in _fitting(walls_s, borders[1:], inner, target_s, whole)
        ]
    runs = _runs(walls_s, members, RUN_RATIO * target_s)
    return [_group(walls_s, run, whole) for run in runs]


def _runs(walls_s: Sequence[float], members: Sequence[int], most_s: float) -> list[list[int]]:
    """Neighbours together up to `most_s`; a longer unit is a run by itself."""
    runs: list[list[int]] = []
    load_s = math.inf
    for index in members:
        if load_s + walls_s[index] > most_s:
            runs.append([])
            load_s = 0.0
        runs[-1].append(index)
        load_s += walls_s[index]
    return runs


def _halved(walls_s: Sequence[float], groups: list[Group], at_least: int) -> list[Group]:
    missing = min(at_least, sum(len(group.members) for group in groups)) - len(groups)
    if missing <= 0:
        return groups
    # The second number: where all take no time, the one with the most units is halved.
    heap = [(-group.wall_s, -len(group.members), group.members, group) for group in groups]
    heapq.heapify(heap)
    whole: list[Group] = []
    while missing > 0:
        group = heapq.heappop(heap)[-1]
        if len(group.members) == 1:
            whole.append(group)
            continue
        for half in _halves(walls_s, group):
            heapq.heappush(heap, (-half.wall_s, -len(half.members), half.members, half))
        missing -= 1
    return [*whole, *(entry[-1] for entry in heap)]


def _halves(walls_s: Sequence[float], group: Group) -> tuple[Group, Group]:
    """Two parts of neighbours, as equal in time as the order allows, neither of them empty."""
    members = group.members
    load_s, cut = 0.0, 1
    for cut in range(1, len(members)):
        load_s += walls_s[members[cut - 1]]
        if load_s >= group.wall_s / 2 and (load_s > 0 or 2 * cut >= len(members)):
            break
    whole = members[0] if group.part_of is None else group.part_of
    return _group(walls_s, members[:cut], whole), _group(walls_s, members[cut:], whole)


def longest_first(groups: Sequence[Group], shard_count: int) -> tuple[tuple[int, ...], ...]:
    """Give the longest remaining group to the least loaded shard.

    Args:
        shard_count: >= 1.

    Returns:
        Positions of units by shard, ascending; every one in exactly one shard. With as many groups
        as shards none is empty. Ties go to the shard with fewer units, then to the first one. The
        makespan is at most 4/3 - 1/(3 m) of the best one for these groups. O(groups log groups).
    """
    heap = [(0.0, 0, shard) for shard in range(shard_count)]
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
