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

MOVED: Final = 4  # where more than every fourth group has to move, a fresh plan is as good
GAP: Final = 0.05  # over what a fresh plan reaches: less is not worth a move


def kept(
    groups: Sequence[Group],
    homes: Mapping[int, int],
    fresh: Packed,
    costs: Costs,
    borders: Sequence[Border] = (),
) -> Packed:
    """Pack with as few moves as a gap of 5 % to a fresh plan allows.

    Without borders groups move, at most a quarter of them. With some, parts of a group that the
    base has in several shards are at home there, and parts move.

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
    if not borders:
        shards = _settled(_at_home(groups, homes, begun), begun, most_s)
        if shards is not None:
            of_unit = {group.members[0]: group for group in groups}
            held = [[of_unit[first] for _, first in shard] for shard in shards]
            return Packed(held, begun, costs)
    else:
        parts = [part for group in groups for part in _by_home(group, homes, len(begun), costs)]
        found = Packed(_at_home(parts, homes, begun), begun, costs, *borders[1:2])
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

    def nearest(self, wall_s: float) -> int:
        """Where the group stands whose time is nearest to this one."""
        right = bisect_left(self.groups, (wall_s, -1))
        near = [place for place in (right - 1, right) if 0 <= place < len(self.groups)]
        return min(near, key=lambda place: (abs(self.groups[place][0] - wall_s), place))

    def take(self, place: int) -> tuple[float, int]:
        group = self.groups.pop(place)
        self.load_s -= group[0]
        return group


def _settled(
    held: Sequence[Sequence[Group]], begun: Sequence[Begun], most_s: float
) -> list[list[tuple[float, int]]] | None:
    """One group after the other out of the longest shard."""
    shards = []
    for one, mine in zip(begun, held, strict=True):
        entries = sorted((group.wall_s, group.members[0]) for group in mine)
        load_s = one.load_s + sum(wall_s for wall_s, _ in entries)
        shards.append(_Shard(load_s, one.units, entries))
    for _ in range(sum(map(len, held)) // MOVED + 4 * len(shards)):
        if max(shard.load_s for shard in shards) <= most_s and all(one.size for one in shards):
            return [shard.groups for shard in shards]
        if not _moved(shards):
            break
    return None


def _moved(shards: list[_Shard]) -> bool:
    """Move the group that evens the longest and the shortest shard best; an empty one is first."""
    shortest = min(shards, key=lambda shard: (shard.size > 0, shard.load_s))
    donors = [one for one in shards if one.groups and one.size > 1 and one is not shortest]
    if not donors:
        return False
    longest = max(donors, key=lambda shard: shard.load_s)
    gap_s = longest.load_s - shortest.load_s
    place = longest.nearest(gap_s / 2)
    is_worst = longest.load_s >= max(shard.load_s for shard in shards)
    if shortest.size and not (is_worst and 0 < longest.groups[place][0] < gap_s):
        return False
    shortest.add(longest.take(place))
    return True


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
    return Packed([fresh.held[shard] for shard in ordered], fresh.begun, costs)
