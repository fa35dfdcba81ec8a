"""What a lost shard tells: which units may have killed it, narrowed by every further loss. Pure.

A shard whose runner died left no culprit, only a set of units of which none can be told from the
others. A unit that has since ended well is innocent. Repeated losses intersect: the units of one
loss are spread over all shards, so that the next one leaves but a fraction of them; after two, they
run in shards of their own and take nothing else along. Where those are so few that the next loss
would tell nothing new, half of them are among the others again.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.series import in_complete_leg, is_censored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ciguard.codec.history import History
    from ciguard.plan.inventory import Inventory

# Who stopped the leg in these is known, and it was no unit.
EXPLAINED_ENDINGS: Final = frozenset(
    {"completed", "deadline", "cancelled", "superseded", "setup_failed", "never_started"}
)
ISOLATE_FROM_LOSSES: Final = 2  # losses
ISOLATION_SHARD_RATIO: Final = 0.125  # of the shards are at most the suspects' own
MAX_SETS: Final = 8  # culprits looked for at once; of four, a fifth takes others along for ever


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Units of which one killed `losses` shards; positions in the inventory, ascending."""

    units: tuple[int, ...]
    losses: int

    @property
    def is_isolated(self) -> bool:
        """Whether they get shards of their own."""
        return self.losses >= ISOLATE_FROM_LOSSES


def candidate_sets(
    history: History, inventory: Inventory, unit_of_key: NDArray[np.int64]
) -> tuple[CandidateSet, ...]:
    """Who may have killed the shards that were lost, newest loss first; disjoint.

    A loss whose units have all ended well since has no suspect, and is forgotten.

    Args:
        unit_of_key: for each key of the history, its position in the inventory, or < 0.
    """
    chains: list[CandidateSet] = []
    taken: set[int] = set()
    for candidates in _lost_legs(history, inventory, unit_of_key):
        fewer = next(
            (place for place, one in enumerate(chains) if candidates.intersection(one.units)), None
        )
        if fewer is not None:
            both = candidates.intersection(chains[fewer].units)
            chains[fewer] = CandidateSet(tuple(sorted(both)), chains[fewer].losses + 1)
        elif len(chains) < MAX_SETS and not candidates <= taken:
            chains.append(CandidateSet(tuple(sorted(candidates - taken)), 1))
        taken |= candidates
    return tuple(chains)


def place_candidates(
    candidates: Sequence[CandidateSet],
    positions: Sequence[int],
    shard_count: int,
    *,
    marked: Sequence[tuple[int, ...]] = (),
    walls_s: Sequence[float] | None = None,
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Where the suspects among these units go.

    Args:
        marked: units that stay together: all of them are suspects where one is.
        walls_s: of all units, by position: the suspects' own shards take no longer than others.

    Returns:
        Shards of the suspects' own, and for each of the other shards its part of those that are
        only spread. O(units).
    """
    there = set(positions)
    together = {unit: members for members in marked for unit in members}
    once: set[int] = set()
    sets: list[list[tuple[int, ...]]] = []  # blocks that are to be alone, by suspicion
    spread_out: list[tuple[int, ...]] = []
    losses = sum(one.losses for one in candidates)
    for one in candidates:
        blocks = []
        for unit in one.units:
            if unit in there and unit not in once:
                blocks.append(together.get(unit, (unit,)))
                once.update(blocks[-1])
        if one.is_isolated and blocks:
            # Another order after every loss: two that are lost together once are not so for ever.
            blocks.sort(key=lambda block: zlib.crc32(repr((losses, block)).encode("ascii")))
            sets.append(blocks)
        else:
            spread_out += blocks
    own = _isolated(sets, there, marked, walls_s, shard_count)
    if (
        own
        and len(own) < 2 * len(sets)
        and any(one.losses > ISOLATE_FROM_LOSSES for one in candidates)
    ):
        # Alone they were lost again, and so few shards would only say the same once more.
        spread_out = [block for blocks in sets for block in blocks[_half(blocks) :]] + spread_out
        sets = [blocks[: _half(blocks)] for blocks in sets]
        own = _isolated(sets, there, marked, walls_s, shard_count)
    if not own:
        spread_out = [block for blocks in sets for block in blocks] + spread_out
    spread: list[list[int]] = [[] for _ in range(shard_count - len(own))]
    for turn, block in enumerate(spread_out):
        spread[turn % len(spread)].extend(block)
    return own, [tuple(members) for members in spread]


def _half(blocks: Sequence[tuple[int, ...]]) -> int:
    return (len(blocks) + 1) // 2


def _isolated(
    sets: Sequence[Sequence[tuple[int, ...]]],
    positions: set[int],
    marked: Sequence[tuple[int, ...]],
    walls_s: Sequence[float] | None,
    shard_count: int,
) -> list[tuple[int, ...]]:
    """Shards of their own for all of these blocks."""
    blocks = [block for chain in sets for block in chain]
    other_units = positions.difference(*blocks)
    pieces = len(other_units) - sum(len(one) - 1 for one in marked if one[0] in other_units)
    least = max(shard_count - pieces, min(len(sets), shard_count // 2))
    return _isolation_shards(blocks, other_units, walls_s, shard_count, least)


def _isolation_shards(
    blocks: Sequence[tuple[int, ...]],
    other_units: set[int],
    walls_s: Sequence[float] | None,
    shard_count: int,
    min_shards: int,
) -> list[tuple[int, ...]]:
    """Shards that hold nothing but suspects: an eighth, or as many as their time needs.

    Args:
        other_units: units that are elsewhere.
        min_shards: shards that the others cannot fill, or one for each culprit.
    """
    if not blocks or not other_units or shard_count < 2:  # noqa: PLR2004  # nothing to keep apart
        return []
    cost_s: Callable[[int], float] = walls_s.__getitem__ if walls_s else lambda _: 1.0
    mine_s = math.fsum(cost_s(unit) for block in blocks for unit in block)
    all_s = mine_s + math.fsum(cost_s(unit) for unit in other_units)
    share = math.ceil(shard_count * mine_s / all_s) if all_s > 0 else 1
    wanted = max(1, int(ISOLATION_SHARD_RATIO * shard_count), share, min_shards)
    most = min(len(blocks), wanted, shard_count - 1)
    shards: list[list[int]] = [[] for _ in range(most)]
    loads_s = [0.0] * most
    for block in blocks:
        min_shards = min(range(most), key=lambda shard: (loads_s[shard], len(shards[shard]), shard))
        shards[min_shards].extend(block)
        loads_s[min_shards] += math.fsum(cost_s(unit) for unit in block)
    return [tuple(sorted(members)) for members in shards]


def _lost_legs(
    history: History, inventory: Inventory, unit_of_key: NDArray[np.int64]
) -> Iterator[set[int]]:
    """The suspects of each lost leg, newest first."""
    legs = [
        (number, leg)
        for number, run in enumerate(history.runs)
        for leg in run.legs
        if leg.lost_units and leg.ending not in EXPLAINED_ENDINGS
    ]
    if not legs:
        return
    place = {key: position for position, key in enumerate(inventory.keys)}
    cleared = _last_good_run(history, len(inventory.keys), unit_of_key)
    for number, leg in reversed(legs):
        units = {place[key] for key in leg.lost_units if key in place}
        candidates = {unit for unit in units if cleared[unit] <= number}
        if candidates:
            yield candidates


def _last_good_run(
    history: History, count: int, unit_of_key: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each unit the newest run in which it ended well in a leg that did; -1 where in none."""
    values = history.values
    unit = unit_of_key[values.key]
    good = (unit >= 0) & in_complete_leg(history, values) & ~is_censored(values)
    newest = np.full(count, -1, np.int64)
    np.maximum.at(newest, unit[good], values.run[good])
    return newest
