"""Keep units where the base's plan has them, so that shard 47 means the same tomorrow. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.plan.packing import Begun, longest_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.plan.packing import Group

MOVED: Final = 4  # where more than every fourth group has to move, a fresh plan is as good
GAP: Final = 0.05  # over what a fresh plan reaches: less is not worth a move


def kept(
    groups: Sequence[Group],
    homes: Mapping[int, int],
    shard_count: int,
    begun: Sequence[Begun] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Pack with as few moves as a gap of 5 % to a fresh plan allows.

    Args:
        homes: by unit, the shard that it was in; units that are not there are new.
        begun: what each shard holds already.

    Returns:
        Positions of units by shard, as `longest_first` gives them. A fresh plan where moving a
        quarter of the groups does not close the gap, its shards numbered so that most time stays
        where it was. O(groups (log groups + shards)).
    """
    held = begun or [Begun()] * shard_count
    fresh = longest_first(groups, shard_count, begun)
    of_unit = {group.members[0]: group for group in groups}
    most_s = (1 + GAP) * max(_loads(groups, fresh, held))
    shards = _settled(groups, homes, held, most_s)
    if shards is None:
        return _renumbered(groups, fresh, homes)
    return tuple(
        tuple(sorted(unit for _, first in shard for unit in of_unit[first].members))
        for shard in shards
    )


def _loads(
    groups: Sequence[Group], shards: Sequence[Sequence[int]], begun: Sequence[Begun]
) -> list[float]:
    place = {unit: shard for shard, members in enumerate(shards) for unit in members}
    loads_s = [one.load_s for one in begun]
    for group in groups:
        loads_s[place[group.members[0]]] += group.wall_s
    return loads_s


def _home(group: Group, homes: Mapping[int, int], shard_count: int) -> int | None:
    """Where most of its units were."""
    votes: dict[int, int] = defaultdict(int)
    for unit in group.members:
        home = homes.get(unit)
        if home is not None and home < shard_count:
            votes[home] += 1
    return min(votes, key=lambda home: (-votes[home], home)) if votes else None


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
    groups: Sequence[Group], homes: Mapping[int, int], begun: Sequence[Begun], most_s: float
) -> list[list[tuple[float, int]]] | None:
    """Every group at home, then one after the other out of the longest shard."""
    shards = [_Shard(one.load_s, one.units, []) for one in begun]
    homeless = []
    for group in groups:
        home = _home(group, homes, len(shards))
        entry = (group.wall_s, group.members[0])
        if home is None:
            homeless.append(entry)
        else:
            shards[home].add(entry)
    heap = [(shard.load_s, shard.size, place) for place, shard in enumerate(shards)]
    heapq.heapify(heap)
    for entry in sorted(homeless, key=lambda entry: (-entry[0], entry[1])):
        place = heap[0][2]
        shards[place].add(entry)
        heapq.heapreplace(heap, (shards[place].load_s, shards[place].size, place))
    for _ in range(len(groups) // MOVED + 4 * len(shards)):
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


def _renumbered(
    groups: Sequence[Group], fresh: Sequence[tuple[int, ...]], homes: Mapping[int, int]
) -> tuple[tuple[int, ...], ...]:
    """Give each fresh shard the number of the one that it shares the most time with."""
    place = {unit: shard for shard, members in enumerate(fresh) for unit in members}
    shared: dict[tuple[int, int], float] = defaultdict(float)
    for group in groups:
        home = _home(group, homes, len(fresh))
        if home is not None:
            shared[place[group.members[0]], home] += group.wall_s
    heap = [(-wall_s, shard, home) for (shard, home), wall_s in shared.items()]
    heapq.heapify(heap)
    number: dict[int, int] = {}
    taken: set[int] = set()
    while heap:
        _, shard, home = heapq.heappop(heap)
        if shard not in number and home not in taken:
            number[shard] = home
            taken.add(home)
    free = iter([home for home in range(len(fresh)) if home not in taken])
    for shard in range(len(fresh)):
        if shard not in number:
            number[shard] = next(free)
    ordered = sorted(range(len(fresh)), key=number.__getitem__)
    return tuple(fresh[shard] for shard in ordered)
