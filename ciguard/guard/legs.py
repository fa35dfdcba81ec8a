"""One planned shard and all that its record says: its row, and what is wrong with it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ciguard.errors import ExitCode
from ciguard.guard.diagnosis import with_diagnosis
from ciguard.guard.failure_groups import effective_ending
from ciguard.guard.leg_endings import (
    MISSING_RESULT_ADVICE,
    LegEnd,
    is_from_result_files,
    last_line,
    leg_end,
)
from ciguard.guard.record_checks import contradictions
from ciguard.guard.verdict import Finding, Leg
from ciguard.model import BAD_OUTCOMES, ENDINGS, OUTCOMES, UnitKey
from ciguard.model.attempts import classify_result, last_starts, resolve_units
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ciguard.guard.diagnosis import JobEvidence
    from ciguard.guard.verdict import Level
    from ciguard.model import Ending, EventLine, Outcome, Record, Shard
    from ciguard.model.attempts import UnitName, UnitResult


# How a process ends that nobody stopped and that did not say it was done.
ENDED_UNREQUESTED: Final[tuple[Ending, ...]] = ("crash", "out_of_memory", "setup_failed")


@dataclass(frozen=True, slots=True)
class LegResult:
    """One planned shard with all that its record says.

    `instead` is a record that its own would have been, and why it does not count; `causes` are
    the leg's words on units without a result. `counts` are its final cases by outcome, `bad` those
    that went wrong, `endings` of them those that did more than fail, by ending.
    """

    shard: Shard
    record: Record | None
    end: LegEnd
    units: Mapping[UnitKey, UnitResult]
    last_start: AbstractSet[UnitName]
    planned: frozenset[UnitKey]
    missing_reasons: Mapping[UnitKey, EventLine] = field(default_factory=dict)
    rejected_record: Finding | None = None
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    endings: Mapping[Ending, int] = field(default_factory=dict)
    bad: int = 0


def read_leg(
    shard: Shard,
    record: Record | None,
    rejected_record: Finding | None = None,
    facts: JobEvidence | None = None,
) -> LegResult:
    """Read a shard's record; None where there is none. `facts`: what GitHub says of its job."""
    planned = frozenset(unit.key for unit in shard.units)
    if record is None:
        end = with_diagnosis(LegEnd("unknown", "it has no record"), None, facts)
        return LegResult(
            shard, None, end, {}, frozenset(), planned, rejected_record=rejected_record
        )
    end = with_diagnosis(leg_end(record), record, facts)
    started_units = last_starts(record.starts)
    units = resolve_units(record.results, started_units)
    cases = [case for unit in units.values() for case in unit.cases]
    outcomes = Counter([case.outcome for case in cases])
    bad = Counter(
        effective_ending(case)
        for unit in units.values()
        if unit.status != "good"
        for case in unit.cases
        if classify_result(case) == "bad"
    )
    return LegResult(
        shard,
        record,
        end,
        units,
        started_units.keys(),
        planned,
        _missing_reasons(record),
        counts={outcome: outcomes[outcome] for outcome in OUTCOMES if outcomes[outcome]},
        endings={ending: bad[ending] for ending in ENDINGS[1:] if bad[ending]},
        bad=bad.total(),
    )


def _missing_reasons(record: Record) -> dict[UnitKey, EventLine]:
    """Why units got no result, where the leg says it; of several processes the last."""
    return {
        UnitKey(event.suite, event.variant, event.unit): event
        for event in record.events
        if event.kind in MISSING_RESULT_ADVICE and event.unit is not None
    }


def exited_with_failures(leg: LegResult) -> bool:
    """Say that the leg itself ended with the exit code of failed tests."""
    end = leg.record.end if leg.record is not None else None
    return end is not None and end.exit_code == ExitCode.TESTS_FAILED


def leg_findings(leg: LegResult, lost: tuple[UnitKey, ...], tries: int = 1) -> Iterator[Finding]:
    """What is wrong with a leg.

    Args:
        lost: its planned units without a final result.
        tries: executions that the plan gives a unit that fails.
    """
    shard = leg.shard.key
    if leg.record is None:
        yield _no_record(leg, lost)
        return
    if leg.end.problem:
        what = f"shard {shard}: {leg.end.problem}"
        kind = leg.end.ending if leg.record.end is not None else "cut"
        seen = (leg.end.evidence, leg.end.culprits)
        yield Finding("incomplete", kind, what, shard, lost, leg.end.fix, *seen)
    elif lost and not leg.record.damage:
        yield from _missing_results(leg, lost)
    if leg.record.damage and not is_from_result_files(leg.record):
        first, more = leg.record.damage[0], len(leg.record.damage) - 1
        what = f"shard {shard}: its record is damaged: {first}" + (f" and {more} more" * bool(more))
        fix = "run it again: what stood there is not known"
        if leg.record.copies:
            fix = "pass each record once: which of its copies is true is not known"
        yield Finding("incomplete", "damaged", what, shard, () if leg.end.problem else lost, fix)
    else:
        yield from _contradictions(leg, lost)
        yield from _contradictory(leg, tries)
    in_parts = any(event.kind == "resumed" for event in leg.record.events)
    if leg.record.copies and not in_parts:
        what = f"shard {shard}: its record is here more than once: {', '.join(leg.record.copies)}"
        yield Finding("warning", "duplicate_record", what, shard, fix="pass each record once")
    yield from _unexplained(leg)
    yield from _died_between_tests(leg)


def _no_record(leg: LegResult, lost: tuple[UnitKey, ...]) -> Finding:
    shard = leg.shard.key
    what = f"shard {shard} has no record"
    fix = "look at its job: was it cancelled, skipped, or did its upload fail? Run it again"
    if leg.rejected_record is not None:
        why = (
            f" that counts: {leg.rejected_record.message}"
            if leg.rejected_record.message
            else " of this plan"
        )
        what, fix = what + why, leg.rejected_record.fix
    if leg.end.text:
        what, fix = f"{what}: {leg.end.text}", leg.end.fix
    return Finding("incomplete", "no_record", what, shard, lost, fix, leg.end.evidence)


def _missing_results(leg: LegResult, lost: tuple[UnitKey, ...]) -> Iterator[Finding]:
    """Units without a result in a leg that ended by itself, apart by what to do about them."""
    shard = leg.shard.key
    kinds = {
        key: leg.missing_reasons[key].kind if key in leg.missing_reasons else "no_reason_recorded"
        for key in lost
    }
    for kind in sorted(set(kinds.values())):
        units = tuple(key for key in lost if kinds[key] == kind)
        what = f"shard {shard}: {count_of(len(units), 'planned unit')} without a final result"
        fix = MISSING_RESULT_ADVICE.get(
            kind, "do they still exist? Make the plan again on this commit"
        )
        yield Finding("incomplete", kind, what, shard, units, fix)


def unexplained(leg: LegResult) -> list[EventLine]:
    """The ends of its processes that no result explains, each once."""
    events = leg.record.events if leg.record is not None else ()
    found = {one.process: one for one in events if one.kind == "unexplained_exit"}
    return list(found.values())


def _unexplained(leg: LegResult) -> Iterator[Finding]:
    shard = leg.shard.key
    for event in unexplained(leg):
        code, _, output = event.detail.partition("\n")
        killed = not code.startswith("exit code")
        how = f"was {code}" if killed else f"ended with {code}"
        what = f"shard {shard}: process {event.process} {how}, and no failed result explains it"
        what += f"; its last output: {last_line(output) or 'nothing'}"
        cause = (
            "it died behind its last test"
            if killed
            else "a hook of the session or a coverage gate set it"
        )
        fix = f"{cause}? See the log of its job"
        yield Finding("failed", "unexplained_exit", what, shard, fix=fix)


def _died_between_tests(leg: LegResult) -> Iterator[Finding]:
    """Processes that died between units: what they left passed in another one, or nothing was left.

    Where nothing was left no failed result of theirs is the reason, so that none excuses them.
    """
    record = leg.record
    if record is None or leg.end.problem:
        return
    found = any(one.outcome == "died" for one in record.results)  # by the search for a culprit
    outputs = {one.process: one.detail for one in record.events if one.kind == "last_output"}
    red = {one.process for one in unexplained(leg)}
    if not any(one.ending in ENDED_UNREQUESTED for one in record.process_ends):
        return
    given = {one.process: one.units for one in record.processes}
    ran = {(one.process, one.key.unit_key) for one in record.results}
    done = Counter(process for process, _ in ran)
    for end in record.process_ends:
        if end.ending in ENDED_UNREQUESTED and end.process in outputs.keys() - red:
            code, _, output = outputs.pop(end.process).partition("\n")
            what = f"shard {leg.shard.key}: process {end.process} ended by {end.ending} ({code}) "
            what += f"and no unit explains it; its last output: {last_line(output) or 'nothing'}"
            left = done[end.process] < given.get(end.process, 0)
            if left and found:
                continue
            later = left and any(one.process > end.process for one in record.processes)
            fix = "what it left ran in another process; " * later + "look why it ended"
            level: Level = "warning" if left else "failed"
            yield Finding(level, "died_between_tests", what, leg.shard.key, fix=fix)


def _bad(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome in BAD_OUTCOMES)


def _ran(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome != "skipped")


def _contradictory(leg: LegResult, tries: int) -> Iterator[Finding]:
    """What no leg writes that ended by itself."""
    if leg.record is None or leg.end.problem:
        return
    found = list(contradictions(leg.record, tries))
    if found:
        more = f" and {len(found) - 1} more" * (len(found) > 1)
        what = f"shard {leg.shard.key}: its record contradicts itself: {found[0]}{more}"
        fix = "run it again: no leg writes such a record, so what is true of it is not known"
        yield Finding("incomplete", "contradictory", what, leg.shard.key, fix=fix)


def _contradictions(leg: LegResult, lost: tuple[UnitKey, ...]) -> Iterator[Finding]:
    """Where the last line of a leg does not agree with the lines before it."""
    shard = leg.shard.key
    end = leg.record.end if leg.record is not None else None
    if end is None or end.ending != "completed":
        return
    if end.exit_code == ExitCode.INCOMPLETE and not lost:
        what = f"shard {shard}: it ended with exit code 13, and all its units have a result"
        fix = "look at the log of its job, and run it again"
        yield Finding("incomplete", "end_incomplete", what, shard, fix=fix)
    counted, found = sum(end.counts.values()), sum(leg.counts.values())
    # What result files say comes on top of what the leg counted.
    filed = any(event.kind == "result_file" for event in leg.record.events) if leg.record else False
    counts = bool(end.counts or (leg.record and leg.record.processes))  # as every leg of ours does
    if counts and (counted > found or (counted < found and not filed)):
        what = f"its end line counts {count_of(counted, 'result')}, its record holds {found:,}"
        fix = "a file of the record is missing: look at its upload, run it again"
        yield Finding("incomplete", "lines_missing", f"shard {shard}: {what}", shard, fix=fix)
    counted, found = _bad(end.counts), _bad(leg.counts)
    if counted > found:
        what = f"its end line counts {count_of(counted, 'bad result')}, its record holds {found:,}"
        fix = "look at the log of its job, and run it again"
        yield Finding("incomplete", "failures_missing", f"shard {shard}: {what}", shard, fix=fix)
    counted, found = _ran(end.counts), _ran(leg.counts)
    if counted > found and not filed:
        what = f"its end line counts {count_of(counted, 'result')} that are not skipped, "
        what += f"its record holds {found:,}"
        fix = "no leg writes such a record: look at the log of its job, and run it again"
        yield Finding("incomplete", "skips_uncounted", f"shard {shard}: {what}", shard, fix=fix)
    good = all(unit.status == "good" for unit in leg.units.values())
    if exited_with_failures(leg) and good and not unexplained(leg):
        what = f"shard {shard} says that tests failed, and its record holds no failed result"
        yield Finding("failed", "failure_missing", what, shard, fix="look at the log of its job")


def leg_row(leg: LegResult) -> Leg:
    """A leg's row in the verdict: what ended in this leg, whatever ended in others."""
    unfinished = [key for key, unit in leg.units.items() if unit.status == "unfinished"]
    record = leg.record
    known = any(unit.has_history for unit in leg.shard.units)
    header = record.header if record is not None else None
    return Leg(
        shard=leg.shard.key,
        recorded=record is not None,
        ending=leg.end.ending,
        planned=len(leg.planned),
        with_result=len(leg.planned & leg.units.keys()) - len(leg.planned.intersection(unfinished)),
        # Without history the plan takes all units for equal: such a wall time predicts nothing.
        predicted_wall_s=leg.shard.predicted.wall_s if known else None,
        predicted_peak_bytes=leg.shard.predicted.peak_bytes,
        wall_s=record.wall_s if record is not None else None,
        peak_bytes=record.peak_bytes if record is not None else None,
        peak_measured_by=record.peak_measured_by if record is not None else None,
        run_attempt=header.run_attempt if header is not None else None,
        counts=leg.counts,
        endings=leg.endings,
        bad=leg.bad,
    )
