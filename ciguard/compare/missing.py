"""What a run lacks: legs without a record or an end, and the units that went with them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.compare.test_changes import LostUnits
from ciguard.compare.transitions import INTERRUPTED, statuses
from ciguard.compare.wording import name_some
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ciguard.compare.run_columns import Run
    from ciguard.model import CaseKey, Ending, Plan, UnitKey

# How a leg ended that did not end by itself; of others nobody knows more than that.
_HOW: Final[Mapping[Ending, str]] = {
    "completed": "left a damaged record",
    "timeout": "hit a time limit",
    "out_of_memory": "ran out of memory",
    "crash": "crashed",
    "deadline": "stopped at the deadline",
    "memory_guard": "stopped before memory ran out",
    "cancelled": "{was} cancelled",
    "superseded": "{was} cancelled for a newer run",
    "lost_runner": "lost the runner",
    "runner_shutdown": "{was} stopped with the runner",
    "disk_full": "filled the disk",
    "setup_failed": "could not be set up",
    "never_started": "did not start",
}


@dataclass(frozen=True, slots=True)
class LegCoverage:
    """The legs of a run that gave less than they should.

    Attributes:
        absent: shards that left no record.
        cut: names of legs that did not end by themselves, or whose record is damaged.
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


def incompleteness(run: Run, legs: LegCoverage) -> Iterator[str]:
    """Why a run is incomplete, in words: once for all legs that ended in the same way."""
    cut: dict[str, list[str]] = defaultdict(list)
    for leg in run.legs:
        if not leg.complete:
            cut[_HOW.get(leg.ending, "{was} cut")].append(leg.name)
    for how, names in cut.items():
        one = len(names) == 1
        which = f"{'leg' if one else 'legs'} {name_some([name or '?' for name in names])}"
        if len(run.legs) == 1 and not names[0]:  # of result files, or of a command
            which = "its only leg"
        yield f"{which} {how.format(was='was' if one else 'were')}"
    if legs.absent:
        word = "shard" if len(legs.absent) == 1 else "shards"
        yield f"no record of {word} {name_some(legs.absent)}"
    if legs.shard_of is not None:
        have, incomplete_shards = (
            {key.unit_key for key in run.keys},
            {*legs.absent, *legs.truncated},
        )
        silent = sum(
            unit not in have and shard not in incomplete_shards
            for unit, shard in legs.shard_of.items()
        )
        if silent:
            has = "has" if silent == 1 else "have"
            yield f"{count_of(silent, 'planned unit')} of whole shards {has} no result"


def lost_units(
    base: Run | None,
    candidate: Run,
    legs: LegCoverage,
    found_elsewhere: Collection[CaseKey] = frozenset(),
) -> tuple[LostUnits, ...]:
    """The units that a run has no result of because their leg gave none.

    A plan says in which shard each was. Without one, what the base had and the candidate has not
    may have been lost or removed, and nobody can tell which: `LostUnits.sure` says so.

    Args:
        elsewhere: cases of the base that the candidate has under another name.
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
