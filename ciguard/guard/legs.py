"""One planned shard and all that its record says: its row, and what is wrong with it. Pure.

Ends of processes that no result explains are findings too, and so is a record that no leg can have
written. A leg announces each process and says how it ended; it gives no unit to two processes at
once, and executes again only what may be. A record that says otherwise was changed after the leg,
or is two records; what its results are worth is not known then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ciguard.codec.results.base import FILE
from ciguard.errors import ExitCode
from ciguard.guard.diagnosis import (
    LegEnd,
    consistency,
    diagnose,
    is_from_result_files,
    leg_end,
    with_diagnosis,
)
from ciguard.guard.failure_groups import effective_ending
from ciguard.guard.verdict import COUNTED, Finding, Leg, Policy
from ciguard.model import BAD_OUTCOMES, ENDINGS, UnitKey
from ciguard.model.attempts import UnitResult, classify_result, find_bystanders, record_units
from ciguard.model.execution import unplanned_settings
from ciguard.model.machine_use import NOT_MEASURED, leg_machine_use
from ciguard.model.types import AFTER_TESTS_S
from ciguard.render.notes import Note
from ciguard.text import last_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from ciguard.guard.diagnosis import JobEvidence
    from ciguard.guard.state import Level
    from ciguard.model import (
        Ending,
        EventLine,
        Outcome,
        Plan,
        ProcessEndLine,
        ProcessLine,
        Record,
        Shard,
    )

# Events in which a leg says why a unit got no result.
MISSING_EVENTS: Final[tuple[str, ...]] = (
    *("not_imported", "deselected", "not_found", "not_reached", "in_files", "not_run", "no_result"),
)
# And in which it says why a process ended with another exit code than 0.
EXPLAINING_EVENTS: Final = frozenset(
    {"recycled", "unexplained_exit", "exit_in_files", "collection_error", *MISSING_EVENTS}
)

CLOCK_S: Final = 60.0  # a clock may be set meanwhile
# How a process ends that was not stopped and that did not report its end.
ENDED_UNREQUESTED: Final[tuple[Ending, ...]] = ("crash", "out_of_memory", "setup_failed")
NOTICED_S: Final = 0.5  # within which the leg sees that a reaper was killed, and kills its tests


@dataclass(frozen=True, slots=True)
class LegResult:
    """One planned shard with all that its record says.

    `missing_reasons` are the leg's events on units without a result, `row` is that of the verdict.
    """

    shard: Shard
    record: Record | None
    end: LegEnd
    units: Mapping[UnitKey, UnitResult]
    planned: frozenset[UnitKey]
    row: Leg
    missing_reasons: Mapping[UnitKey, EventLine]


def read_leg(
    shard: Shard,
    record: Record | None,
    rejected_record: Note | None = None,
    facts: JobEvidence | None = None,
    closing: AbstractSet[str] = frozenset(),
) -> LegResult:
    """Read a shard's record; None where there is none. `facts`: what GitHub says of its job;
    `closing`: suites whose programs say when a unit is over.
    """
    planned = frozenset(unit.key for unit in shard.units)
    if record is not None:
        end = leg_end(record)
    elif is_idle(shard, facts):
        end = LegEnd("unknown" if facts is None else "completed")
    else:
        end = LegEnd("unknown", Note("no_record"))
    if record is not None and facts is not None and facts.is_stopped:
        # A result file is whole whenever it was written: its job alone tells of its end.
        is_ended = not is_from_result_files(record) or end.problem is not None
        end = end if is_ended else LegEnd("unknown", diagnose(facts, record).cause)
    end = with_diagnosis(end, record, facts)
    if record is None and end.problem is not None:
        end = _without_record(end, rejected_record)
    units = record_units(record, closing) if record is not None else {}
    return LegResult(
        shard,
        record,
        end,
        units,
        planned,
        _row(shard, record, end, units, planned),
        _missing_reasons(record) if record is not None else {},
    )


def _without_record(end: LegEnd, rejected_record: Note | None) -> LegEnd:
    """Name why a leg has no record: the one in its place was rejected, or its job hit the limit."""
    if rejected_record is not None and rejected_record.kind == "only_other_plans":
        end = replace(end, problem=Note("no_record_of_plan"))  # one finding says it for all
    elif rejected_record is not None:
        end = replace(end, cause=rejected_record)
    if end.cause is not None and end.cause.kind == "job_limit":
        return replace(end, problem=end.cause, cause=None)
    return end


def _row(
    shard: Shard,
    record: Record | None,
    end: LegEnd,
    units: Mapping[UnitKey, UnitResult],
    planned: AbstractSet[UnitKey],
) -> Leg:
    """Return a leg's row in the verdict: the units that ended in this leg, apart from others."""
    known = any(unit.has_history for unit in shard.units)
    header = record.header if record is not None else None
    outcomes = Counter(
        "xfailed" if case.is_expected_failure else case.outcome
        for unit in units.values()
        for case in unit.cases
    )
    events = record.events if record is not None else ()
    bad = Counter(
        effective_ending(case)
        for unit in units.values()
        if unit.status != "good"
        for case in unit.cases
        if classify_result(case) == "bad"
    )
    return Leg(
        shard=shard.key,
        recorded=record is not None,
        ending=end.ending,
        planned=len(planned),
        with_result=sum(units[key].is_over for key in planned & units.keys()),
        # Without history the plan takes all units for equal: such a wall time predicts nothing.
        predicted_wall_s=shard.predicted.wall_s if known else None,
        predicted_peak_bytes=shard.predicted.peak_bytes,
        wall_s=record.wall_s if record is not None else None,
        peak_bytes=record.peak_bytes if record is not None else None,
        peak_measured_by=record.peak_measured_by if record is not None else None,
        run_attempt=header.run_attempt if header is not None else None,
        counts={outcome: outcomes[outcome] for outcome in COUNTED if outcomes[outcome]},
        endings={ending: bad[ending] for ending in ENDINGS[1:] if bad[ending]},
        bad=bad.total(),
        has_script=header is not None and bool(header.script),
        machine=leg_machine_use(record) if record is not None else NOT_MEASURED,
        memory_bytes=header.runner.memory_bytes if header is not None else None,
        seeds={event.process or 0: event.detail for event in events if event.kind == "seed"},
        after_tests=time_after_tests(record) if record is not None else None,
        started_at=_started_at(record),
    )


def _started_at(record: Record | None) -> datetime | None:
    """Return its start; None of a leg that went on: its times count from the start of the first."""
    if record is None or any(event.kind == "resumed" for event in record.events):
        return None
    return record.started_at


def _missing_reasons(record: Record) -> dict[UnitKey, EventLine]:
    """Return the leg's reasons of units without a result; of several processes the last."""
    return {
        UnitKey(event.suite, event.variant, event.unit): event
        for event in record.events
        if event.kind in MISSING_EVENTS and event.unit is not None
    }


def is_idle(shard: Shard, facts: JobEvidence | None) -> bool:
    """Return whether a shard without a record owes none: it has no test, and its job ended well.

    Only of a matrix written by hand: jobs of our own list what exists.
    """
    if shard.units or not shard.job:
        return False
    if facts is None:
        return True  # GitHub was not asked
    return facts.job is not None and consistency(facts.job, failed=False) == "agrees"


def explains_failure(leg: LegResult) -> bool:
    """Return whether the record of a leg explains why the step of its tests fails."""
    if leg.record is not None and is_from_result_files(leg.record):
        return leg.row.bad > 0
    return exited_with_failures(leg) or bool(unexplained(leg.record))


def exited_with_failures(leg: LegResult) -> bool:
    """Return whether the leg itself ended with the exit code of failed tests."""
    end = leg.record.end if leg.record is not None else None
    return end is not None and end.exit_code == ExitCode.TESTS_FAILED


def leg_findings(leg: LegResult, lost: tuple[UnitKey, ...], plan: Plan) -> Iterator[Finding]:
    """Find the faults of a leg.

    Args:
        lost: its planned units without a final result.
    """
    shard, record, end = leg.shard.key, leg.record, leg.end
    if end.problem is not None:
        kind, facts = end.problem.kind, end.problem.facts
        yield Finding(kind, shard, lost, facts, end.cause, end.evidence, end.culprits)
    if record is None:
        return
    if end.problem is None and lost and not record.damage:
        yield from _missing_results(leg, lost)
    if record.damage and not is_from_result_files(record):
        facts = {"damage": record.damage[0], "more": len(record.damage) - 1 or None}
        yield Finding("damaged", shard, () if end.problem else lost, facts)
    else:
        explained = bool(lost or unplanned_settings(record.events, plan.suites))
        yield from _counts_and_results(leg, record, is_explained=explained)
        yield from _contradictory(leg, record, plan.policy.max_tries)
    in_parts = any(event.kind == "resumed" for event in record.events)
    if record.copies and not in_parts:
        yield Finding("duplicate_record", shard, facts={"sources": record.copies})
    if absent := [one.detail for one in record.events if one.kind == "unreadable_metric"]:
        facts = {"first": absent[0], "more": len(absent) - 1 or None}
        yield Finding("unreadable_metric", shard, facts=facts)
    yield from process_findings(record, shard, ended_by_itself=leg.end.problem is None)


def cached_results(
    legs: Iterable[LegResult], jobs: Mapping[str, JobEvidence], policy: Policy
) -> Iterator[Finding]:
    """Name the result files that are older than their job: out of a build cache, nothing ran."""
    for leg in legs:
        job = jobs[leg.shard.key].job if leg.shard.key in jobs else None
        began = leg.row.started_at or (job.started_at if job is not None else None)
        events = leg.record.events if leg.record is not None else ()
        if began is None or any(event.kind == "resumed" for event in events):
            continue  # a leg that resumed another one has files of both
        first_s = began.timestamp() - CLOCK_S
        files = [one.detail for one in events if one.facts.get("latest_s", first_s) < first_s]
        if files:
            level: Level = "incomplete" if policy.cached_results == "fail" else "warning"
            named = {"files": sorted(files), "count": len(files)}
            yield Finding("cached_results", leg.shard.key, facts=named, stated_level=level)


def _missing_results(leg: LegResult, lost: tuple[UnitKey, ...]) -> Iterator[Finding]:
    """Units without a result in a leg that ended by itself, apart by what to do about them."""
    by_kind: dict[str, list[UnitKey]] = defaultdict(list)
    for key in lost:
        event = leg.missing_reasons.get(key)
        by_kind["no_reason_recorded" if event is None else event.kind].append(key)
    for kind, units in sorted(by_kind.items()):
        yield Finding(kind, leg.shard.key, tuple(units))


def _bad(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome in BAD_OUTCOMES)


def _ran(counts: Mapping[str, int] | Mapping[Outcome, int]) -> int:
    return sum(count for outcome, count in counts.items() if outcome != "skipped")


def _contradictory(leg: LegResult, record: Record, tries: int) -> Iterator[Finding]:
    """Find lines that no leg writes that ended by itself."""
    found = [] if leg.end.problem is not None else list(contradictions(record, tries))
    if found:
        facts = {"count": len(found) if len(found) > 1 else None}
        yield Finding("contradictory", leg.shard.key, facts=facts, cause=found[0])


def _counts_and_results(leg: LegResult, record: Record, *, is_explained: bool) -> Iterator[Finding]:
    """Compare the last line of a leg with the lines before it.

    Args:
        is_explained: what the leg recorded says why it is incomplete.
    """
    shard, end = leg.shard.key, record.end
    if end is None or end.ending != "completed":
        return
    if end.exit_code == ExitCode.INCOMPLETE and not is_explained:
        yield Finding("end_incomplete", shard)
    # What result files say comes on top of what the leg counted.
    filed = any(event.kind == FILE for event in record.events)
    counted, found = sum(end.counts.values()), sum(leg.row.counts.values())
    counts = bool(end.counts or record.processes)  # as every leg of ours does
    pairs = (
        ("result", counted, found, counts and counted < found and not filed),
        ("bad result", _bad(end.counts), _bad(leg.row.counts), False),
        ("executed test", 0 if filed else _ran(end.counts), _ran(leg.row.counts), False),
    )
    for what, counted, found, is_short in pairs:
        if counted > found or is_short:
            facts = {"what": what, "counted": counted, "found": found}
            yield Finding("lines_missing", shard, facts=facts)
            break
    good = all(unit.status == "good" for unit in leg.units.values())
    if exited_with_failures(leg) and good and not unexplained(leg.record):
        yield Finding("failure_missing", shard)


@dataclass(frozen=True, slots=True)
class _Step:
    """The begin of the last step of a leg: processes up to this number are those of others.

    What went before may have been lost with its runner at any line.
    """

    process: int = 0
    at_s: float = 0.0


def contradictions(record: Record, tries: int) -> Iterator[Note]:
    """Find lines that a leg that ended by itself cannot have written.

    Args:
        record: of which no file is known to be damaged.
        tries: executions that the plan gives a unit that fails.
    """
    if is_from_result_files(record):
        return
    step = max(
        (
            _Step(event.process or 0, event.at_s or 0.0)
            for event in record.events
            if event.kind == "resumed"
        ),
        key=lambda step: (step.at_s, step.process),
        default=_Step(),
    )
    yield from _processes(record, step)
    yield from _ends(record, step)
    yield from _reexecution(record, step, tries)


def _processes(record: Record, step: _Step) -> Iterator[Note]:
    """Check that each process is announced once and ends once, and no other has lines."""
    started, ended = _by_process(record.processes), _by_process(record.process_ends)
    named = {line.process for line in record.starts} | {line.process for line in record.results}
    own = {one for one in named if one is not None and one > step.process}
    for number in sorted(own | started.keys() | ended.keys()):
        begins, ends = len(started[number]), len(ended[number])
        if max(begins, ends) > 1 or (number > step.process and min(begins, ends) == 0):
            yield Note("process_lines", {"process": number})


def _by_process(
    lines: Iterable[ProcessLine | ProcessEndLine],
) -> dict[int, list[ProcessLine | ProcessEndLine]]:
    """The lines of each process that differ: what was written twice was said once."""
    found: dict[int, list[ProcessLine | ProcessEndLine]] = defaultdict(list)
    for line in lines:
        if line not in found[line.process]:
            found[line.process].append(line)
    return found


def _ends(record: Record, step: _Step) -> Iterator[Note]:
    """A process that went wrong has a victim, or a word of the leg on why it has none."""
    failed = [line for line in record.results if line.outcome in BAD_OUTCOMES]
    bad = {line.process for line in failed}
    died = {line.process for line in failed if line.outcome == "died"}
    silent = {event.process for event in record.events if event.kind == "last_output"}
    explained = {event.process for event in record.events if event.kind in EXPLAINING_EVENTS}
    for end in record.process_ends:
        number, code = end.process, end.exit_code or 0
        if number <= step.process:
            if (end.at_s or 0.0) > step.at_s:
                yield Note("process_lines", {"process": number})
            continue
        is_explained = number in died | silent
        if end.ending == "completed":
            is_explained = code == 0 or (code > 0 and number in bad | explained)
        if not is_explained:
            facts = {"process": number, "ending": end.ending, "exit_code": end.exit_code}
            yield Note("process_end", facts)


def _reexecution(record: Record, step: _Step, tries: int) -> Iterator[Note]:
    """A unit gets another process when that before has ended, and one that fails if it may."""
    if len(record.processes) <= 1:
        return
    by_unit: dict[UnitKey, dict[int, bool]] = defaultdict(dict)
    for start in record.starts:
        if start.process is not None:
            by_unit[UnitKey(start.suite, start.variant, start.unit)].setdefault(
                start.process, False
            )
    for result in record.results:
        if result.process is not None:
            failed = by_unit[result.key.unit_key]
            bad = result.outcome in ("failed", "errored")
            failed[result.process] = failed.get(result.process, False) or bad
    started_at = {line.process: line.at_s for line in record.processes}
    over = {line.process: line for line in record.process_ends}
    side_by_side: list[UnitKey] = []
    too_often: list[UnitKey] = []
    for key, failed in by_unit.items():
        numbers = sorted(failed)
        for before, number in pairwise(numbers):
            end, at_s = over.get(before), started_at.get(number)
            if number <= step.process or end is None:
                continue
            if at_s is not None and end.at_s is not None and at_s < end.at_s:
                side_by_side.append(key)
            elif failed[before] and end.ending == "completed" and tries <= 1:
                too_often.append(key)
    kinds: tuple[tuple[str, list[UnitKey]], ...] = (
        ("concurrent_units", side_by_side),
        ("too_many_tries", too_often),
    )
    for kind, units in kinds:
        if units:
            yield Note(kind, {"count": len(set(units)), "unit": min(units).unit})


def unexplained(record: Record | None) -> list[EventLine]:
    """The ends that the leg itself could not explain, each once."""
    events = record.events if record is not None else ()
    found = {one.process: one for one in events if one.kind == "unexplained_exit"}
    return list(found.values())


def process_findings(record: Record, shard: str, *, ended_by_itself: bool) -> Iterator[Finding]:
    """Ends that fail the run, or that a person should know of.

    Args:
        ended_by_itself: the leg did; else its own end is what is told.
    """
    red = {one.process: one for one in unexplained(record)}
    untold = dict(red)
    for event in record.events:
        kind = event.reason if event.kind == "after_tests" else event.kind
        if kind not in ("no_exit", "threads_left", "reaper_killed"):
            continue
        why = None if kind == "threads_left" else untold.pop(event.process, None)
        facts = {
            "process": event.process,
            "after_s": event.facts.get("wall_s"),
            "threads": event.detail,
        }
        units = _units_at_end(record, event.process) if kind == "reaper_killed" else ()
        level: Level = "warning" if why is None else "failed"
        yield Finding(kind, shard, facts=facts, culprits=units, stated_level=level)
    for event in untold.values():
        yield Finding("unexplained_exit", shard, facts=_exit_facts(record, event))
    if ended_by_itself:
        killed = {one.process for one in record.events if one.kind == "reaper_killed"}
        yield from _died_between_tests(record, shard, killed | red.keys())
    beside: dict[UnitKey, list[UnitKey]] = defaultdict(list)
    for (_, key), culprit in sorted(find_bystanders(record.results).items()):
        beside[culprit].append(key)
    for culprit, keys in beside.items():
        facts = {"culprit": unit_name(culprit)}
        yield Finding("ran_beside", shard, tuple(keys), facts)


def time_after_tests(record: Record) -> Note | None:
    """Return the time between a leg's last test and its end, and why; None for a short time."""
    events = [one for one in record.events if one.kind == "after_tests"]
    if not events:
        return None
    event = max(events, key=lambda one: one.at_s or 0.0)
    after_s = (event.at_s or 0.0) - max((one.at_s or 0.0 for one in record.results), default=0.0)
    if after_s < AFTER_TESTS_S:  # others were still at their tests
        return None
    return Note(event.reason or "", {"after_s": after_s})


def _exit_facts(record: Record, event: EventLine) -> dict[str, Any]:
    """Return the exit of an event's process, and the last line of the output that it quotes."""
    codes = {one.process: one.exit_code for one in record.process_ends}
    output = last_line(event.detail.partition("\n")[2])
    return {"process": event.process, "exit_code": codes.get(event.process or 0), "output": output}


def _units_at_end(record: Record, process: int | None) -> tuple[UnitKey, ...]:
    """The units that ran when a process ended, or until just before, the last to begin first.

    The one that killed its parent may have passed since.
    """
    starts = {
        UnitKey(one.suite, one.variant, one.unit): one.at_s or 0.0
        for one in record.starts
        if one.process == process
    }
    results = [one for one in record.results if one.process == process and one.outcome != "died"]
    ends = {one.key.unit_key: one.at_s or 0.0 for one in results}
    last_s = max([*starts.values(), *ends.values()], default=0.0)
    near = (key for key in starts if ends.get(key, last_s) >= last_s - NOTICED_S)
    return tuple(sorted(near, key=lambda key: starts[key], reverse=True))


def _died_between_tests(
    record: Record, shard: str, told: AbstractSet[int | None]
) -> Iterator[Finding]:
    """Processes that died between units: what they left passed in another one, or nothing was left.

    Where nothing was left no failed result of theirs is the reason, so that none excuses them.

    Args:
        told: processes of which another finding tells.
    """
    died = [one for one in record.process_ends if one.ending in ENDED_UNREQUESTED]
    if not died:
        return
    found = any(one.outcome == "died" for one in record.results)  # by the search for a culprit
    outputs = {one.process: one for one in record.events if one.kind == "last_output"}
    given = _units_given(record)
    ran = {(one.process, one.key.unit_key) for one in record.results}
    done = Counter(process for process, _ in ran)
    for end in died:
        left = done[end.process] < given.get(end.process, 0)
        if end.process in outputs.keys() - told and not (left and found):
            facts = {"ending": end.ending, **_exit_facts(record, outputs.pop(end.process))}
            level: Level = "warning" if left else "failed"
            yield Finding("died_between_tests", shard, facts=facts, stated_level=level)


def _units_given(record: Record) -> Mapping[int, float]:
    """Count the units that each process was to run; one that never came to list them had some."""
    assigned = {
        one.process: one.facts.get("units", 0.0) for one in record.events if one.kind == "assigned"
    }
    return {
        one.process: assigned.get(one.process, 1) if one.reason == "listing" else one.units
        for one in record.processes
    }
