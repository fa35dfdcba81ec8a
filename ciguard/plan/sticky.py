"""Keep units where the base's plan has them, so that shard 47 means the same tomorrow. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.plan.evening import Packed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.plan.packing import Begun, Border, Costs, Group

GAP: Final = 0.05  # over what a fresh plan reaches: less is not worth a move


def kept(
    groups: Sequence[Group],
    homes: Mapping[int, int],
    fresh: Packed,
    costs: Costs,
    borders: Sequence[Border] = (),
) -> Packed:
    """Pack with as few moves as a gap of 5 % to a fresh plan allows.

    Groups move. With borders, parts of a group that the base has in several shards are at home
    there, and where whole ones are too long to close the gap, parts of them move.

    Args:
        homes: by unit, the shard that it was in; units that are not there are new.
        fresh: the same groups, packed without regard to where they were.
        borders: what groups are kept together by, widest first; () for nothing.

    Returns:
        No shard is empty that is not so in `fresh`. Where moves do not close the gap, `fresh` with
        its shards numbered so that most time stays where it was.
        O(groups (log groups + shards)).
    """
    most_s = (1 + GAP) * fresh.longest_s
    begun = fresh.begun
    parts = groups
    if borders:
        parts = [part for group in groups for part in _by_home(group, homes, len(begun), costs)]
    held = _settled(_at_home(parts, homes, begun), begun, most_s, divides=bool(borders))
    found = Packed(held, begun, costs, *borders[1:2])
    if borders:
        found.level(most_s)
    if found.longest_s <= most_s and not found.has_empty:
        return found
    return _renumbered(fresh, homes, costs)


def _home(group: Group, homes: Mapping[int, int], shard_count: int) -> int | None:
    """Where most of its units were."""
    votes: dict[int, int] = defaultdict(int)
    for unit in group.members:
        home = homes.get(unit)
        if home is not None and home < shard_count:
            votes[home] += 1
    return min(votes, key=lambda home: (-votes[home], home)) if votes else None


def _by_home(group: Group, homes: Mapping[int, int], shard_count: int, costs: Costs) -> list[Group]:
    """The group in parts as the base has it; its new units are with most of the others."""
    most = _home(group, homes, shard_count)
    if most is None or group.is_solid or len(group.members) == 1:
        return [group]
    parts: dict[int, list[int]] = {}
    for unit in group.members:
        home = homes.get(unit, most)
        parts.setdefault(home if home < shard_count else most, []).append(unit)
    if len(parts) == 1:
        return [group]
    whole = group.members[0] if group.part_of is None else group.part_of
    return [costs.group(members, whole) for members in parts.values()]


def _at_home(
    groups: Sequence[Group], homes: Mapping[int, int], begun: Sequence[Begun]
) -> list[list[Group]]:
    """Every group where most of it was; the new ones, longest first, in the shortest shards."""
    held: list[list[Group]] = [[] for _ in begun]
    homeless = []
    for group in groups:
        home = _home(group, homes, len(held))
        if home is None:
            homeless.append(group)
        else:
            held[home].append(group)
    heap = [
        (one.load_s + sum(group.wall_s for group in mine), one.units + len(mine), place)
        for place, (one, mine) in enumerate(zip(begun, held, strict=True))
    ]
    heapq.heapify(heap)
    for group in sorted(homeless, key=lambda group: (-group.wall_s, group.members[0])):
        load_s, size, place = heap[0]
        held[place].append(group)
        heapq.heapreplace(heap, (load_s + group.wall_s, size + 1, place))
    return held


@dataclass
class _Shard:
    """A shard while groups move: they are sorted, by time and first unit."""

    load_s: float
    others: int  # units that do not move
    groups: list[tuple[float, int]]

    @property
    def size(self) -> int:
        return self.others + len(self.groups)

    def add(self, group: tuple[float, int]) -> None:
        insort(self.groups, group)
        self.load_s += group[0]

    def near(self, wall_s: float) -> list[int]:
        """Where the groups stand whose times are next to this one, the nearest first."""
        right = bisect_left(self.groups, (wall_s, -1))
        near = [place for place in (right - 1, right) if 0 <= place < len(self.groups)]
        return sorted(near, key=lambda place: (abs(self.groups[place][0] - wall_s), place))

    def take(self, place: int) -> tuple[float, int]:
        group = self.groups.pop(place)
        self.load_s -= group[0]
        return group


def _settled(
    held: Sequence[Sequence[Group]], begun: Sequence[Begun], most_s: float, *, divides: bool
) -> list[list[Group]]:
    """One group after the other out of the longest shard, until it is no longer than `most_s`.

    Args:
        divides: parts of groups may go afterwards: none goes that is longer than need be.
    """
    shards = []
    for one, mine in zip(begun, held, strict=True):
        entries = sorted((group.wall_s, group.members[0]) for group in mine)
        load_s = one.load_s + sum(wall_s for wall_s, _ in entries)
        shards.append(_Shard(load_s, one.units, entries))
    mean_s = sum(shard.load_s for shard in shards) / len(shards)
    for _ in range(sum(map(len, held)) + len(shards)):  # one that moves twice is rare
        if not _moved(shards, mean_s, most_s, divides=divides):
            break
    of_unit = {group.members[0]: group for mine in held for group in mine}
    return [[of_unit[first] for _, first in shard.groups] for shard in shards]


def _moved(shards: list[_Shard], mean_s: float, most_s: float, *, divides: bool) -> bool:
    """Move the group that most nearly makes the longest or the shortest shard as long as the mean.

    An empty shard is filled first.
    """
    longest = max(shards, key=_load_s)
    shortest = min(shards, key=_filled)
    if shortest.size and longest.load_s <= most_s:
        return False
    if not shortest.size:
        donors = [shard for shard in shards if shard.groups and shard.size > 1]
        longest = max(donors, key=_load_s, default=shortest)
    gap_s = longest.load_s - shortest.load_s
    over_s = longest.load_s - mean_s
    room_s = min(over_s, most_s - shortest.load_s) if divides else gap_s
    for place in longest.near(max(min(over_s, mean_s - shortest.load_s), 0.0)):
        wall_s = longest.groups[place][0]
        if not shortest.size or (0 < wall_s < gap_s and wall_s <= room_s):
            shortest.add(longest.take(place))
            return True
    return False


def _load_s(shard: _Shard) -> float:
    return shard.load_s


def _filled(shard: _Shard) -> tuple[bool, float]:
    return shard.size > 0, shard.load_s


def _renumbered(fresh: Packed, homes: Mapping[int, int], costs: Costs) -> Packed:
    """Give each fresh shard the number of the one that it shares the most time with."""
    count = len(fresh.held)
    shared: dict[tuple[int, int], float] = defaultdict(float)
    for shard, mine in enumerate(fresh.held):
        for group in mine:
            home = _home(group, homes, count)
            if home is not None:
                shared[shard, home] += group.wall_s
    heap = [(-wall_s, shard, home) for (shard, home), wall_s in shared.items()]
    heapq.heapify(heap)
    number: dict[int, int] = {}
    taken: set[int] = set()
    while heap:
        _, shard, home = heapq.heappop(heap)
        if shard not in number and home not in taken:
            number[shard] = home
            taken.add(home)
    free = iter([home for home in range(count) if home not in taken])
    for shard in range(count):
        if shard not in number:
            number[shard] = next(free)
    ordered = sorted(range(count), key=number.__getitem__)
    held = [fresh.held[shard] for shard in ordered]
    return Packed(held, [fresh.begun[shard] for shard in ordered], costs)
