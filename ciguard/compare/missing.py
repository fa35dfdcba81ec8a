"""What a run lacks: legs without a record or an end, and the units that went with them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ciguard.compare.transitions import INTERRUPTED, statuses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ciguard.compare.run_columns import Run
    from ciguard.model import CaseKey, Ending, Plan, UnitKey

IncompleteKind = Literal["ended", "no_record", "no_result"]


@dataclass(frozen=True, slots=True)
class IncompleteReason:
    """Why a run is incomplete.

    Attributes:
        kind: shards that ended early or whose record is damaged ("ended"), shards without a record,
            or planned units of complete shards without a result.
        shards: by name; "" of a run of result files.
        ending: of these shards; "completed" where the record is damaged.
        units: how many have no result.
    """

    kind: IncompleteKind
    shards: tuple[str, ...] = ()
    ending: Ending | None = None
    units: int = 0


@dataclass(frozen=True, slots=True)
class LostUnits:
    """Units without a result, in legs that left no record or did not end by themselves.

    Attributes:
        shards: the shard of the units; if it is not known, all shards with incomplete results.
        certain: whether the shard of the units is known. If not, the units are those of the base
            without a result, and may also have been removed.
    """

    shards: tuple[str, ...]
    units: tuple[UnitKey, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class LegCoverage:
    """The legs of a run that gave less than they should.

    Attributes:
        absent: shards that left no record.
        truncated: names of legs that did not end by themselves, or whose record is damaged.
        shard_of: the plan's shard of each unit; None where no plan is known.
    """

    absent: tuple[str, ...]
    truncated: tuple[str, ...]
    shard_of: Mapping[UnitKey, str] | None = None

    @property
    def is_complete(self) -> bool:
        """Say that every leg is there and ended by itself."""
        return not self.absent and not self.truncated


def leg_coverage(run: Run, plan: Plan | None = None) -> LegCoverage:
    """Find the legs that a run lacks, by its plan or by the numbers of its shards."""
    names = {leg.shard for leg in run.legs if leg.shard}
    cut = tuple(dict.fromkeys(leg.name for leg in run.legs if not leg.complete))
    if plan is not None:
        absent = tuple(shard.key for shard in plan.shards if shard.key not in names)
        shard_of = {unit.key: shard.key for shard in plan.shards for unit in shard.units}
        return LegCoverage(absent, cut, shard_of)
    # Shards are numbered from 1: a gap is a record that did not arrive, and so is what is missing
    # of the number that every leg was told.
    numbers = {int(name) for name in names if re.fullmatch(r"\d{1,4}", name)}
    width = max(map(len, names), default=0)
    last = max([*numbers, run.planned_shards or 0], default=0)
    return LegCoverage(tuple(f"{n:0{width}}" for n in range(1, last + 1) if n not in numbers), cut)


def incompleteness(run: Run, legs: LegCoverage) -> Iterator[IncompleteReason]:
    """Why a run is incomplete: one reason for all legs that ended in the same way."""
    truncated: dict[Ending, list[str]] = defaultdict(list)
    for leg in run.legs:
        if not leg.complete:
            truncated[leg.ending].append(leg.name)
    for ending, names in truncated.items():
        yield IncompleteReason("ended", tuple(names), ending)
    if legs.absent:
        yield IncompleteReason("no_record", legs.absent)
    if legs.shard_of is not None:
        unreported = legs.shard_of.keys() - {key[:3] for key in run.keys}
        incomplete_shards = {*legs.absent, *legs.truncated}
        silent = sum(legs.shard_of[unit] not in incomplete_shards for unit in unreported)
        if silent:
            yield IncompleteReason("no_result", units=silent)


def lost_units(
    base: Run | None,
    candidate: Run,
    legs: LegCoverage,
    found_elsewhere: Collection[CaseKey] = frozenset(),
) -> tuple[LostUnits, ...]:
    """The units that a run has no result of because their leg gave none.

    A plan says in which shard each was. Without one, what the base had and the candidate has not
    may have been lost or removed, and nobody can tell which: `LostUnits.certain` says so.

    Args:
        found_elsewhere: cases of the base that the candidate has under another name.
    """
    if legs.is_complete:
        return ()
    of_leg: dict[str, set[UnitKey]] = defaultdict(set)
    incomplete_shards = {*legs.absent, *legs.truncated}
    for key, fate, leg in zip(
        candidate.keys, statuses(candidate).tolist(), candidate.leg.tolist(), strict=True
    ):
        if fate == INTERRUPTED and candidate.legs[leg].name in incomplete_shards:
            of_leg[candidate.legs[leg].name].add(key.unit_key)
    have = {key.unit_key for key in candidate.keys}
    if legs.shard_of is not None:
        for unit, shard in legs.shard_of.items():
            if shard in incomplete_shards and unit not in have:
                of_leg[shard].add(unit)
    found = [LostUnits((leg,), tuple(sorted(units)), certain=True) for leg, units in of_leg.items()]
    found.sort(key=lambda lost: lost.shards)
    if legs.shard_of is None and base is not None:
        have |= {key.unit_key for key in found_elsewhere}
        missed = sorted({key.unit_key for key in base.keys} - have)
        if missed:
            found.append(LostUnits(tuple(sorted(incomplete_shards)), tuple(missed), certain=False))
    return tuple(found)
