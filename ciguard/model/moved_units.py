"""What moving units between legs came to: how many moved, and what the plan would have taken. Pure.

Standard library only, Python 3.8+.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Iterable, Mapping, Sequence, Tuple

from ciguard.model.types import SLOTS, UnitKey

if TYPE_CHECKING:
    from ciguard.model.moved_blocks import MovedBlock
    from ciguard.model.plan import Plan, Shard
    from ciguard.model.record import Record

Span = Tuple[float, float]
DIGITS: Final = 6


@dataclass(frozen=True, **SLOTS)
class ShardMoves:
    """What one leg ran of its own and of others.

    Attributes:
        units_in: units of other shards that it ran.
        units_out: its own that other legs ran instead of it.
        own_s: wall times of its own part, over the processes that share them.
        own_blocks_s: likewise of its own blocks.
        in_s, out_s: likewise of the units that moved; None where one was not measured.
        wall_s: its wall time; None where it did not end by itself.
        static_s: what it would have taken without moves; None where that is not known.
        requests: how often it asked for a block.
        waited_s: how long it ran no test while it awaited an answer.
        starts_s: how long it ran no test while a process for a block was starting.
    """

    shard: str
    units_in: int = 0
    units_out: int = 0
    own_s: float = 0.0
    own_blocks_s: float = 0.0
    in_s: float | None = 0.0
    out_s: float | None = 0.0
    wall_s: float | None = None
    static_s: float | None = None
    requests: int = 0
    waited_s: float = 0.0
    starts_s: float = 0.0


@dataclass(frozen=True, **SLOTS)
class MovedUnits:
    """The moves of a run; `legs` by the plan's order.

    `ran_twice` counts units that two legs ran, as where the service could not be reached.
    """

    units: int
    ran_twice: int
    legs: tuple[ShardMoves, ...]

    @property
    def shards(self) -> int:
        """How many shards gave or took a unit."""
        return sum(bool(leg.units_in or leg.units_out) for leg in self.legs)

    @property
    def makespan_s(self) -> float | None:
        """Wall time of the slowest leg; None where one did not end by itself."""
        return _max_known([leg.wall_s for leg in self.legs])

    @property
    def static_makespan_s(self) -> float | None:
        """What the slowest leg would have taken without moves, on the same durations."""
        return _max_known([leg.static_s for leg in self.legs])

    @property
    def requests(self) -> int:
        """How often the legs asked."""
        return sum(leg.requests for leg in self.legs)

    @property
    def waited_s(self) -> float:
        """How long they ran no test for an answer, together."""
        return math.fsum(leg.waited_s for leg in self.legs)

    @property
    def starts_s(self) -> float:
        """How long they ran no test for the start of a process, together."""
        return math.fsum(leg.starts_s for leg in self.legs)


def _max_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def find_moved_units(
    plan: Plan, blocks: Iterable[MovedBlock], records: Mapping[str, Record]
) -> MovedUnits | None:
    """Add up the moves of a run; None of a plan whose legs ask for nothing. O(lines).

    What a leg would have taken without moves is its wall time without its waits and further starts
    for blocks, without the tests of others, and with its own that moved, as long as they took
    where they ran. Its other overheads stay as they were.

    Args:
        plan: as it was made, with its blocks.
        records: that count, by shard.
    """
    if not plan.claims:
        return None
    walls_s = {shard: _walls_s(record) for shard, record in records.items()}
    units_in: dict[str, list[UnitKey]] = defaultdict(list)
    out_s: dict[str, list[float | None]] = defaultdict(list)
    twice = 0
    for block in blocks:
        for unit in block.units:
            ran = [one for one in block.claimers if unit.key in walls_s.get(one, {})]
            for claimer in ran:
                units_in[claimer].append(unit.key)
            owner_ran = unit.key in walls_s.get(block.owner, {})
            twice += len(ran) + owner_ran > 1
            if ran and not owner_ran:
                out_s[block.owner].append(walls_s[ran[0]][unit.key])
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
    return MovedUnits(len({key for keys in units_in.values() for key in keys}), twice, legs)


def _leg_moves(
    shard: Shard,
    record: Record | None,
    walls_s: Mapping[UnitKey, float | None],
    units_in: Sequence[UnitKey],
    walls_out_s: Sequence[float | None],
) -> ShardMoves:
    """The moves of one leg; `walls_s` are those of all units that it ran."""
    share = max(1, shard.processes)
    own_s, blocks_s = (
        round(math.fsum(walls_s.get(unit.key) or 0.0 for unit in units) / share, DIGITS)
        for units in (shard.units[: shard.own_count], shard.units[shard.own_count :])
    )
    in_s = _sum_known([walls_s[key] for key in units_in], share)
    out_s = _sum_known(walls_out_s, share)
    found = ShardMoves(shard.key, len(units_in), len(walls_out_s), own_s, blocks_s, in_s, out_s)
    if record is None:
        return found
    waits = _Waits(record)
    waited_s, starts_s, wall_s = waits.waited_s(), waits.starts_s(), _complete_wall_s(record)
    static_s = None
    if wall_s is not None and in_s is not None and out_s is not None:
        static_s = round(max(0.0, wall_s - waited_s - starts_s - in_s + out_s), DIGITS)
    return replace(
        found,
        wall_s=wall_s,
        static_s=static_s,
        requests=len(waits.asked),
        waited_s=round(waited_s, DIGITS),
        starts_s=round(starts_s, DIGITS),
    )


def _walls_s(record: Record) -> dict[UnitKey, float | None]:
    """By unit, what it took over all cases and tries; None where one of them was not measured."""
    found: dict[UnitKey, float | None] = {}
    for result in record.results:
        key = result.key.unit_key
        parts = (found.get(key, 0.0), result.wall_s, result.setup_s or 0.0)
        known = [part for part in parts if part is not None]
        found[key] = sum(known) if len(known) == len(parts) else None
    return found


def _sum_known(values: Iterable[float | None], share: int) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return round(math.fsum(known) / share, DIGITS) if len(known) == len(found) else None


def _complete_wall_s(record: Record) -> float | None:
    """What a leg took; None where it died, or went on from an earlier one, with another clock."""
    is_complete = record.end is not None and record.end.ending == "completed"
    if not is_complete or any(one.kind == "resumed" for one in record.events):
        return None
    return record.end.at_s if record.end is not None else None


class _Waits:
    """When a leg waited for a block without a test that ran."""

    def __init__(self, record: Record) -> None:
        events = [one for one in record.events if one.at_s is not None]
        self.asked = sorted(one.at_s or 0.0 for one in events if one.kind == "claim_asked")
        answers = (one for one in events if one.kind in ("claimed", "claims_ended"))
        self._answered = sorted(one.at_s or 0.0 for one in answers)
        self._first_claim_s = min(
            (one.at_s or 0.0 for one in events if one.kind == "claimed"), default=math.inf
        )
        self._record = record
        self._busy = _merge(self._running())

    def _running(self) -> list[Span]:
        """From the start of each unit to its result, in one process."""
        ends: dict[tuple[int, UnitKey], float] = {}
        for result in self._record.results:
            if result.at_s is not None:
                place = (result.process or 0, result.key.unit_key)
                ends[place] = max(ends.get(place, 0.0), result.at_s)
        found = []
        for start in self._record.starts:
            place = (start.process or 0, UnitKey(start.suite, start.variant, start.unit))
            if start.at_s is not None:
                found.append((start.at_s, ends.get(place, math.inf)))
        return found

    def waited_s(self) -> float:
        """From each question to its answer, as far as nothing ran."""
        total_s = 0.0
        for asked_s in self.asked:
            answered_s = next((at_s for at_s in self._answered if at_s >= asked_s), None)
            if answered_s is not None:
                total_s += self._idle_s(asked_s, answered_s)
        return total_s

    def starts_s(self) -> float:
        """From the start of each process after the first claim to its first test, likewise.

        Not of a process whose first test had begun in another one: it is a retry, with or without
        moves.
        """
        first: dict[int, tuple[float, UnitKey]] = {}
        begun: dict[UnitKey, int] = {}
        for start in self._record.starts:
            if start.at_s is not None and start.process is not None:
                key = UnitKey(start.suite, start.variant, start.unit)
                known = first.setdefault(start.process, (start.at_s, key))
                first[start.process] = min(known, (start.at_s, key))
                begun[key] = min(begun.get(key, start.process), start.process)
        return math.fsum(
            self._idle_s(line.at_s, first[line.process][0])
            for line in self._record.processes
            if line.at_s is not None
            and line.at_s >= self._first_claim_s
            and line.process in first
            and begun[first[line.process][1]] == line.process
        )

    def _idle_s(self, begin_s: float, end_s: float) -> float:
        covered = (min(end, end_s) - max(begin, begin_s) for begin, end in self._busy)
        return max(0.0, end_s - begin_s - math.fsum(one for one in covered if one > 0))


def _merge(spans: Sequence[Span]) -> list[Span]:
    """Spans without overlaps, ascending."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
