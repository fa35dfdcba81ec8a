"""Units without a result whose block moved during the run: which leg was to run them. Pure.

A leg that gave a block away owes nothing of it; the leg that claimed it does, and so does one that
has it by the record of the owner and left none itself. Where no record claims it, its units are
missing all the same: that another leg runs them is no result.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.guard.verdict import Missing
    from ciguard.model import UnitKey
    from ciguard.model.attempts import Status
    from ciguard.model.moved_blocks import MovedBlock

# Reasons that no leg of this attempt is to blame for.
UNCLAIMED: Final[tuple[str, ...]] = ("not_claimed_again", "claim_without_record")
# Of a unit that moved the worst last: what did not finish in one leg may have in the other.
MOVED_STATUSES: Final[tuple[Status, ...]] = ("unfinished", "good", "bad")


def moved_shards(blocks: Iterable[MovedBlock]) -> Mapping[UnitKey, frozenset[str]]:
    """By unit of a block that a leg claimed, the legs that may have run it."""
    return {unit.key: block.shards for block in blocks if block.claimers for unit in block.units}


def with_moves(missing: Sequence[Missing], blocks: Sequence[MovedBlock]) -> tuple[Missing, ...]:
    """Missing units with the shard that the plan has them in, by the shard that was to run them."""
    if not missing or not blocks:
        return tuple(missing)
    home = {unit.key: block for block in blocks for unit in block.units}
    unclaimed = {block.name: _unclaimed(block) for block in blocks}
    found = []
    for one in missing:
        block = home.get(one.key)
        if block is None:
            found.append(one)
            continue
        reason = unclaimed[block.name] or one.reason
        planned = block.owner if block.owner != one.shard else ""
        found.append(replace(one, reason=reason, planned_shard=planned))
    return tuple(found)


def _unclaimed(block: MovedBlock) -> Note | None:
    if block.claimers or block.is_lost:
        return None
    if block.earlier is None:
        return Note("claim_without_record", {"claimer": block.taker or None})
    shard, attempt = block.earlier
    # Its own leg runs them whatever is known of claims; the claimer only with its older record.
    facts = {"claimer": shard, "attempt": attempt, "owner": block.owner}
    return Note("not_claimed_again", facts)


def unclaimed_findings(missing: Iterable[Missing]) -> Iterator[Finding]:
    """One finding for each shard and reason, with its facts."""
    found: dict[tuple[str, str, str], list[Missing]] = defaultdict(list)
    for one in missing:
        if one.reason.kind in UNCLAIMED:
            found[one.shard, one.reason.kind, f"{one.reason.facts}"].append(one)
    for (shard, kind, _), of_shard in sorted(found.items()):
        units = tuple(one.key for one in of_shard)
        yield Finding(kind, shard, units, of_shard[0].reason.facts)
