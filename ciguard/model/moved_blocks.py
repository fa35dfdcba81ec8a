"""Which leg was to run a unit of a block that moved during the run, by what legs recorded. Pure.

Standard library only, Python 3.8+.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Iterable, Mapping

from ciguard.model.attempts import classify_result
from ciguard.model.plan import Plan, PlannedUnit, shard_of_block
from ciguard.model.types import SLOTS, UnitKey

if TYPE_CHECKING:
    from ciguard.model.record import Record

HAS_BEGUN: Final = 1
HAS_RESULT: Final = 2  # that is a verdict


@dataclass(frozen=True, **SLOTS)
class MovedBlock:
    """A block of which a record says that another leg than its own runs it.

    Attributes:
        owner: its shard in the plan.
        claimers: other shards whose record says that they run it, by name.
        owner_claimed: the record of the owner says that it runs the block.
        taker: the shard whose leg runs it by the record of the owner, where that does not say that
            the owner runs it; "" where it says no shard, or none of the plan.
        is_lost: no record claims it, and the taker left none.
        earlier: where no record that counts claims what is taken: the last record of an older
            attempt that does, by shard and attempt.
    """

    name: str
    owner: str
    units: tuple[PlannedUnit, ...]
    claimers: tuple[str, ...]
    owner_claimed: bool = False
    taker: str = ""
    is_lost: bool = False
    earlier: tuple[str, int] | None = None

    @property
    def shards(self) -> frozenset[str]:
        """Legs that may have run it."""
        return frozenset({self.owner, *self.claimers})


def newest_by_shard(records: Iterable[Record]) -> Mapping[str, Record]:
    """The record of the newest attempt of each shard."""
    ordered = sorted(records, key=lambda one: one.identity.run_attempt or 0)
    return {one.identity.shard: one for one in ordered}


def claimed_blocks(record: Record) -> frozenset[str]:
    """Names of the blocks that a leg runs by its own word, its own among them."""
    return frozenset(one.block for one in record.events if one.kind == "claimed" and one.block)


def count_moved_blocks(records: Mapping[str, Record]) -> tuple[int, int]:
    """How many blocks moved, and between how many shards, where no plan is known.

    Args:
        records: by shard.
    """
    pairs = {
        (name, shard_of_block(name), shard)
        for shard, record in records.items()
        for name in claimed_blocks(record)
        if shard_of_block(name) != shard
    }
    return len({name for name, *_ in pairs}), len({one for _, *both in pairs for one in both})


def find_moved_blocks(
    plan: Plan,
    records: Mapping[str, Record],
    earlier: Mapping[str, Iterable[Record]] | None = None,
) -> tuple[MovedBlock, ...]:
    """The blocks that moved, in the plan's order; O(events + units).

    Args:
        records: that count, by shard.
        earlier: of older attempts of the run, by shard, which say at most who had claimed a block.
    """
    if not plan.claims:
        return ()
    keys = {shard.key for shard in plan.shards}
    claims = {key: claimed_blocks(records[key]) for key in sorted(keys & records.keys())}
    claimers: dict[str, list[str]] = defaultdict(list)
    for key, names in claims.items():
        for name in names:
            claimers[name].append(key)
    before = _last_claims(earlier or {})
    found = []
    for shard in plan.shards:
        own = claims.get(shard.key, frozenset())
        taken = _taken_blocks(records.get(shard.key), own)
        for name, units in shard.units_by_block().items():
            others = tuple(one for one in claimers[name] if one != shard.key)
            if not others and name not in taken:
                continue
            # A shard that the plan does not have would take the units out of the plan.
            taker = taken.get(name, "")
            taker = taker if taker in keys and taker != shard.key else ""
            claimer, attempt = before.get(name, (shard.key, 0))
            found.append(
                MovedBlock(
                    name,
                    shard.key,
                    units,
                    others,
                    owner_claimed=name in own,
                    taker=taker,
                    is_lost=bool(taker) and taker not in records and not others,
                    earlier=None if others or claimer == shard.key else (claimer, attempt),
                )
            )
    return tuple(found)


def _last_claims(earlier: Mapping[str, Iterable[Record]]) -> Mapping[str, tuple[str, int]]:
    """By block: the shard and the run attempt of the last record that claims it."""
    found: dict[str, tuple[int, str]] = {}
    for key, records in earlier.items():
        for record in records:
            claim = (record.identity.run_attempt or 0, key)
            for name in claimed_blocks(record):
                found[name] = max(found.get(name, claim), claim)
    return {name: (key, attempt) for name, (attempt, key) in found.items()}


def _taken_blocks(record: Record | None, own: frozenset[str]) -> Mapping[str, str]:
    """By block that the owner does not run by its own record: who has it, "" where it is unsaid."""
    events = record.events if record else ()
    return {
        one.block: one.shard or ""
        for one in events
        if one.kind == "taken" and one.block and one.block not in own
    }


def with_moved_units(
    plan: Plan, blocks: Iterable[MovedBlock], records: Mapping[str, Record]
) -> Plan:
    """The plan with each unit in the shard whose leg was to run it in the end.

    That is its own where that has a result of the unit. Else it is the leg that has one, or that
    began it, or that claimed its block, or that has it by the record of its own and left none. A
    block without any such leg stays. O(results).
    """
    moved = tuple(blocks)
    if not moved:
        return plan
    movable = {unit.key for block in moved for unit in block.units}
    seen = {
        shard: _progress(records.get(shard), movable) for block in moved for shard in block.shards
    }
    gone: dict[str, set[UnitKey]] = defaultdict(set)
    added: dict[str, list[PlannedUnit]] = defaultdict(list)
    for block in moved:
        order = _by_precedence(block)
        for unit in block.units:
            levels = {shard: seen.get(shard, {}).get(unit.key, 0) for shard in order}
            runner = block.owner
            if levels[runner] < HAS_RESULT:
                runner = max(order, key=levels.__getitem__)
            if runner != block.owner:
                gone[block.owner].add(unit.key)
                added[runner].append(unit)
    return replace(
        plan,
        shards=tuple(
            replace(
                shard,
                units=(
                    *(unit for unit in shard.units if unit.key not in gone[shard.key]),
                    *added[shard.key],
                ),
                blocks=(),
            )
            for shard in plan.shards
        ),
    )


def _by_precedence(block: MovedBlock) -> tuple[str, ...]:
    """The legs that may have been meant to run it; of equals the first is."""
    if block.is_lost:
        return (block.taker, block.owner)
    if block.owner_claimed or not (block.claimers or block.earlier):
        return (block.owner, *block.claimers)
    return (*block.claimers, *((block.earlier[0],) if block.earlier else ()), block.owner)


def _progress(record: Record | None, keys: set[UnitKey]) -> Mapping[UnitKey, int]:
    """How far a leg came with these units."""
    found: dict[UnitKey, int] = {}
    if record is None:
        return found
    for start in record.starts:
        key = UnitKey(start.suite, start.variant, start.unit)
        if key in keys:
            found[key] = HAS_BEGUN
    for result in record.results:
        key = result.key.unit_key
        if key in keys:
            level = HAS_BEGUN if classify_result(result) == "unfinished" else HAS_RESULT
            found[key] = max(found.get(key, 0), level)
    return found
