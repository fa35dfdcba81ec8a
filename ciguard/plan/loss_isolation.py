"""The units that may have killed a lost shard: candidates, fewer after each further loss. Pure.

A shard whose runner died names no culprit: each of its units is a candidate, until it completes in
a later run. Repeated losses intersect. The candidates are spread over all shards, so that the next
loss leaves a fraction of them. A few candidates are isolated in shards of their own, where a loss
stops no other unit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ciguard.codec.columns import Integers
from ciguard.history.file import History
from ciguard.history.query import in_complete_leg, is_censored
from ciguard.plan.inventory import Inventory

# After these endings the cause is known, and it was no unit.
EXPLAINED_ENDINGS: Final = frozenset(
    {"completed", "deadline", "cancelled", "superseded", "setup_failed", "never_started"}
)
ISOLATION_SHARD_RATIO: Final = 0.125  # largest share of isolated shards
KNOWN_CULPRIT_RATIO: Final = 0.5  # the same for a set with one remaining unit
MAX_SETS: Final = 8  # concurrent searches; with four, a fifth culprit would never be isolated


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Units, one of which killed `losses` shards; positions in the inventory, ascending."""

    units: tuple[int, ...]
    losses: int


def candidate_sets(
    history: History, inventory: Inventory, unit_of_key: Integers
) -> tuple[CandidateSet, ...]:
    """Return disjoint sets of candidates for the lost shards, newest loss first.

    A loss whose units have all completed since has no candidate and is ignored.

    Args:
        unit_of_key: for each key of the history, its position in the inventory, or < 0.
    """
    sets: list[CandidateSet] = []
    seen: set[int] = set()
    for candidates in _lost_legs(history, inventory, unit_of_key):
        index = next((n for n, known in enumerate(sets) if candidates & {*known.units}), None)
        if index is not None:
            both = candidates.intersection(sets[index].units)
            sets[index] = CandidateSet(tuple(sorted(both)), sets[index].losses + 1)
        elif len(sets) < MAX_SETS and not candidates <= seen:
            sets.append(CandidateSet(tuple(sorted(candidates - seen)), 1))
        seen |= candidates
    return tuple(sets)


def place_candidates(
    candidates: Sequence[CandidateSet],
    positions: Sequence[int],
    shard_count: int,
    *,
    colocated: Sequence[tuple[int, ...]] = (),
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Assign the candidates among these units.

    Args:
        colocated: units that stay together: all of them are candidates if one is.

    Returns:
        The isolated shards, and for each other shard its part of the spread candidates. O(units).
    """
    unplaced = set(positions)
    block_of_unit = {unit: members for members in colocated for unit in members}
    blocks_by_set: list[list[tuple[int, ...]]] = []
    for candidate_set in candidates:
        blocks = []
        for unit in candidate_set.units:
            if unit in unplaced:
                blocks.append(block_of_unit.get(unit, (unit,)))
                unplaced.difference_update(blocks[-1])
        blocks_by_set.append(blocks)
    isolated: list[tuple[int, ...]] = []
    spread: list[tuple[int, ...]] = []
    for blocks in sorted(blocks_by_set, key=len):
        # Few are isolated, because no other unit runs in their shards; a single candidate may use
        # more of the shards.
        ratio = KNOWN_CULPRIT_RATIO if len(blocks) == 1 else ISOLATION_SHARD_RATIO
        fits = len(isolated) + len(blocks) <= ratio * shard_count
        (isolated if fits else spread).extend(blocks)
    # A new order after every loss separates two candidates that were lost together.
    losses = sum(candidate_set.losses for candidate_set in candidates)
    spread.sort(key=lambda block: zlib.crc32(repr((losses, block)).encode("ascii")))
    parts: list[list[int]] = [[] for _ in range(shard_count - len(isolated))]
    for number, block in enumerate(spread):
        parts[number % len(parts)].extend(block)
    return isolated, list(map(tuple, parts))


def _lost_legs(history: History, inventory: Inventory, unit_of_key: Integers) -> Iterator[set[int]]:
    """Yield the candidates of each lost leg, newest first."""
    legs = [
        (number, leg)
        for number, run in enumerate(history.runs)
        for leg in run.legs
        if leg.lost_units and leg.ending not in EXPLAINED_ENDINGS
    ]
    if not legs:
        return
    positions = {key: position for position, key in enumerate(inventory.keys)}
    last_good_run = _last_good_run(history, len(inventory.keys), unit_of_key)
    for number, leg in reversed(legs):
        units = {positions[key] for key in leg.lost_units if key in positions}
        candidates = {unit for unit in units if last_good_run[unit] <= number}
        if candidates:
            yield candidates


def _last_good_run(history: History, count: int, unit_of_key: Integers) -> Integers:
    """Return for each unit the newest run in which it and its leg completed; -1 without any."""
    values = history.values
    unit = unit_of_key[values.key]
    good = (unit >= 0) & in_complete_leg(history, values) & ~is_censored(values)
    newest = np.full(count, -1, np.int64)
    np.maximum.at(newest, unit[good], values.run[good])
    return newest
