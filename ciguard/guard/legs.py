"""One planned shard and all that its record says: its row, and what is wrong with it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.errors import ExitCode
from ciguard.guard.endings import LegEnd, leg_end
from ciguard.guard.units import UnitEnd, started, unit_ends
from ciguard.guard.verdict import Finding, Leg
from ciguard.model import OUTCOMES
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.model import Outcome, Record, Shard, UnitKey


@dataclass(frozen=True, slots=True)
class LegProof:
    """One planned shard with all that its record says."""

    shard: Shard
    record: Record | None
    end: LegEnd
    units: Mapping[UnitKey, UnitEnd]
    started: frozenset[UnitKey]
    planned: frozenset[UnitKey]

    def counts(self) -> dict[Outcome, int]:
        """Final cases by outcome."""
        found = Counter(case.outcome for unit in self.units.values() for case in unit.cases)
        return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}


def leg_proof(shard: Shard, record: Record | None) -> LegProof:
    """Read a shard's record; None where there is none."""
    planned = frozenset(unit.key for unit in shard.units)
    if record is None:
        end = LegEnd("unknown", "it has no record")
        return LegProof(shard, None, end, {}, frozenset(), planned)
    return LegProof(
        shard, record, leg_end(record), unit_ends(record), frozenset(started(record)), planned
    )


def says_failed(leg: LegProof) -> bool:
    """Say that the leg itself ended with the exit code of failed tests."""
    end = leg.record.end if leg.record is not None else None
    return end is not None and end.exit_code == ExitCode.TESTS_FAILED


def leg_findings(leg: LegProof, lost: tuple[UnitKey, ...]) -> Iterator[Finding]:
    """What is wrong with a leg; `lost` are its planned units without a final result."""
    shard = leg.shard.key
    if leg.record is None:
        what = f"shard {shard} has no record"
        fix = "look at its job: was it cancelled, skipped, or did its upload fail? Run it again"
        yield Finding("incomplete", "no_record", what, shard, lost, fix)
        return
    if leg.end.problem:
        what = f"shard {shard}: {leg.end.problem}"
        kind = leg.end.ending if leg.record.end is not None else "cut"
        yield Finding("incomplete", kind, what, shard, lost, leg.end.fix)
    elif lost and not leg.record.damage:
        what = f"shard {shard}: {counted(len(lost), 'planned unit')} without a final result"
        fix = "do they still exist? Make the plan again on this commit"
        yield Finding("incomplete", "vanished", what, shard, lost, fix)
    if leg.record.damage:
        first, more = leg.record.damage[0], len(leg.record.damage) - 1
        what = f"shard {shard}: its record is damaged: {first}" + (f" and {more} more" * bool(more))
        fix = "run it again: what stood there is not known"
        yield Finding("incomplete", "damaged", what, shard, () if leg.end.problem else lost, fix)
    else:
        yield from _contradictions(leg)


def _contradictions(leg: LegProof) -> Iterator[Finding]:
    """Where the last line of a leg does not agree with the lines before it."""
    shard = leg.shard.key
    end = leg.record.end if leg.record is not None else None
    if end is None or end.ending != "completed":
        return
    told, found = sum(end.counts.values()), sum(leg.counts().values())
    if end.counts and told != found:
        what = f"its end line counts {counted(told, 'result')}, its record holds {found:,}"
        fix = "a file of the record is missing: look at its upload, run it again"
        yield Finding("incomplete", "lines_missing", f"shard {shard}: {what}", shard, fix=fix)
    if says_failed(leg) and all(unit.standing == "good" for unit in leg.units.values()):
        what = f"shard {shard} says that tests failed, and its record holds no failed result"
        yield Finding("failed", "failure_missing", what, shard, fix="look at the log of its job")


def leg_row(leg: LegProof, final: Mapping[UnitKey, UnitEnd]) -> Leg:
    """A leg's row in the verdict; `final` are the ends of units over all legs."""
    record = leg.record
    known = any(unit.known for unit in leg.shard.units)
    ended = sum(1 for key in leg.planned if key in final and final[key].standing != "unfinished")
    header = record.header if record is not None else None
    return Leg(
        shard=leg.shard.key,
        recorded=record is not None,
        ending=leg.end.ending,
        planned=len(leg.planned),
        ended=ended,
        # Without history the plan takes all units for equal: such a wall time predicts nothing.
        predicted_wall_s=leg.shard.predicted.wall_s if known else None,
        predicted_peak_bytes=leg.shard.predicted.peak_bytes,
        wall_s=record.wall_s if record is not None else None,
        peak_bytes=record.peak_bytes if record is not None else None,
        run_attempt=header.run_attempt if header is not None else None,
        counts=leg.counts(),
    )
