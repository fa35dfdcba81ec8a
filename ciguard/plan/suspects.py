"""What a lost shard tells: which units may have killed it, narrowed by every further loss. Pure.

A shard whose runner died left no culprit, only a set of units of which none can be told from the
others. A unit that has since ended well is innocent. Repeated losses intersect: the units of one
loss are spread over all shards, so that the next one leaves but a fraction of them; after two, they
run in shards of their own and take nothing else along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.series import in_complete_leg, is_censored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ciguard.codec.history import History
    from ciguard.plan.inventory import Inventory

# Who stopped the leg in these is known, and it was no unit.
EXPLAINED: Final = frozenset(
    {"completed", "deadline", "cancelled", "superseded", "setup_failed", "never_started"}
)
ALONE_FROM: Final = 2  # losses
OWN_RATIO: Final = 0.125  # of the shards are at most the suspects' own
CHAINS: Final = 4  # culprits looked for at once


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Units of which one killed `losses` shards; positions in the inventory, ascending."""

    units: tuple[int, ...]
    losses: int

    @property
    def is_alone(self) -> bool:
        """Whether they get shards of their own."""
        return self.losses >= ALONE_FROM


def suspicions(
    history: History, found: Inventory, unit_of_key: NDArray[np.int64]
) -> tuple[Suspicion, ...]:
    """Who may have killed the shards that were lost, newest loss first; disjoint.

    A loss whose units have all ended well since has no suspect, and is forgotten.

    Args:
        unit_of_key: for each key of the history, its position in the inventory, or < 0.
    """
    chains: list[Suspicion] = []
    taken: set[int] = set()
    for candidates in _losses(history, found, unit_of_key):
        fewer = next(
            (place for place, one in enumerate(chains) if candidates.intersection(one.units)), None
        )
        if fewer is not None:
            both = candidates.intersection(chains[fewer].units)
            chains[fewer] = Suspicion(tuple(sorted(both)), chains[fewer].losses + 1)
        elif len(chains) < CHAINS and not candidates <= taken:
            chains.append(Suspicion(tuple(sorted(candidates - taken)), 1))
        taken |= candidates
    return tuple(chains)


def placed(
    suspicions: Sequence[Suspicion], positions: Sequence[int], shard_count: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Where the suspects among these units go.

    Returns:
        Shards of the suspects' own, and for each of the other shards its part of those that are
        only spread. O(suspects).
    """
    there = set(positions)
    apart = [unit for one in suspicions if one.is_alone for unit in one.units if unit in there]
    others = len(there) - len(apart)  # units that no shard of their own takes
    wanted = max(1, int(OWN_RATIO * shard_count), shard_count - others)
    most = min(len(apart), wanted, shard_count - 1) if others else 0
    own = [tuple(sorted(apart[shard::most])) for shard in range(most)]
    taken = {unit for members in own for unit in members}
    spread: list[list[int]] = [[] for _ in range(shard_count - len(own))]
    turn = 0
    for one in suspicions:
        for unit in one.units:
            if unit in there and unit not in taken:
                spread[turn % len(spread)].append(unit)
                turn += 1
    return own, [tuple(members) for members in spread]


def _losses(
    history: History, found: Inventory, unit_of_key: NDArray[np.int64]
) -> Iterator[set[int]]:
    """The suspects of each lost leg, newest first."""
    legs = [
        (number, leg)
        for number, run in enumerate(history.runs)
        for leg in run.legs
        if leg.lost and leg.ending not in EXPLAINED
    ]
    if not legs:
        return
    place = {key: position for position, key in enumerate(found.keys)}
    cleared = _cleared(history, len(found.keys), unit_of_key)
    for number, leg in reversed(legs):
        units = {place[key] for key in leg.lost if key in place}
        candidates = {unit for unit in units if cleared[unit] <= number}
        if candidates:
            yield candidates


def _cleared(history: History, count: int, unit_of_key: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each unit the newest run in which it ended well in a leg that did; -1 where in none."""
    values = history.values
    unit = unit_of_key[values.key]
    good = (unit >= 0) & in_complete_leg(history, values) & ~is_censored(values)
    newest = np.full(count, -1, np.int64)
    np.maximum.at(newest, unit[good], values.run[good])
    return newest
