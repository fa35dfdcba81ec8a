"""One planned shard and all that its record says: its row, and what is wrong with it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ciguard.codec.results.base import FILE
from ciguard.errors import ExitCode
from ciguard.guard.diagnosis import (
    LegEnd,
    is_from_result_files,
    last_line,
    leg_end,
    with_diagnosis,
)
from ciguard.guard.failure_groups import effective_ending
from ciguard.guard.record_checks import MISSING_EVENTS, contradictions
from ciguard.guard.verdict import Finding, Leg, Reason
from ciguard.model import BAD_OUTCOMES, ENDINGS, OUTCOMES, UnitKey
from ciguard.model.attempts import classify_result, last_starts, resolve_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ciguard.guard.diagnosis import JobEvidence
    from ciguard.guard.verdict import Kind, Level
    from ciguard.model import Ending, EventLine, Outcome, Record, Shard
    from ciguard.model.attempts import UnitName, UnitResult


# How a process ends that nobody stopped and that did not say it was done.
ENDED_UNREQUESTED: Final[tuple[Ending, ...]] = ("crash", "out_of_memory", "setup_failed")


@dataclass(frozen=True, slots=True)
class LegResult:
    """One planned shard with all that its record says.

    `rejected_record` is why a record in the place of its own does not count; `missing_reasons` are
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
    rejected_record: Reason | None = None
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    endings: Mapping[Ending, int] = field(default_factory=dict)
    bad: int = 0


def read_leg(
    shard: Shard,
    record: Record | None,
    rejected_record: Reason | None = None,
    facts: JobEvidence | None = None,
) -> LegResult:
    """Read a shard's record; None where there is none. `facts`: what GitHub says of its job."""
    planned = frozenset(unit.key for unit in shard.units)
    if record is None:
        end = with_diagnosis(LegEnd("unknown", Reason("no_record")), None, facts)
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
        if event.kind in MISSING_EVENTS and event.unit is not None
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
    shard, record, end = leg.shard.key, leg.record, leg.end
    if record is None:
        yield _no_record(leg, lost)
        return
    if end.problem is not None:
        facts = end.problem.facts
        yield Finding(
            "incomplete",
            end.problem.kind,
            shard,
            lost,
            facts,
            end.cause,
            end.evidence,
            end.culprits,
        )
    elif lost and not record.damage:
        yield from _missing_results(leg, lost)
    if record.damage and not is_from_result_files(record):
        facts = {"damage": record.damage[0], "more": len(record.damage) - 1 or None}
        yield Finding("incomplete", "damaged", shard, () if end.problem else lost, facts)
    else:
        yield from _counts_and_results(leg, record, lost)
        yield from _contradictory(leg, record, tries)
    in_parts = any(event.kind == "resumed" for event in record.events)
    if record.copies and not in_parts:
        yield Finding("warning", "duplicate_record", shard, facts={"sources": record.copies})
    for event in unexplained(leg):
        yield Finding("failed", "unexplained_exit", shard, facts=_exit_facts(record, event))
    yield from _died_between_tests(leg, record)


def _no_record(leg: LegResult, lost: tuple[UnitKey, ...]) -> Finding:
    rejected = leg.rejected_record
    kind: Kind = "no_record"
    cause = rejected or leg.end.cause
    if rejected is not None and rejected.kind == "only_other_plans":
        kind, cause = "no_record_of_plan", leg.end.cause  # one finding says it for all
    return Finding("incomplete", kind, leg.shard.key, lost, {}, cause, leg.end.evidence)


def _missing_results(leg: LegResult, lost: tuple[UnitKey, ...]) -> Iterator[Finding]:
    """Units without a result in a leg that ended by itself, apart by what to do about them."""
    by_kind: dict[Kind, list[UnitKey]] = defaultdict(list)
    for key in lost:
        event = leg.missing_reasons.get(key)
        by_kind["no_reason_recorded" if event is None else cast("Kind", event.kind)].append(key)
    for kind, units in sorted(by_kind.items()):
        yield Finding("incomplete", kind, leg.shard.key, tuple(units))


def unexplained(leg: LegResult) -> list[EventLine]:
    """The ends of its processes that no result explains, each once."""
    events = leg.record.events if leg.record is not None else ()
    found = {one.process: one for one in events if one.kind == "unexplained_exit"}
    return list(found.values())


def _exit_facts(record: Record, event: EventLine) -> dict[str, Any]:
    """How the process of an event ended, and the last line of the output that the event quotes."""
    codes = {one.process: one.exit_code for one in record.process_ends}
    output = last_line(event.detail.partition("\n")[2])
    return {"process": event.process, "exit_code": codes.get(event.process or 0), "output": output}


def _died_between_tests(leg: LegResult, record: Record) -> Iterator[Finding]:
    """Processes that died between units: what they left passed in another one, or nothing was left.

    Where nothing was left no failed result of theirs is the reason, so that none excuses them.
    """
    died = [one for one in record.process_ends if one.ending in ENDED_UNREQUESTED]
    if leg.end.problem is not None or not died:
        return
    found = any(one.outcome == "died" for one in record.results)  # by the search for a culprit
    outputs = {one.process: one for one in record.events if one.kind == "last_output"}
    red = {one.process for one in unexplained(leg)}
    given = {one.process: one.units for one in record.processes}
    ran = {(one.process, one.key.unit_key) for one in record.results}
    done = Counter(process for process, _ in ran)
    for end in died:
        left = done[end.process] < given.get(end.process, 0)
        if end.process in outputs.keys() - red and not (left and found):
            facts = {"ending": end.ending, **_exit_facts(record, outputs.pop(end.process))}
            level: Level = "warning" if left else "failed"
            yield Finding(level, "died_between_tests", leg.shard.key, facts=facts)


def _bad(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome in BAD_OUTCOMES)


def _ran(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome != "skipped")


def _contradictory(leg: LegResult, record: Record, tries: int) -> Iterator[Finding]:
    """What no leg writes that ended by itself."""
    found = [] if leg.end.problem is not None else list(contradictions(record, tries))
    if found:
        facts = {"count": len(found) if len(found) > 1 else None}
        yield Finding("incomplete", "contradictory", leg.shard.key, facts=facts, cause=found[0])


def _counts_and_results(
    leg: LegResult, record: Record, lost: tuple[UnitKey, ...]
) -> Iterator[Finding]:
    """Where the last line of a leg does not agree with the lines before it."""
    shard, end = leg.shard.key, record.end
    if end is None or end.ending != "completed":
        return
    if end.exit_code == ExitCode.INCOMPLETE and not lost:
        yield Finding("incomplete", "end_incomplete", shard)
    # What result files say comes on top of what the leg counted.
    filed = any(event.kind == FILE for event in record.events)
    counted, found = sum(end.counts.values()), sum(leg.counts.values())
    counts = bool(end.counts or record.processes)  # as every leg of ours does
    pairs = (
        ("result", counted, found, counts and counted < found and not filed),
        ("bad result", _bad(end.counts), _bad(leg.counts), False),
        ("executed test", 0 if filed else _ran(end.counts), _ran(leg.counts), False),
    )
    for what, counted, found, is_short in pairs:
        if counted > found or is_short:
            facts = {"what": what, "counted": counted, "found": found}
            yield Finding("incomplete", "lines_missing", shard, facts=facts)
            break
    good = all(unit.status == "good" for unit in leg.units.values())
    if exited_with_failures(leg) and good and not unexplained(leg):
        yield Finding("failed", "failure_missing", shard)


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
