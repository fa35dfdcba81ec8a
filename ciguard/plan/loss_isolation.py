"""The units that may have killed a lost shard: candidates, fewer after every further loss. Pure.

A shard whose runner died names no culprit: each of its units is a candidate, until it completes in
a later run. Repeated losses intersect. After one loss the candidates are spread over all shards, so
that the next loss leaves a fraction of them; after two they run in isolated shards, where they take
no other unit along. Where isolated shards are so few that the next loss would remove no candidate,
half of the candidates are spread over the other shards again.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import in_complete_leg, is_censored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ciguard.history.file import History
    from ciguard.plan.inventory import Inventory

# Who stopped the leg in these is known, and it was no unit.
EXPLAINED_ENDINGS: Final = frozenset(
    {"completed", "deadline", "cancelled", "superseded", "setup_failed", "never_started"}
)
ISOLATE_FROM_LOSSES: Final = 2  # losses
ISOLATION_SHARD_RATIO: Final = 0.125  # of the shards are isolated at most
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

    A loss whose units have all completed since has no candidate, and is forgotten.

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
    colocated: Sequence[tuple[int, ...]] = (),
    walls_s: Sequence[float] | None = None,
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Assign the candidates among these units.

    Args:
        colocated: units that stay together: all of them are candidates where one is.
        walls_s: of all units, by position: isolated shards take no longer than others.

    Returns:
        The isolated shards, and for each of the other shards its part of the candidates that are
        spread. O(units).
    """
    there = set(positions)
    together = {unit: members for members in colocated for unit in members}
    once: set[int] = set()
    sets: list[list[tuple[int, ...]]] = []  # blocks to isolate, by candidate set
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
    own = _isolated(sets, there, colocated, walls_s, shard_count)
    if (
        own
        and len(own) < 2 * len(sets)
        and any(one.losses > ISOLATE_FROM_LOSSES for one in candidates)
    ):
        # Isolated they were lost again, and so few shards would lose the same units once more.
        spread_out = [block for blocks in sets for block in blocks[_half(blocks) :]] + spread_out
        sets = [blocks[: _half(blocks)] for blocks in sets]
        own = _isolated(sets, there, colocated, walls_s, shard_count)
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
    colocated: Sequence[tuple[int, ...]],
    walls_s: Sequence[float] | None,
    shard_count: int,
) -> list[tuple[int, ...]]:
    """Shards of their own for all of these blocks."""
    blocks = [block for chain in sets for block in chain]
    other_units = positions.difference(*blocks)
    most_shards = len(other_units) - sum(len(one) - 1 for one in colocated if one[0] in other_units)
    least = max(shard_count - most_shards, min(len(sets), shard_count // 2))
    return _isolation_shards(blocks, other_units, walls_s, shard_count, least)


def _isolation_shards(
    blocks: Sequence[tuple[int, ...]],
    other_units: set[int],
    walls_s: Sequence[float] | None,
    shard_count: int,
    min_shards: int,
) -> list[tuple[int, ...]]:
    """Shards of candidates only: an eighth of all, or as many as their time needs.

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
    """The candidates of each lost leg, newest first."""
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
