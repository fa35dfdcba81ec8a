"""Units that moved between jobs during a run: the job that was to run each, and the time saved.

Units move in blocks. A job that has run its own shard requests a block of another shard from the
service (it claims the block). The record of the other shard's job names the block as taken. Pure,
standard library only, Python 3.8+.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final, Iterable, Mapping, Sequence, Tuple

from ciguard.model.attempts import classify_result
from ciguard.model.machine_use import execution_spans
from ciguard.model.plan import Plan, PlannedUnit, Shard, shard_of_block
from ciguard.model.record import Record
from ciguard.model.types import SLOTS, UnitKey

Span = Tuple[float, float]
HAS_BEGUN: Final = 1
HAS_RESULT: Final = 2  # the result is a verdict
DIGITS: Final = 6


@dataclass(frozen=True, **SLOTS)
class MovedBlock:
    """A block that the leg of another shard runs according to some record.

    Attributes:
        owner: the block's shard in the plan.
        claimers: other shards whose records claim the block, by name.
        owner_claimed: the owner's record claims the block.
        taker: the shard that has the block by the owner's record, if this record does not claim the
            block; "" if the record names no shard of the plan.
        is_lost: no record claims the block, and the taker left no record.
        earlier: shard and attempt of the last older record that claims the block, if no counted
            record of another shard claims it.
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
        """Return the shards whose legs may have run the block."""
        return frozenset({self.owner, *self.claimers})


def claimed_blocks(record: Record) -> frozenset[str]:
    """Return the names of the blocks that a leg claimed, of its own shard and of others."""
    claims = (event.block for event in record.events if event.kind == "claimed")
    return frozenset(block for block in claims if block)


def count_moved_blocks(records: Mapping[str, Record]) -> tuple[int, int]:
    """Count moved blocks, and the shards between which they moved, by the records of shards."""
    pairs = {
        (name, shard_of_block(name), shard)
        for shard, record in records.items()
        for name in claimed_blocks(record)
        if shard_of_block(name) != shard
    }
    shards = {shard for _, *both in pairs for shard in both}
    return len({name for name, *_ in pairs}), len(shards)


def find_moved_blocks(
    plan: Plan, records: Mapping[str, Record], earlier: Mapping[str, Iterable[Record]] | None = None
) -> tuple[MovedBlock, ...]:
    """Return the blocks that moved, in the plan's order; O(events + units).

    Args:
        records: the counted records, by shard.
        earlier: records of older attempts of the run, by shard; only their claims are used.
    """
    if not plan.claims:
        return ()
    keys = {shard.key for shard in plan.shards}
    claims = {key: claimed_blocks(records[key]) for key in sorted(keys & records.keys())}
    claimers: dict[str, list[str]] = defaultdict(list)
    for key, names in claims.items():
        for name in names:
            claimers[name].append(key)
    older_claims = _last_claims(earlier or {})
    moved = []
    for shard in plan.shards:
        own = claims.get(shard.key, frozenset())
        taken = _taken_blocks(records.get(shard.key), own)
        for name, units in shard.units_by_block().items():
            others = tuple(key for key in claimers[name] if key != shard.key)
            if not others and name not in taken:
                continue
            # The units of a taker outside of the plan would vanish from the plan.
            taker = taken.get(name, "")
            taker = taker if taker in keys and taker != shard.key else ""
            claimer, attempt = older_claims.get(name, (shard.key, 0))
            moved.append(
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
    return tuple(moved)


def _last_claims(earlier: Mapping[str, Iterable[Record]]) -> Mapping[str, tuple[str, int]]:
    """Return by block the shard and run attempt of the last record that claims the block."""
    last: dict[str, tuple[int, str]] = {}
    for key, records in earlier.items():
        for record in records:
            claim = (record.identity.run_attempt or 0, key)
            for name in claimed_blocks(record):
                last[name] = max(last.get(name, claim), claim)
    return {name: (key, attempt) for name, (attempt, key) in last.items()}


def _taken_blocks(record: Record | None, own: frozenset[str]) -> Mapping[str, str]:
    """Return by block the shard that has it by the owner's record; "" if that names none."""
    events = record.events if record else ()
    return {
        event.block: event.shard or ""
        for event in events
        if event.kind == "taken" and event.block and event.block not in own
    }


def with_moved_units(
    plan: Plan, blocks: Iterable[MovedBlock], records: Mapping[str, Record]
) -> Plan:
    """Return the plan with each unit in the shard whose leg was to run the unit in the end.

    The first rule that applies selects the shard of a unit:

    1. the unit's own shard, if its leg has a result of the unit;
    2. a shard whose leg has a result of the unit;
    3. a shard whose leg began the unit;
    4. a shard that claimed the block, or that took it by the owner's record and left no record.

    Otherwise the unit stays in its own shard. O(results).
    """
    moved = tuple(blocks)
    if not moved:
        return plan
    movable = {unit.key for block in moved for unit in block.units}
    progress = {
        shard: _progress(records.get(shard), movable) for block in moved for shard in block.shards
    }
    removed: dict[str, set[UnitKey]] = defaultdict(set)
    added: dict[str, list[PlannedUnit]] = defaultdict(list)
    for block in moved:
        order = _by_precedence(block)
        for unit in block.units:
            levels = {shard: progress.get(shard, {}).get(unit.key, 0) for shard in order}
            runner = block.owner
            if levels[runner] < HAS_RESULT:
                runner = max(order, key=levels.__getitem__)
            if runner != block.owner:
                removed[block.owner].add(unit.key)
                added[runner].append(unit)
    return replace(
        plan,
        shards=tuple(
            replace(
                shard,
                units=(
                    *(unit for unit in shard.units if unit.key not in removed[shard.key]),
                    *added[shard.key],
                ),
                blocks=(),
            )
            for shard in plan.shards
        ),
    )


def _by_precedence(block: MovedBlock) -> tuple[str, ...]:
    """Return the shards that may have run a block; of two with equal progress the first counts."""
    if block.is_lost:
        return (block.taker, block.owner)
    if block.owner_claimed or not (block.claimers or block.earlier):
        return (block.owner, *block.claimers)
    return (*block.claimers, *((block.earlier[0],) if block.earlier else ()), block.owner)


def _progress(record: Record | None, keys: set[UnitKey]) -> Mapping[UnitKey, int]:
    """Return for each of these units whether the leg began it or has its result."""
    levels: dict[UnitKey, int] = {}
    if record is None:
        return levels
    for start in record.starts:
        key = start.unit_key
        if key in keys:
            levels[key] = HAS_BEGUN
    for result in record.results:
        key = result.unit_key
        if key in keys:
            level = HAS_BEGUN if classify_result(result) == "unfinished" else HAS_RESULT
            levels[key] = max(levels.get(key, 0), level)
    return levels


@dataclass(frozen=True, **SLOTS)
class ShardMoves:
    """Units that one leg ran for others or gave to others, and the effect on its time.

    Attributes:
        units_in: number of units of other shards that the leg ran.
        units_out: number of the shard's units that other legs ran.
        in_s, out_s: wall times of the moved units, divided by the leg's processes; None if one of
            them was not measured.
        wall_s: wall time of the leg; None if the leg did not end by itself.
        static_s: wall time that the leg would have had without moves; None if unknown.
        requests: number of requests for a block.
        waited_s: time without a running test while the leg waited for an answer.
        starts_s: time without a running test while a process for a block was starting.
    """

    shard: str
    units_in: int = 0
    units_out: int = 0
    in_s: float | None = 0.0
    out_s: float | None = 0.0
    wall_s: float | None = None
    static_s: float | None = None
    requests: int = 0
    waited_s: float = 0.0
    starts_s: float = 0.0


@dataclass(frozen=True, **SLOTS)
class MovedUnits:
    """The moves of a run; `legs` are in the plan's order.

    `ran_twice`: number of units that two legs ran, for example because the service was unreachable.
    """

    units: int
    ran_twice: int
    legs: tuple[ShardMoves, ...]

    @property
    def shards(self) -> int:
        """Return the number of shards that gave or took a unit."""
        return sum(bool(leg.units_in or leg.units_out) for leg in self.legs)

    @property
    def makespan_s(self) -> float | None:
        """Return the wall time of the slowest leg; None if a leg did not end by itself."""
        return _max_known([leg.wall_s for leg in self.legs])

    @property
    def static_makespan_s(self) -> float | None:
        """Return the wall time of the slowest leg without moves, with the same durations."""
        return _max_known([leg.static_s for leg in self.legs])

    @property
    def requests(self) -> int:
        return sum(leg.requests for leg in self.legs)

    @property
    def waited_s(self) -> float:
        return math.fsum(leg.waited_s for leg in self.legs)

    @property
    def starts_s(self) -> float:
        return math.fsum(leg.starts_s for leg in self.legs)


def _max_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def find_moved_units(
    plan: Plan, blocks: Iterable[MovedBlock], records: Mapping[str, Record]
) -> MovedUnits | None:
    """Add up the moves of a run; None for a plan without moves. O(lines).

    The wall time of a leg without moves is its wall time, minus its waits, its starts of processes
    for blocks and the tests of other shards, plus the measured times of its own tests in other
    legs. Other overheads stay.

    Args:
        plan: the original plan, with its blocks.
        records: the counted records, by shard.
    """
    if not plan.claims:
        return None
    walls_s = {shard: _walls_s(record) for shard, record in records.items()}
    units_in: dict[str, list[UnitKey]] = defaultdict(list)
    out_s: dict[str, list[float | None]] = defaultdict(list)
    ran_twice = 0
    for block in blocks:
        for unit in block.units:
            runners = [shard for shard in block.claimers if unit.key in walls_s.get(shard, {})]
            for claimer in runners:
                units_in[claimer].append(unit.key)
            owner_ran = unit.key in walls_s.get(block.owner, {})
            ran_twice += len(runners) + owner_ran > 1
            if runners and not owner_ran:
                out_s[block.owner].append(walls_s[runners[0]][unit.key])
    legs = tuple(
        _leg_moves(
            shard,
            records.get(shard.key),
            walls_s.get(shard.key, {}),
            units_in[shard.key],
            out_s[shard.key],
        )
        for shard in plan.shards
    )
    return MovedUnits(len({key for keys in units_in.values() for key in keys}), ran_twice, legs)


def _leg_moves(
    shard: Shard,
    record: Record | None,
    walls_s: Mapping[UnitKey, float | None],
    units_in: Sequence[UnitKey],
    walls_out_s: Sequence[float | None],
) -> ShardMoves:
    """Add up the moves of one leg; `walls_s` are the times of all units that the leg ran."""
    share = max(1, shard.processes)
    in_s = _sum_known([walls_s[key] for key in units_in], share)
    out_s = _sum_known(walls_out_s, share)
    moves = ShardMoves(shard.key, len(units_in), len(walls_out_s), in_s, out_s)
    if record is None:
        return moves
    waits = _Waits(record)
    waited_s, starts_s = waits.waited_s(), waits.starts_s()
    wall_s = static_s = None
    # A leg that continued an earlier one has another clock.
    if record.end is not None and record.end.ending == "completed" and not record.is_resumed:
        wall_s = record.end.at_s
    if wall_s is not None and in_s is not None and out_s is not None:
        static_s = round(max(0.0, wall_s - waited_s - starts_s - in_s + out_s), DIGITS)
    return replace(
        moves,
        wall_s=wall_s,
        static_s=static_s,
        requests=len(waits.requests_at_s),
        waited_s=round(waited_s, DIGITS),
        starts_s=round(starts_s, DIGITS),
    )


def _walls_s(record: Record) -> dict[UnitKey, float | None]:
    """Return each unit's time over all cases and tries; None if one of these was not measured."""
    walls_s: dict[UnitKey, float | None] = {}
    for result in record.results:
        key = result.unit_key
        parts = (walls_s.get(key, 0.0), result.wall_s, result.setup_s or 0.0)
        known = [part for part in parts if part is not None]
        walls_s[key] = sum(known) if len(known) == len(parts) else None
    return walls_s


def _sum_known(values: Sequence[float | None], share: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(math.fsum(known) / share, DIGITS) if len(known) == len(values) else None


class _Waits:
    """The times in which a leg waited for a block and ran no test."""

    def __init__(self, record: Record) -> None:
        times: dict[str, list[float]] = defaultdict(list)
        for event in record.events:
            if event.at_s is not None:
                times[event.kind].append(event.at_s)
        self.requests_at_s = sorted(times["claim_asked"])
        self._answers_at_s = sorted([*times["claimed"], *times["claims_ended"]])
        self._first_claim_s = min(times["claimed"], default=math.inf)
        self._record = record
        self._busy = _merge(execution_spans(record).values())

    def waited_s(self) -> float:
        """Return the idle time between requests and their answers."""
        total_s = 0.0
        for request_s in self.requests_at_s:
            answer_s = next((at_s for at_s in self._answers_at_s if at_s >= request_s), None)
            if answer_s is not None:
                total_s += self._idle_s(request_s, answer_s)
        return total_s

    def starts_s(self) -> float:
        """Return the idle time from the start of processes to their first tests, for blocks.

        These are the processes after the first claim, without retries: a retry is a process whose
        first test began in an earlier process.
        """
        first: dict[int, tuple[float, UnitKey]] = {}
        first_process: dict[UnitKey, int] = {}
        for start in self._record.starts:
            if start.at_s is not None and start.process is not None:
                key = start.unit_key
                known = first.setdefault(start.process, (start.at_s, key))
                first[start.process] = min(known, (start.at_s, key))
                first_process[key] = min(first_process.get(key, start.process), start.process)
        return math.fsum(
            self._idle_s(line.at_s, first[line.process][0])
            for line in self._record.processes
            if line.at_s is not None
            and line.at_s >= self._first_claim_s
            and line.process in first
            and first_process[first[line.process][1]] == line.process
        )

    def _idle_s(self, begin_s: float, end_s: float) -> float:
        covered = (min(end, end_s) - max(begin, begin_s) for begin, end in self._busy)
        return max(0.0, end_s - begin_s - math.fsum(length for length in covered if length > 0))


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Join overlapping spans; return them ascending."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged
