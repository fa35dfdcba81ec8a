"""Blocks of units, which move between legs: those that a leg holds back, claimed and gave away.

`State` (state.py) alone changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Mapping

if TYPE_CHECKING:
    from ciguard.model import EventLine, PlannedUnit, Shard

# Open: the leg may ask. Asked: it awaits an answer. Over: it runs all its units and asks no more.
ClaimStatus = Literal["open", "asked", "over"]


@dataclass
class BlockClaims:
    """State of all blocks for one leg.

    Attributes:
        held: own blocks that the leg does not run yet; name -> positions of the units.
        others: blocks of other legs that this leg may be given; name -> units.
        moved: own blocks that another leg runs; name -> positions of the units.
        claimed: names of the blocks that this leg was given, in this order.
    """

    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, tuple[PlannedUnit, ...]] = field(default_factory=dict)
    moved: dict[str, tuple[int, ...]] = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    status: ClaimStatus = "over"

    def observe(self, line: EventLine) -> tuple[int, ...] | None:
        """Take in a line about blocks.

        Returns:
            Positions of own units that the leg is to run from now on; None for a block of another
            leg, whose units are not in the shard yet.
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
        """Positions of own units that another leg runs."""
        return frozenset(unit for units in self.moved.values() for unit in units)


def claims_of(shard: Shard, others: Mapping[str, tuple[PlannedUnit, ...]]) -> BlockClaims:
    """Return the blocks as a leg has them at its start.

    Args:
        others: blocks of other shards that this leg may run.
    """
    held, begin = {}, shard.own_count
    for name, units in shard.units_by_block().items():
        held[name] = tuple(range(begin, begin + len(units)))
        begin += len(units)
    return BlockClaims(held, others, status="open" if held or others else "over")
