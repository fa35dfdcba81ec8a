"""Keep units where the base's plan has them, so that shard 47 means the same tomorrow. Pure."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ciguard.plan.packing import longest_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.plan.packing import Group

GAP: Final = 0.05  # over what a fresh plan reaches: less is not worth a move


def kept(
    groups: Sequence[Group],
    homes: Mapping[int, int],
    shard_count: int,
    begin_s: Sequence[float] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Pack with as few moves as a gap of 5 % to a fresh plan allows.

    Args:
        homes: by unit, the shard that it was in; units that are not there are new.
        begin_s: what each shard already has to do.

    Returns:
        Positions of units by shard, as `longest_first` gives them. A fresh plan where moving single
        groups does not close the gap, its shards numbered so that most time stays where it was.
        O(groups (log groups + moves)).
    """
    fresh = longest_first(groups, shard_count, begin_s)
    of_unit = {group.members[0]: group for group in groups}
    least_s = max(_loads(groups, fresh, begin_s))
    shards = _settled(groups, homes, shard_count, begin_s, (1 + GAP) * least_s)
    if shards is None:
        return _renumbered(groups, fresh, homes)
    assert sum(map(len, shards)) == len(of_unit)
    return tuple(
        tuple(sorted(unit for first in shard for unit in of_unit[first].members))
        for shard in shards
    )


def _loads(
    groups: Sequence[Group],
    shards: Sequence[Sequence[int]],
    begin_s: Sequence[float] | None,
) -> list[float]:
    place = {unit: shard for shard, members in enumerate(shards) for unit in members}
    loads_s = list(begin_s) if begin_s is not None else [0.0] * len(shards)
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


def _settled(
    groups: Sequence[Group],
    homes: Mapping[int, int],
    shard_count: int,
    begin_s: Sequence[float] | None,
    most_s: float,
) -> list[list[int]] | None:
    """Every group at home, then one after the other out of the longest shard; by first units."""
    loads_s = list(begin_s) if begin_s is not None else [0.0] * shard_count
    shards: list[list[Group]] = [[] for _ in range(shard_count)]
    homeless = []
    for group in groups:
        home = _home(group, homes, shard_count)
        if home is None:
            homeless.append(group)
        else:
            shards[home].append(group)
            loads_s[home] += group.wall_s
    for group in sorted(homeless, key=lambda group: (-group.wall_s, group.members[0])):
        least = min(range(shard_count), key=lambda shard: (loads_s[shard], shard))
        shards[least].append(group)
        loads_s[least] += group.wall_s
    for _ in range(len(groups)):
        if max(loads_s) <= most_s and all(shards):
            return [[group.members[0] for group in shard] for shard in shards]
        if not _moved(shards, loads_s):
            break
    return None


def _moved(shards: list[list[Group]], loads_s: list[float]) -> bool:
    """Move the group that evens the longest and the shortest shard best; an empty one is first."""
    shortest = min(
        range(len(shards)), key=lambda shard: (bool(shards[shard]), loads_s[shard], shard)
    )
    donors = [shard for shard, held in enumerate(shards) if len(held) > 1 and shard != shortest]
    if not donors:
        return False
    longest = max(donors, key=lambda shard: (loads_s[shard], -shard))
    gap_s = loads_s[longest] - loads_s[shortest]
    group = min(
        shards[longest], key=lambda group: (abs(gap_s - 2 * group.wall_s), group.members[0])
    )
    helps = loads_s[longest] >= max(loads_s) and 0 < group.wall_s < gap_s
    if shards[shortest] and not helps:
        return False
    shards[longest].remove(group)
    shards[shortest].append(group)
    loads_s[longest] -= group.wall_s
    loads_s[shortest] += group.wall_s
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
