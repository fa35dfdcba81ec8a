"""Keep units where the base's plan has them, so that shard 47 means the same tomorrow. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from ciguard.plan.packing import Packing, Preassigned, pack_balanced, priority

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.plan.packing import Costs, Group

MAX_GAP: Final = 0.05  # over what a fresh plan reaches: less is not worth a move


def pack_sticky(
    groups: Sequence[Group], previous: Mapping[int, int], fresh: Packing, costs: Costs
) -> Packing:
    """Pack with as few moves as a gap of 5 % to a fresh plan allows.

    A group that the base has in several shards stays in them. A shard that is too long gives groups
    away: they are packed like those that the base does not have, and cut where they do not fit.

    Args:
        previous: by unit, the shard that it was in; units that are not there are new.
        fresh: the same groups, packed without regard to where they were.

    Returns:
        No shard is empty that is not empty in `fresh`. Where moves do not close the gap, `fresh`
        with its shards numbered so that most time stays where it was.
        O(units + groups (log groups + groups given away)).
    """
    limit_s = (1 + MAX_GAP) * fresh.makespan_s
    stay: list[list[Group]] = [[] for _ in fresh.groups_by_shard]
    moving: list[Group] = []
    for group in groups:
        for shard, part in _split_by_previous(group, previous, len(stay), costs):
            (moving if shard is None else stay[shard]).append(part)
    filled = []
    for before, mine in zip(fresh.preassigned, stay, strict=True):
        moving += _give_away(mine, limit_s - before.load_s)
        load_s = before.load_s + sum(group.wall_s for group in mine)
        units = tuple(unit for group in mine for unit in group.members)
        filled.append(Preassigned(load_s, (*before.members, *units)))
    moved = pack_balanced(moving, filled, costs, limit_s)
    held = [[*mine, *more] for mine, more in zip(stay, moved.groups_by_shard, strict=True)]
    found = Packing(held, fresh.preassigned)
    if found.makespan_s <= limit_s and not found.has_empty_shard:
        return found
    return _match_numbers(fresh, previous)


def _previous_shard(group: Group, previous: Mapping[int, int], shard_count: int) -> int | None:
    """The one that had most of its units."""
    votes = Counter(previous[unit] for unit in group.members if unit in previous)
    shards = [shard for shard in votes if shard < shard_count]
    return min(shards, key=lambda shard: (-votes[shard], shard)) if shards else None


def _split_by_previous(
    group: Group, previous: Mapping[int, int], shard_count: int, costs: Costs
) -> Iterator[tuple[int | None, Group]]:
    """The parts that the base has in different shards; new units stay with most of the others."""
    most = _previous_shard(group, previous, shard_count)
    if most is None or group.indivisible:
        yield most, group
        return
    parts: dict[int, list[int]] = {}
    for unit in group.members:
        shard = previous.get(unit, most)
        parts.setdefault(shard if shard < shard_count else most, []).append(unit)
    for shard, members in parts.items():
        yield shard, group if len(parts) == 1 else costs.part(group, members)


def _give_away(groups: list[Group], room_s: float) -> list[Group]:
    """Take groups out until the others fit: the shortest that is enough, or else the longest."""
    groups.sort(key=priority)
    over_s = sum(group.wall_s for group in groups) - room_s
    given = []
    while over_s > 0 and groups:
        place = bisect_left(groups, over_s, key=lambda group: group.wall_s)
        given.append(groups.pop(min(place, len(groups) - 1)))
        over_s -= given[-1].wall_s
    return given


def _match_numbers(fresh: Packing, previous: Mapping[int, int]) -> Packing:
    """Give each fresh shard the number of the one that it shares the most time with."""
    count = len(fresh.groups_by_shard)
    shared: dict[tuple[int, int], float] = defaultdict(float)
    for shard, mine in enumerate(fresh.groups_by_shard):
        for group in mine:
            number = _previous_shard(group, previous, count)
            if number is not None:
                shared[shard, number] += group.wall_s
    heap = [(-wall_s, shard, number) for (shard, number), wall_s in shared.items()]
    heapq.heapify(heap)
    shard_of: dict[int, int] = {}
    taken: set[int] = set()
    while heap:
        _, shard, number = heapq.heappop(heap)
        if number not in shard_of and shard not in taken:
            shard_of[number] = shard
            taken.add(shard)
    free = iter([shard for shard in range(count) if shard not in taken])
    ordered = [shard_of[number] if number in shard_of else next(free) for number in range(count)]
    return Packing(
        [fresh.groups_by_shard[shard] for shard in ordered],
        [fresh.preassigned[shard] for shard in ordered],
    )
