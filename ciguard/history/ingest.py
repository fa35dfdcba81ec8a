"""Conversion of records, or of other programs' durations, to a history. Pure.

A record is the file in which one leg (one execution of a shard by a job) writes about its tests.
merge.py merges the resulting history into the kept one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import compress, groupby, islice
from operator import attrgetter, ne
from statistics import median
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import LARGEST
from ciguard.codec.results import durations
from ciguard.codec.results.base import ExternalName, peek
from ciguard.codec.results.formats import FORMATS, format_of
from ciguard.errors import InputError
from ciguard.history.file import (
    CODE,
    MEASURES,
    SECONDS,
    History,
    empty,
    has_any,
    numbers_of,
    of_columns,
    unmeasured,
)
from ciguard.history.merge import merge, merge_run
from ciguard.history.metric_series import series_of
from ciguard.history.runs import UNDATED, UNMERGED_EVENTS, HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import CaseKey, EndLine, Record, Result, ShardLine, UnitKey, count_units
from ciguard.model.attempts import FinalResults, final_results
from ciguard.model.listings import with_listings
from ciguard.model.machine_use import machine_use
from ciguard.model.moved_units import find_moved_blocks, with_moved_units
from ciguard.model.record import newest_by_shard
from ciguard.model.standing import standing_of

if TYPE_CHECKING:
    from ciguard.model import MetricLine, Plan, ProcessEndLine, ProcessLine, Shard, Standing

T = TypeVar("T")

ACCEPTED_INPUTS: Final = (
    f"give records (a folder, or *.jsonl), {', '.join(row.NAME for row in FORMATS.values())}, or "
    "durations as JSON ({id: seconds}); each may be gzipped"
)
MAX_S: Final = 1e9  # 31 years; a longer time is an error of a clock
MAX_TRIES: Final = 255
_WORDS: Final = ("outcome", "ending", "measured_by")  # fields of a result


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """Facts of a run by the options of `history add`; None if an option was not passed."""

    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    branch: str | None = None
    event: str | None = None
    at: datetime | None = None
    suite: str | None = None
    variant: str | None = None


NOTHING = RunMetadata()


def reconcile(option: str, recorded: T | None, given: T | None, where: str) -> T | None:
    """Return the recorded value, or the value of an option if none is recorded.

    Raises:
        InputError: both are known and differ.
    """
    if recorded and given is not None and recorded != given:
        raise InputError(
            f"the record has {recorded!r}, but {option} is {given!r}",
            where=where,
            fix=f"leave {option} out, or name the record that was meant",
        )
    return recorded or given


def parse_time(text: str, where: str) -> datetime:
    """Parse an RFC 3339 time as UTC; a time without a zone counts as UTC.

    Raises:
        InputError: the text is not a time.
    """
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        fix = "write it as 2026-11-21T10:00:00Z"
        raise InputError(f"no time: {text!r:.60}", where=where, fix=fix) from None


def history_run(record: Record, facts: RunMetadata) -> HistoryRun:
    """Return the run of a record, without legs.

    Raises:
        InputError: the run id is unknown, or record and options contradict each other.
    """
    header, where = record.identity, record.source
    run_id = reconcile("--run-id", header.run_id, facts.run_id, where)
    if run_id is None:
        fix = "pass --run-id N: any number that no other run has"
        raise InputError("no run id", where=where, fix=fix)
    # --at is the start of the run, and may differ from the start of the leg in a record.
    started = parse_time(header.started_at, where) if header.started_at else None
    tested_sha = header.tested_sha or header.head_sha
    # --sha may also name the head of a tested merge commit.
    given_sha = tested_sha if facts.sha == header.head_sha else facts.sha
    return HistoryRun(
        run_id=run_id,
        run_attempt=reconcile("--run-attempt", header.run_attempt, facts.run_attempt, where) or 1,
        at=facts.at or started or UNDATED,
        sha=reconcile("--sha", tested_sha, given_sha, where),
        parents=header.tested_parents,
        branch=reconcile("--branch", header.branch, facts.branch, where),
        event=reconcile("--event", header.event, facts.event, where),
        repository=header.repository,
        workflow=header.workflow,
    )


def check_is_merged(event: str | None, subject: str, where: str) -> None:
    """Refuse runs of unmerged changes, which would be compared with values that they add.

    Args:
        event: event of a run by its record, or event of this workflow run (or the run that
            triggered it) by GitHub, because a job may write any event into its records. None if
            unknown.
        subject: name of the run in the message.

    Raises:
        InputError: the event is that of a pull request or a merge group.
    """
    if event in UNMERGED_EVENTS:
        what = f"{subject} is a run of {event}: the history takes no runs of proposed changes"
        fix = "add runs of the base branch: if: github.event_name == 'push'"
        raise InputError(what, where=where, fix=fix)


@dataclass(frozen=True, slots=True)
class _LegEntry:
    """A leg with its run and its final results; a shard without a record has no results.

    `metrics`: metrics of a leg that ended by itself.
    `standings`: standings of the final results.
    """

    run: HistoryRun
    leg: HistoryLeg
    metrics: tuple[MetricLine, ...] = ()
    finals: FinalResults = FinalResults((), {})  # noqa: RUF009  # frozen
    standings: tuple[Standing | None, ...] = ()


def _with_facts(record: Record, facts: RunMetadata) -> Record:
    """Add the suite and variant of the options to lines that have none."""
    if facts.suite is None and facts.variant is None:
        return record

    def with_suite(line: Any) -> Any:
        return replace(
            line,
            suite=reconcile("--suite", line.suite, facts.suite, record.source) or "",
            variant=reconcile("--variant", line.variant, facts.variant, record.source) or "",
        )

    return replace(
        record,
        starts=tuple(map(with_suite, record.starts)),
        results=tuple(map(with_suite, record.results)),
        processes=tuple(map(with_suite, record.processes)),
    )


def history_of(
    records: Iterable[Record],
    facts: RunMetadata = NOTHING,
    plan: Plan | None = None,
    keep: Sequence[str] = (),
) -> History:
    """Make a history of these records alone: any number of legs, attempts and runs.

    Args:
        records: each with a known run id.
        facts: facts that complete the records.
        plan: plan of the run, if known; it gives the lost units of legs that died, and shards
            without any record.
        keep: patterns of the names of metrics that become series.

    Raises:
        InputError: a run id is missing, two sources contradict each other, a record is of another
            plan, or a value is out of range. The error has both values and their place.
    """
    entries = []
    records = tuple(records)
    # A record without header and readable lines counts only if all records are like this.
    with_content = tuple(
        record
        for record in records
        if any((record.header, record.partial_header))
        or any((record.results, record.starts, record.processes))
    )
    known_records = with_content or records
    plan = with_listings(plan, known_records).plan if plan is not None else None
    moved = _plans_with_moves(plan, known_records) if plan is not None else {}
    for record in known_records:
        _check_plan(record, plan)
        readable = _with_facts(record, facts)
        run = history_run(readable, facts)
        leg = history_leg(readable, run.run_attempt, moved.get(record.identity.run_id, plan))
        if record.header is None and record.partial_header is None:
            leg = replace(leg, suite=facts.suite or "", variant=facts.variant or "")
        finals = final_results(readable.results if record.was_executed else ())
        metrics = record.metrics if leg.complete else ()
        standings = tuple(map(standing_of(readable), finals.results))
        entries.append(_LegEntry(replace(run, legs=(leg,)), leg, metrics, finals, standings))
    if plan is not None:
        entries.extend(_missing_entries(entries, plan, moved))
    return _merge_runs(entries, keep)


def _plans_with_moves(plan: Plan, records: Iterable[Record]) -> Mapping[int | None, Plan]:
    """Return by run the plan with each unit in the shard whose leg was to run the unit in the end.

    A unit that a leg claimed is lost with this leg, and not with its planned shard.
    """
    if not plan.claims:
        return {}
    by_run: dict[int | None, list[Record]] = defaultdict(list)
    for record in records:
        by_run[record.identity.run_id].append(record)
    plans = {}
    for run_id, records_of_run in by_run.items():
        newest = newest_by_shard(records_of_run)
        plans[run_id] = with_moved_units(plan, find_moved_blocks(plan, newest), newest)
    return plans


def _check_plan(record: Record, plan: Plan | None) -> None:
    """Refuse a record of another plan, because the shards of `plan` would count as lost."""
    header = record.header or record.partial_header
    # A leg that was killed at its start left no header, and so cannot contradict the plan.
    if plan is not None and header is not None and header.plan_id != plan.id:
        what = f"the record is of plan {header.plan_id or 'none'!r:.40}, not {plan.id}"
        fix = "name the plan that the record was made with, or leave --plan out"
        raise InputError(what, where=record.source, fix=fix)


def _missing_entries(
    entries: Sequence[_LegEntry], plan: Plan, moved: Mapping[int | None, Plan]
) -> list[_LegEntry]:
    """Return entries of the shards without a record, in each run of the other entries."""
    by_run: dict[int, list[_LegEntry]] = defaultdict(list)
    for entry in entries:
        by_run[entry.run.run_id].append(entry)
    return [
        _LegEntry(replace(known[0].run, run_attempt=leg.run_attempt, legs=(leg,)), leg)
        for run_id, known in by_run.items()
        for leg in missing_legs(moved.get(run_id, plan), [entry.leg for entry in known])
    ]


def _merge_runs(entries: Sequence[_LegEntry], keep: Sequence[str]) -> History:
    runs: dict[int, HistoryRun] = {}
    for entry in entries:
        known = runs.get(entry.run.run_id)
        runs[entry.run.run_id] = merge_run(known, entry.run) if known else entry.run
    history = empty()
    # Each run becomes a separate history, because `merge` selects legs and attempts.
    ordered = sorted(entries, key=lambda entry: (entry.run.run_id, entry.leg.run_attempt))
    for run_id, group in groupby(ordered, key=lambda entry: entry.run.run_id):
        history = merge(history, _history_of_run(runs[run_id], tuple(group), keep))
    return history


def _history_of_run(run: HistoryRun, entries: Sequence[_LegEntry], keep: Sequence[str]) -> History:
    positions = {(leg.identity, leg.run_attempt): position for position, leg in enumerate(run.legs)}
    results: list[Result] = []
    standings: list[Standing | None] = []
    legs: list[NDArray[np.int32]] = []
    lines: list[MetricLine] = []
    failed_attempts: dict[CaseKey, int] = {}
    for entry in entries:
        position = positions.get((entry.leg.identity, entry.leg.run_attempt))
        if position is not None:  # otherwise a later attempt of the leg counts
            results.extend(entry.finals.results)
            standings.extend(entry.standings)
            legs.append(np.full(len(entry.finals.results), position, np.int32))
            failed_attempts.update(entry.finals.failed_attempts)
            lines.extend(entry.metrics)
    series = series_of(lines, keep, run.run_id, run.run_attempt)
    if not results:
        return replace(empty(), runs=(run,), metrics=series)
    # Columns by `attrgetter` and `map`: 5 ms for 100,000 results, where a Python loop takes 30 ms.
    case_keys = list(map(attrgetter("key"), results))
    try_numbers = np.ones(len(case_keys), np.uint8)
    if failed_attempts:
        try_numbers[:] = [min(1 + failed_attempts.get(key, 0), MAX_TRIES) for key in case_keys]
    columns: dict[str, NDArray[Any]] = {
        "leg": np.concatenate(legs),
        **{name: _codes(name, map(attrgetter(name), results), len(results)) for name in _WORDS},
        "standing": _codes("standing", standings, len(results)),
        "try_number": try_numbers,
        **{name: _measure(name, numbers_of(name, results), case_keys) for name in MEASURES},
    }
    external = map(ExternalName._make, map(attrgetter(*ExternalName._fields), results))
    spellings = {
        key: names
        for key, names in zip(case_keys, external, strict=True)
        if names != ExternalName()
    }
    return replace(_history_of_columns(run, case_keys, columns, spellings), metrics=series)


def _history_of_columns(
    run: HistoryRun,
    case_keys: Sequence[CaseKey],
    columns: Mapping[str, NDArray[Any]],
    spellings: Mapping[CaseKey, ExternalName],
) -> History:
    keys, key = _sort_keys(case_keys)
    positions = {"key": key, "run": np.zeros(len(key), np.int32)}
    return History(of_columns({**positions, **columns}), (run,), keys, spellings)


def _sort_keys(case_keys: Sequence[CaseKey]) -> tuple[tuple[CaseKey, ...], NDArray[np.int32]]:
    """Return the sorted keys, each once, and the index of each of `case_keys` among them."""
    # A key as one text sorts like its tuple in half the time, if no name contains the separator.
    texts: Sequence[Any] = list(map("\0".join, case_keys))
    if "".join(texts).count("\0") > 3 * len(texts):
        texts = case_keys
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ordered = [texts[index] for index in order]
    is_first = np.array([True, *map(ne, ordered, islice(ordered, 1, None))])
    key = np.empty(len(order), np.int32)
    key[order] = np.cumsum(is_first) - 1
    return tuple(case_keys[index] for index in compress(order, is_first)), key


def _codes(name: str, values: Iterable[str | None], count: int) -> NDArray[np.uint8]:
    return np.fromiter(map(CODE[name].__getitem__, values), np.uint8, count)


def _measure(
    name: str, numbers: list[float | None], keys: Sequence[CaseKey]
) -> NDArray[np.float64]:
    """Return a column, NaN for None."""
    if not has_any(numbers):
        return unmeasured(len(numbers))
    column = np.array(numbers, np.float64)
    out_of_range = np.flatnonzero(np.abs(column) > (MAX_S if name in SECONDS else LARGEST))
    if out_of_range.size:
        key = keys[int(out_of_range[0])]
        what = f"{name} of {key.unit!r:.200} is {column[out_of_range[0]]:g}"
        raise InputError(what, where=f"suite {key.suite!r}", fix="fix the program that measured it")
    return column


def history_of_file(stream: IO[bytes], source: str, facts: RunMetadata) -> tuple[History, int]:
    """Make a history of a result file or of JSON durations; count passed cases without a time.

    Raises:
        InputError: the content has no known format, or is damaged.
    """
    head = peek(stream, source)
    # JSON without another known format contains durations.
    if durations.sniff(head) and not any(format_.sniff(head) for format_ in FORMATS.values()):
        try:
            items = durations.read(stream, source)
        except InputError as error:
            fix = error.fix or ACCEPTED_INPUTS  # a file that begins like JSON may have any format
            raise InputError(error.what, where=error.where, fix=fix) from error
        return history_of_durations(items, source, facts), 0
    try:
        result_format = format_of(stream, source)
    except InputError as error:
        raise InputError(error.what, where=source, fix=ACCEPTED_INPUTS) from error
    results = tuple(result_format.read(stream, source))
    untimed = sum(1 for result in results if result.wall_s is None and result.outcome == "passed")
    # A complete file proves that its writer completed.
    record = Record(source, header=None, results=results, end=EndLine("completed"))
    return history_of([record], facts), untimed


def history_of_durations(
    items: Iterable[durations.Duration], source: str, facts: RunMetadata = NOTHING
) -> History:
    """Make a history of another program's durations: one leg, without outcomes.

    Raises:
        InputError: the run id is unknown.
    """
    items = tuple(items)
    suite_key = (facts.suite or "", facts.variant or "")
    run = history_run(Record(source, None), facts)
    leg = HistoryLeg("", None, *suite_key, run.run_attempt, ending="completed", complete=True)
    run = replace(run, legs=(leg,))
    if not items:
        return replace(empty(), runs=(run,))
    case_keys = [CaseKey(*suite_key, item.unit, item.unit) for item in items]
    unknown_codes = np.zeros(len(items), np.uint8)
    columns: dict[str, NDArray[Any]] = {
        "leg": np.zeros(len(items), np.int32),
        **dict.fromkeys(CODE, unknown_codes),
        "try_number": unknown_codes + np.uint8(1),
        "wall_s": np.array([item.wall_s for item in items], np.float64),
    }
    spellings = {
        key: ExternalName(file=item.unit)
        for key, item in zip(case_keys, items, strict=True)
        if item.is_file_total
    }
    return merge(empty(), _history_of_columns(run, case_keys, columns, spellings))


def _shard(plan: Plan | None, header: ShardLine) -> Shard | None:
    if plan is None or header.plan_id != plan.id:
        return None
    return next((shard for shard in plan.shards if shard.key == header.shard), None)


def history_leg(record: Record, run_attempt: int, plan: Plan | None) -> HistoryLeg:
    """Return the leg of a record; the record's own `plan` gives the units that never started."""
    header = record.identity
    ending = record.end.ending if record.end is not None else "unknown"
    shard = _shard(plan, header)
    planned: set[UnitKey] = {unit.key for unit in shard.units} if shard is not None else set()
    lost: set[UnitKey] = set()
    if ending != "completed":
        started = {UnitKey(line.suite, line.variant, line.unit) for line in record.starts}
        lost = (planned | started) - {line.key.unit_key for line in record.results}
    predicted = shard.predicted if shard is not None else None
    machine = machine_use(record.samples)
    cpu_s = [line.cpu_s for line in record.process_ends if line.cpu_s is not None]
    is_cpu_known = cpu_s and len(cpu_s) == len(record.processes)
    extremes = (machine.least_headroom, machine.least_available)
    left_bytes = [moment.size_bytes for moment in extremes if moment is not None]
    memory_bytes = header.runner.memory_bytes
    return HistoryLeg(
        shard=header.shard,
        job=header.job,
        run_attempt=run_attempt,
        ending=ending,
        complete=ending == "completed" and record.was_executed,
        runner=header.runner,
        wall_s=record.wall_s,
        start_s=leg_start_s(record),
        end_s=leg_end_s(record),
        cpu_s=round(math.fsum(cpu_s), 6) if is_cpu_known else None,
        peak_bytes=record.peak_bytes,
        process_peak_bytes=max((line.peak_bytes or 0 for line in record.process_ends), default=0)
        or None,
        used_bytes=max(0, memory_bytes - min(left_bytes)) if memory_bytes and left_bytes else None,
        gpu_bytes=machine.gpu_bytes or None,
        swap_growth_bytes=machine.swap_growth.size_bytes if machine.swap_growth else None,
        stalled_s=round(machine.stalls.stalled_s, 6) if machine.stalls else None,
        simulated_peak_bytes=predicted.simulated_peak_bytes if predicted else None,
        plan_id=header.plan_id,
        planned=count_units(planned) if shard is not None else None,
        overheads=suite_overheads(record),
        lost_units=tuple(sorted(lost)),
        conditions=dict(sorted(header.conditions.items())) or None,
    )


def missing_legs(plan: Plan, legs: Sequence[HistoryLeg]) -> Iterator[HistoryLeg]:
    """Yield a leg for each shard of the plan without a record.

    A shard without a test in a matrix written by hand needs no record. The legs have the first
    attempt, so that they do not replace the values of completed legs when only the records of
    "re-run failed jobs" are added.
    """
    recorded = {leg.shard for leg in legs}
    known = next((leg for leg in legs if leg.job is not None and leg.shard), None)
    for shard in plan.shards:
        if shard.key in recorded or (shard.job and not shard.units):
            continue
        # Only a record has the name of its job; in a matrix, names of jobs differ by the shard.
        job = known.job.replace(known.shard, shard.key) if known and known.job else None
        units = tuple(sorted({unit.key for unit in shard.units}))
        yield HistoryLeg(
            shard=shard.key, job=job, plan_id=plan.id, planned=count_units(units), lost_units=units
        )


@dataclass(slots=True)
class _ProcessTimes:
    """Times of one process, added up over its lines."""

    first_start_s: float | None = None
    first_rss_bytes: int | None = None
    last_result_s: float | None = None
    units: set[str] = field(default_factory=set)  # with a result
    tests_s: float = 0.0  # with shared fixtures


def suite_overheads(record: Record) -> tuple[SuiteOverhead, ...]:
    """Return the time and memory of a process of each suite and variant without its units."""
    times = _times_by_process(record)
    ends = {line.process: line for line in record.process_ends}
    by_suite_key: dict[tuple[str, str], list[ProcessLine]] = defaultdict(list)
    for line in record.processes:
        by_suite_key[line.suite, line.variant].append(line)
    overheads = (
        _suite_overhead(suite_key, by_suite_key[suite_key], times, ends)
        for suite_key in sorted(by_suite_key)
    )
    return tuple(cost for cost in overheads if cost != SuiteOverhead(cost.suite, cost.variant))


def _times_by_process(record: Record) -> dict[int, _ProcessTimes]:
    by_process = {line.process: _ProcessTimes() for line in record.processes}
    for start in record.starts:
        times = by_process.get(start.process) if start.process is not None else None
        if times is not None and times.first_start_s is None:
            times.first_start_s = start.at_s
    for result in record.results:
        times = by_process.get(result.process) if result.process is not None else None
        if times is None:
            continue
        if times.first_rss_bytes is None:
            times.first_rss_bytes = result.rss_before_bytes or None  # 0 is not measured
        if result.at_s is not None and result.at_s > (times.last_result_s or 0.0):
            times.last_result_s = result.at_s
        times.units.add(result.unit)
        times.tests_s += (result.wall_s or 0.0) + (result.setup_s or 0.0)
    return by_process


def _suite_overhead(
    suite_key: tuple[str, str],
    processes: Sequence[ProcessLine],
    times_by_process: dict[int, _ProcessTimes],
    ends: dict[int, ProcessEndLine],
) -> SuiteOverhead:
    setups_s, teardowns_s, gaps_s = [], [], []
    for line in processes:
        times, end = times_by_process[line.process], ends.get(line.process)
        if line.at_s is None:
            continue
        if times.first_start_s is not None:
            setups_s.append(max(0.0, times.first_start_s - line.at_s))
        if end is None or end.at_s is None or end.ending != "completed" or not times.units:
            continue
        if times.last_result_s is not None:
            teardowns_s.append(max(0.0, end.at_s - times.last_result_s))
            if times.first_start_s is not None:
                sum_s = times.last_result_s - times.first_start_s - times.tests_s
                gaps_s.append(max(0.0, sum_s) / len(times.units))
        elif times.tests_s:
            # If no result has a time, the rest of the process counts as its teardown.
            started_s = line.at_s if times.first_start_s is None else times.first_start_s
            teardowns_s.append(max(0.0, end.at_s - started_s - times.tests_s))
    bases = (times_by_process[line.process].first_rss_bytes for line in processes)
    return SuiteOverhead(
        *suite_key,
        min((base for base in bases if base is not None), default=None),
        _median(setups_s),
        _median(teardowns_s),
        _median(gaps_s),
    )


def _median(numbers: Sequence[float]) -> float | None:
    return round(median(numbers), 6) if numbers else None


def leg_start_s(record: Record) -> float | None:
    """Return the time of a leg before its first process."""
    return min((line.at_s for line in record.processes if line.at_s is not None), default=None)


def leg_end_s(record: Record) -> float | None:
    """Return the time of a leg after its last process and its last request for units."""
    ends = [line.at_s for line in record.process_ends if line.at_s is not None]
    if record.end is None or record.end.at_s is None or not ends:
        return None
    ends += [
        line.at_s for line in record.events if line.kind == "claims_ended" and line.at_s is not None
    ]
    return max(0.0, round(record.end.at_s - max(ends), 6))
