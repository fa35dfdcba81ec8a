"""Blocks of units that move between legs: which this leg holds back, has asked for, and gave away.

Changed by `state` alone. Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Mapping

if TYPE_CHECKING:
    from ciguard.model import EventLine, PlannedUnit, Shard

# Open: it may ask. Asked: an answer is awaited. Over: it runs what it has, and asks no more.
ClaimStatus = Literal["open", "asked", "over"]


@dataclass
class BlockClaims:
    """What a leg knows of blocks.

    Attributes:
        held: its own that it does not run yet, by name: positions of their units.
        others: those of other legs that it may be given.
        moved: its own that another leg runs.
        claimed: those that it was given, in this order.
    """

    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, tuple[PlannedUnit, ...]] = field(default_factory=dict)
    moved: dict[str, tuple[int, ...]] = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    status: ClaimStatus = "over"

    def observe(self, line: EventLine) -> tuple[int, ...] | None:
        """Take in a line about blocks.

        Returns:
            Positions of own units that are to run from now on; None for another leg's block, whose
            units are not in the shard yet.
        """
        block = line.block or ""
        if line.kind == "claims_ended":
            self.status = "over"
            freed = sorted(unit for units in self.held.values() for unit in units)
            self.held.clear()
            return tuple(freed)
        if line.kind == "taken":
            if block in self.held:
                self.moved[block] = self.held.pop(block)
            return ()
        if line.kind != "claimed":
            return ()
        if self.status == "asked":
            self.status = "open"
        if block in self.claimed:
            return ()
        self.claimed.append(block)
        own = self.held.pop(block, None) or self.moved.pop(block, None)
        return None if own is None and block in self.others else own or ()

    @property
    def moved_units(self) -> frozenset[int]:
        """Positions of units that another leg runs."""
        return frozenset(unit for units in self.moved.values() for unit in units)


def claims_of(shard: Shard, others: Mapping[str, tuple[PlannedUnit, ...]]) -> BlockClaims:
    """What a leg knows at its start.

    Args:
        others: blocks of other shards that its own may run.
    """
    held, begin = {}, shard.own_count
    for name, units in shard.units_by_block().items():
        held[name] = tuple(range(begin, begin + len(units)))
        begin += len(units)
    return BlockClaims(held, others, status="open" if held or others else "over")
