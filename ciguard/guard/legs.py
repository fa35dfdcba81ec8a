"""One leg, the execution of a planned shard: its row in the verdict, and its faults. Pure.

Faults are also ends of processes that no result explains, and contradictions in a record. A leg
announces each process and records its end, gives no unit to two processes at once, and repeats only
units that may be repeated. A record that differs was changed after the leg, or is two records; its
results prove nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ciguard.codec.results.base import FILE
from ciguard.errors import ExitCode
from ciguard.guard.diagnosis import (
    JobEvidence,
    LegEnd,
    consistency,
    diagnose,
    is_from_result_files,
    leg_end,
    with_diagnosis,
)
from ciguard.guard.failure_groups import effective_ending
from ciguard.guard.verdict import COUNTED, Finding, Leg, Level, Policy
from ciguard.model import (
    BAD_OUTCOMES,
    ENDINGS,
    Ending,
    EventLine,
    Plan,
    ProcessEndLine,
    ProcessLine,
    Record,
    Shard,
    UnitKey,
)
from ciguard.model.attempts import UnitResult, classify_result, find_bystanders, record_units
from ciguard.model.execution import unplanned_settings
from ciguard.model.machine_use import NOT_MEASURED, leg_machine_use
from ciguard.model.probes import ended_in_try
from ciguard.model.types import AFTER_TESTS_S
from ciguard.render.notes import Note
from ciguard.text import last_line, unit_name

# Events with the reason why a unit has no result.
MISSING_EVENTS: Final[tuple[str, ...]] = (
    *("not_imported", "deselected", "not_found", "not_reached", "in_files", "not_run", "no_result"),
)
# Events that explain an exit code other than 0 of a process.
EXPLAINING_EVENTS: Final = frozenset(
    {"recycled", "unexplained_exit", "exit_in_files", "collection_error", *MISSING_EVENTS}
)

CLOCK_S: Final = 60.0  # tolerance between the clocks of file times and job times
# Endings of a process that was not stopped, and did not end by itself.
ENDED_UNREQUESTED: Final[tuple[Ending, ...]] = ("crash", "out_of_memory", "setup_failed")
REAPER_CHECK_S: Final = 0.5  # within it a leg notices a killed reaper, and kills the tests


@dataclass(frozen=True, slots=True)
class LegResult:
    """One planned shard with the facts of its record.

    Attributes:
        planned: the units that the leg had to run.
        row: the leg in the verdict.
        missing_reasons: the leg's events on units without a result.
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
    """Read the record of a shard.

    Args:
        record: None if no record of the shard counts.
        rejected_record: the reason why an uploaded record does not count.
        facts: GitHub's facts of the job; None if GitHub was not asked.
        closing: suites whose programs report the end of a unit.
    """
    planned = frozenset(unit.key for unit in shard.units)
    if record is not None:
        end = leg_end(record)
    elif is_idle(shard, facts):
        end = LegEnd("unknown" if facts is None else "completed")
    else:
        end = LegEnd("unknown", Note("no_record"))
    job = facts.job if facts is not None else None
    if record is not None and facts and job and job.conclusion in ("cancelled", "timed_out"):
        # A result file is complete at any time: only the job shows that it was stopped.
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
    """Return the end of a leg without record: was one rejected, or did the job exceed its limit?"""
    if rejected_record is not None and rejected_record.kind == "only_other_plans":
        end = replace(end, problem=Note("no_record_of_plan"))  # one finding has the cause for all
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
    """Return a leg's row in the verdict, by the units that ran in this leg."""
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
        # Without history the plan counts all units as equal, and its wall time predicts nothing.
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
        fewer_at_once=_fewer_at_once(shard, events),
        started_at=None if record is None or record.is_resumed else record.started_at,
    )


def _fewer_at_once(shard: Shard, events: Sequence[EventLine]) -> Note | None:
    """Return the least number of workers that a process started for memory; None if none did."""
    if shard.serial:
        return Note("serial")
    limited = [line.facts for line in events if (line.kind, line.reason) == ("workers", "memory")]
    if not limited:
        return None
    least = min(limited, key=lambda facts: facts["workers"])
    return Note("fewer_workers", {name: int(number) for name, number in least.items()})


def _missing_reasons(record: Record) -> dict[UnitKey, EventLine]:
    """Return the events on units without a result; of several processes the last event."""
    return {
        event.unit_key: event
        for event in record.events
        if event.kind in MISSING_EVENTS and event.unit is not None
    }


def is_idle(shard: Shard, facts: JobEvidence | None) -> bool:
    """Return whether a shard needs no record: it has no test, and its job ended well.

    Only in a hand-written matrix: jobs of ciguard's own list the existing tests in a record.
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
    has_cause = bool(unexplained(leg.record)) or ended_in_try(leg.record)
    return exited_with_failures(leg) or has_cause


def exited_with_failures(leg: LegResult) -> bool:
    """Return whether the leg itself ended with the exit code of failed tests."""
    end = leg.record.end if leg.record is not None else None
    return end is not None and end.exit_code == ExitCode.TESTS_FAILED


def leg_findings(leg: LegResult, lost: tuple[UnitKey, ...], plan: Plan) -> Iterator[Finding]:
    """Find the faults of a leg, with the planned units that have no final result (`lost`)."""
    shard, record, end = leg.shard.key, leg.record, leg.end
    if end.problem is not None:
        kind, facts = end.problem.kind, end.problem.facts
        yield Finding(kind, shard, lost, facts, end.cause, end.evidence, end.culprits)
    if record is None:
        return
    if end.problem is None and lost and not record.damage:
        by_kind: dict[str, list[UnitKey]] = defaultdict(list)
        for key in lost:
            event = leg.missing_reasons.get(key)
            by_kind["no_reason_recorded" if event is None else event.kind].append(key)
        for kind, units in sorted(by_kind.items()):
            yield Finding(kind, leg.shard.key, tuple(units))
    if record.damage and not is_from_result_files(record):
        facts = {"damage": record.damage[0], "more": len(record.damage) - 1 or None}
        yield Finding("damaged", shard, () if end.problem else lost, facts)
    else:
        explained = bool(lost or unplanned_settings(record.events, plan.suites))
        yield from _counts_and_results(leg, record, is_explained=explained)
        notes = list(contradictions(record, plan.policy.max_tries)) if end.problem is None else []
        if notes:
            facts = {"count": len(notes) if len(notes) > 1 else None}
            yield Finding("contradictory", shard, facts=facts, cause=notes[0])
    if record.copies and not record.is_resumed:
        yield Finding("duplicate_record", shard, facts={"sources": record.copies})
    if metrics := [event.detail for event in record.events if event.kind == "unreadable_metric"]:
        facts = {"first": metrics[0], "more": len(metrics) - 1 or None}
        yield Finding("unreadable_metric", shard, facts=facts)
    yield from process_findings(record, shard, ended_by_itself=leg.end.problem is None)


def cached_results(
    legs: Iterable[LegResult], jobs: Mapping[str, JobEvidence], policy: Policy
) -> Iterator[Finding]:
    """Find result files that are older than their job: they come from a cache, nothing ran."""
    for leg in legs:
        job = jobs[leg.shard.key].job if leg.shard.key in jobs else None
        start = leg.row.started_at or (job.started_at if job is not None else None)
        if start is None or leg.record is None or leg.record.is_resumed:
            continue
        first_s, events = start.timestamp() - CLOCK_S, leg.record.events
        files = [line.detail for line in events if line.facts.get("latest_s", first_s) < first_s]
        if files:
            level: Level = "incomplete" if policy.cached_results == "fail" else "warning"
            named = {"files": sorted(files), "count": len(files)}
            yield Finding("cached_results", leg.shard.key, facts=named, stated_level=level)


def _counts_and_results(leg: LegResult, record: Record, *, is_explained: bool) -> Iterator[Finding]:
    """Compare the last line of a leg with the lines before it.

    Args:
        is_explained: the record explains why the leg is incomplete.
    """
    shard, end = leg.shard.key, record.end
    if end is None or end.ending != "completed":
        return
    if end.exit_code == ExitCode.INCOMPLETE and not is_explained:
        yield Finding("end_incomplete", shard)
    # The leg does not count the results of result files.
    filed = any(event.kind == FILE for event in record.events)
    counted, found = sum(end.counts.values()), sum(leg.row.counts.values())
    has_counts = bool(end.counts or record.processes)  # true for records of `ciguard run`
    counts = (Counter(end.counts), Counter(leg.row.counts))
    bad = [sum(of_both[word] for word in BAD_OUTCOMES) for of_both in counts]
    ran = [of_both.total() - of_both["skipped"] for of_both in counts]
    pairs = (
        ("result", counted, found, has_counts and counted < found and not filed),
        ("bad result", bad[0], bad[1], False),
        ("executed test", 0 if filed else ran[0], ran[1], False),
    )
    for noun, counted, found, is_short in pairs:
        if counted > found or is_short:
            facts = {"what": noun, "counted": counted, "found": found}
            yield Finding("lines_missing", shard, facts=facts)
            break
    good = all(unit.status == "good" for unit in leg.units.values())
    if exited_with_failures(leg) and good and not unexplained(leg.record):
        yield Finding("failure_missing", shard)


class _Step(NamedTuple):
    """The begin of the last step of a resumed leg, after its last checkpoint.

    Processes up to this number are of earlier steps, whose lines may be lost from any point on.
    """

    at_s: float = 0.0
    process: int = 0


def contradictions(record: Record, tries: int) -> Iterator[Note]:
    """Find lines that a leg that ended by itself cannot have written.

    Args:
        record: a record without known damage.
        tries: number of executions that the plan allows a failing unit.
    """
    if is_from_result_files(record):
        return
    resumed = [event for event in record.events if event.kind == "resumed"]
    steps = (_Step(event.at_s or 0.0, event.process or 0) for event in resumed)
    step = max(steps, default=_Step())
    yield from _processes(record, step)
    yield from _ends(record, step)
    yield from _reexecution(record, step, tries)


def _processes(record: Record, step: _Step) -> Iterator[Note]:
    """Check that each process with lines has exactly one start, with its time, and one end."""
    started = _by_process(line for line in record.processes if line.at_s is not None)
    ended = _by_process(record.process_ends)
    active = {line.process for line in record.starts} | {line.process for line in record.results}
    own = {number for number in active if number is not None and number > step.process}
    for number in sorted(own | started.keys() | ended.keys()):
        begins, ends = len(started[number]), len(ended[number])
        if max(begins, ends) > 1 or (number > step.process and min(begins, ends) == 0):
            yield Note("process_lines", {"process": number})


def _by_process(
    lines: Iterable[ProcessLine | ProcessEndLine],
) -> dict[int, list[ProcessLine | ProcessEndLine]]:
    """Return the distinct lines of each process: a line that was written twice counts once."""
    distinct: dict[int, list[ProcessLine | ProcessEndLine]] = defaultdict(list)
    for line in lines:
        if line not in distinct[line.process]:
            distinct[line.process].append(line)
    return distinct


def _ends(record: Record, step: _Step) -> Iterator[Note]:
    """Check that each bad end of a process has a bad result, or an event that explains the end."""
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
    """Check that a unit is repeated only after its process ended, and a failed one if allowed."""
    if len(record.processes) <= 1:
        return
    by_unit: dict[UnitKey, dict[int, bool]] = defaultdict(dict)
    for start in record.starts:
        if start.process is not None:
            by_unit[start.unit_key].setdefault(start.process, False)
    for result in record.results:
        if result.process is not None:
            failed = by_unit[result.key.unit_key]
            bad = result.outcome in ("failed", "errored")
            failed[result.process] = failed.get(result.process, False) or bad
    started_at = {line.process: line.at_s for line in record.processes}
    ends = {line.process: line for line in record.process_ends}
    concurrent: list[UnitKey] = []
    repeated: list[UnitKey] = []
    for key, failed in by_unit.items():
        for before, number in pairwise(sorted(failed)):
            end, at_s = ends.get(before), started_at.get(number)
            if number <= step.process or end is None:
                continue
            if at_s is not None and end.at_s is not None and at_s < end.at_s:
                concurrent.append(key)
            elif failed[before] and end.ending == "completed" and tries <= 1:
                repeated.append(key)
    for kind, units in (("concurrent_units", concurrent), ("too_many_tries", repeated)):
        if units:
            yield Note(kind, {"count": len(set(units)), "unit": min(units).unit})


def unexplained(record: Record | None) -> list[EventLine]:
    """Return one event for each process whose end the leg could not explain."""
    events = record.events if record is not None else ()
    by_process = {event.process: event for event in events if event.kind == "unexplained_exit"}
    return list(by_process.values())


def process_findings(record: Record, shard: str, *, ended_by_itself: bool) -> Iterator[Finding]:
    """Find ends of processes that fail the run, or give a warning.

    Args:
        ended_by_itself: the leg ended by itself; otherwise the finding of its end covers its
            processes.
    """
    red = {event.process: event for event in unexplained(record)}
    remaining = dict(red)
    for event in record.events:
        kind = event.reason if event.kind == "after_tests" else event.kind
        if kind not in ("no_exit", "threads_left", "reaper_killed"):
            continue
        exit_event = None if kind == "threads_left" else remaining.pop(event.process, None)
        after_s = event.facts.get("wall_s")
        facts = {"process": event.process, "after_s": after_s, "threads": event.detail}
        units = _units_at_end(record, event.process) if kind == "reaper_killed" else ()
        level: Level = "warning" if exit_event is None else "failed"
        yield Finding(kind, shard, facts=facts, culprits=units, stated_level=level)
    for event in remaining.values():
        yield Finding("unexplained_exit", shard, facts=_exit_facts(record, event))
    if ended_by_itself:
        killed = {event.process for event in record.events if event.kind == "reaper_killed"}
        yield from _died_between_tests(record, shard, killed | red.keys())
    bystanders: dict[UnitKey, list[UnitKey]] = defaultdict(list)
    for (_, key), culprit in sorted(find_bystanders(record.results).items()):
        bystanders[culprit].append(key)
    for culprit, keys in bystanders.items():
        yield Finding("ran_beside", shard, tuple(keys), {"culprit": unit_name(culprit)})


def time_after_tests(record: Record) -> Note | None:
    """Return the time from a leg's last test to its end, with the reason; None for a short time."""
    events = [event for event in record.events if event.kind == "after_tests"]
    if not events:
        return None
    event = max(events, key=lambda line: line.at_s or 0.0)
    last_test_s = max((line.at_s or 0.0 for line in record.results), default=0.0)
    after_s = (event.at_s or 0.0) - last_test_s
    if after_s < AFTER_TESTS_S:  # other processes were still running tests
        return None
    return Note(event.reason or "", {"after_s": after_s})


def _exit_facts(record: Record, event: EventLine) -> dict[str, Any]:
    """Return the exit code of an event's process, and the last line of the quoted output."""
    codes = {line.process: line.exit_code for line in record.process_ends}
    output = last_line(event.detail.partition("\n")[2])
    return {"process": event.process, "exit_code": codes.get(event.process or 0), "output": output}


def _units_at_end(record: Record, process: int | None) -> tuple[UnitKey, ...]:
    """Return the units that ran at the end of a process or just before, the latest start first.

    The unit that killed its parent process may have passed before the leg noticed.
    """
    starts = {line.unit_key: line.at_s or 0.0 for line in record.starts if line.process == process}
    ends = {
        line.key.unit_key: line.at_s or 0.0
        for line in record.results
        if line.process == process and line.outcome != "died"
    }
    last_s = max([*starts.values(), *ends.values()], default=0.0)
    near = (key for key in starts if ends.get(key, last_s) >= last_s - REAPER_CHECK_S)
    return tuple(sorted(near, key=lambda key: starts[key], reverse=True))


def _died_between_tests(
    record: Record, shard: str, reported: AbstractSet[int | None]
) -> Iterator[Finding]:
    """Find processes that died between units.

    If units were left, they ran in another process: a warning. If none was left, no failed result
    is the reason of the death, so that no quarantine excuses it: the run fails.

    Args:
        reported: processes that have another finding.
    """
    died = [line for line in record.process_ends if line.ending in ENDED_UNREQUESTED]
    if not died:
        return
    # The leg runs the units left alone to find the one whose process dies.
    has_culprit = any(line.outcome == "died" for line in record.results)
    outputs = {event.process: event for event in record.events if event.kind == "last_output"}
    assigned = _count_assigned(record)
    finished = Counter(
        process for process, _ in {(line.process, line.key.unit_key) for line in record.results}
    )
    for end in died:
        has_left = finished[end.process] < assigned.get(end.process, 0)
        if end.process in outputs.keys() - reported and not (has_left and has_culprit):
            facts = {"ending": end.ending, **_exit_facts(record, outputs.pop(end.process))}
            level: Level = "warning" if has_left else "failed"
            yield Finding("died_between_tests", shard, facts=facts, stated_level=level)


def _count_assigned(record: Record) -> Mapping[int, float]:
    """Count the units that each process had to run; 1 if it died before it listed its units."""
    listed = {
        event.process: event.facts.get("units", 0.0)
        for event in record.events
        if event.kind == "assigned"
    }
    return {
        line.process: listed.get(line.process, 1) if line.reason == "listing" else line.units
        for line in record.processes
    }
