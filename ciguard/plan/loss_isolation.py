"""The units that may have killed a lost shard: candidates, fewer after every further loss. Pure.

A shard whose runner died names no culprit: each of its units is a candidate, until it completes in
a later run. Repeated losses intersect. The candidates are spread over all shards, so that the next
loss leaves a fraction of them. When each can have a shard of its own, they are isolated: there they
take no other unit along.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.query import in_complete_leg, is_censored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ciguard.history.file import History
    from ciguard.plan.inventory import Inventory

# Who stopped the leg in these is known, and it was no unit.
EXPLAINED_ENDINGS: Final = frozenset(
    {"completed", "deadline", "cancelled", "superseded", "setup_failed", "never_started"}
)
ISOLATION_SHARD_RATIO: Final = 0.125  # of the shards are isolated at most
KNOWN_CULPRIT_RATIO: Final = 0.5  # of the shards, where a set has one unit left
MAX_SETS: Final = 8  # culprits looked for at once; of four, a fifth takes others along for ever


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Units of which one killed `losses` shards; positions in the inventory, ascending."""

    units: tuple[int, ...]
    losses: int


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
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Assign the candidates among these units.

    Args:
        colocated: units that stay together: all of them are candidates where one is.

    Returns:
        The isolated shards, and for each of the other shards its part of the candidates that are
        spread. O(units).
    """
    there = set(positions)
    together = {unit: members for members in colocated for unit in members}
    sets: list[list[tuple[int, ...]]] = []  # blocks, by candidate set
    for one in candidates:
        blocks = []
        for unit in one.units:
            if unit in there:
                blocks.append(together.get(unit, (unit,)))
                there.difference_update(blocks[-1])
        sets.append(blocks)
    own: list[tuple[int, ...]] = []
    spread: list[tuple[int, ...]] = []
    for blocks in sorted(sets, key=len):
        # Few are isolated, as no other unit runs in their shards; a known culprit always is.
        ratio = KNOWN_CULPRIT_RATIO if len(blocks) == 1 else ISOLATION_SHARD_RATIO
        fits = len(own) + len(blocks) <= ratio * shard_count
        (own if fits else spread).extend(blocks)
    # Another order after every loss: two that are lost together once are not so for ever.
    losses = sum(one.losses for one in candidates)
    spread.sort(key=lambda block: zlib.crc32(repr((losses, block)).encode("ascii")))
    found: list[list[int]] = [[] for _ in range(shard_count - len(own))]
    for turn, block in enumerate(spread):
        found[turn % len(found)].extend(block)
    return own, [tuple(members) for members in found]


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
