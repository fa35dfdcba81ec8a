"""Records become a history of their own, ready to be joined to the one that is kept: their values,
what is remembered of each leg, and what options say of a run. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import compress, groupby, islice
from operator import attrgetter, ne
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from ciguard.codec.columns import LARGEST
from ciguard.codec.results.base import UNSPELLED, ExternalName
from ciguard.errors import InputError
from ciguard.history.file import (
    CODE_NAMES,
    MEASURES,
    SECONDS,
    History,
    empty,
    of_columns,
    unmeasured,
)
from ciguard.history.merge import merge, one_run
from ciguard.history.metric_series import series_of
from ciguard.history.runs import UNDATED, UNMERGED_EVENTS, HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import CaseKey, Record, Result, ShardLine, UnitKey, count_units
from ciguard.model.attempts import FinalResults, final_results
from ciguard.model.listings import with_listings
from ciguard.model.moved_blocks import find_moved_blocks, newest_by_shard, with_moved_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.codec.results.durations import Duration
    from ciguard.model import MetricLine, Plan, ProcessEndLine, ProcessLine, Shard

T = TypeVar("T")

MAX_S: Final = 1e9  # 31 years: a clock went wrong
MAX_TRIES: Final = 255
BOUNDS: Final = ("peak_lower_bytes", "peak_upper_bytes")
_CODE: Final = {
    name: {word or None: code for code, word in enumerate(words)}
    for name, words in CODE_NAMES.items()
}


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """Options of `history add`; what is None was not said."""

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
    """The recorded value, else the one said.

    Raises:
        InputError: both are there and differ.
    """
    if recorded and given is not None and recorded != given:
        raise InputError(
            f"the record says {recorded!r}, {option} says {given!r}",
            where=where,
            fix=f"leave {option} out, or name the record that was meant",
        )
    return recorded or given


def parse_time(text: str, where: str) -> datetime:
    """An RFC 3339 time as UTC; one without a zone is taken as UTC.

    Raises:
        InputError: it is none.
    """
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        fix = "write it as 2026-11-21T10:00:00Z"
        raise InputError(f"no time: {text!r:.60}", where=where, fix=fix) from None


def _commit(header: ShardLine, facts: RunMetadata, where: str) -> str | None:
    """The tested tree; --sha may also name the head that it was made of."""
    if facts.sha is not None and facts.sha in (header.tested_sha, header.head_sha):
        return header.tested_sha or header.head_sha
    return reconcile("--sha", header.tested_sha or header.head_sha, facts.sha, where)


def run_of(record: Record, facts: RunMetadata) -> HistoryRun:
    """The run that a record belongs to, without legs.

    Raises:
        InputError: nobody says which run it was, or the two sources say different things.
    """
    header, where = record.identity, record.source
    run_id = reconcile("--run-id", header.run_id, facts.run_id, where)
    if run_id is None:
        fix = "say which run it was: --run-id N (any number that no other run has)"
        raise InputError("no run id", where=where, fix=fix)
    # --at says when the run started, a record when its leg did: two facts, so no contradiction.
    started = parse_time(header.started_at, where) if header.started_at else None
    return HistoryRun(
        run_id=run_id,
        run_attempt=reconcile("--run-attempt", header.run_attempt, facts.run_attempt, where) or 1,
        at=facts.at or started or UNDATED,
        sha=_commit(header, facts, where),
        parents=header.tested_parents,
        branch=reconcile("--branch", header.branch, facts.branch, where),
        event=reconcile("--event", header.event, facts.event, where),
        repository=header.repository,
        workflow=header.workflow,
    )


def check_is_merged(event: str | None, subject: str, where: str) -> None:
    """Keep out what is only proposed: it would judge itself by the values that it adds.

    Args:
        event: of a run, as it says itself; or of the workflow run that is asking or that this one
            is about, as the platform says, for a job may say what it likes of the runs in it.
            None where it is not known.
        subject: the run.

    Raises:
        InputError: it is a pull request's or a merge group's.
    """
    if event in UNMERGED_EVENTS:
        what = f"{subject} is a run of {event}: what is only proposed enters no history"
        fix = "add runs of the base branch: if: github.event_name == 'push'"
        raise InputError(what, where=where, fix=fix)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One record with the run and the leg that it makes; a shard without a record has no finals.

    `metrics`: of a leg that ended by itself.
    """

    run: HistoryRun
    leg: HistoryLeg
    metrics: tuple[MetricLine, ...] = ()
    finals: FinalResults = FinalResults((), {})  # noqa: RUF009  # frozen


def _with_facts(record: Record, facts: RunMetadata) -> Record:
    """Results and starts of the suite and variant that were said, where they have none."""
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
    """A history of these records alone: any number of legs, attempts and runs.

    Args:
        records: at least a run id is known of each.
        facts: fill what a record lacks.
        plan: of the run, where it is known: then units that were planned in a leg that died, and
            shards that left no record at all, are known to be lost.
        keep: patterns of the names of metrics that become series.

    Raises:
        InputError: a run id is missing, two sources disagree, a record is of another plan, or a
            value is beyond measure; with both values, and where.
    """
    pieces = []
    found = _readable(tuple(records))
    plan = with_listings(plan, found).plan if plan is not None else None
    moved = _plans_with_moves(plan, found) if plan is not None else {}
    for record in found:
        _check_plan(record, plan)
        readable = _with_facts(record, facts)
        run = run_of(readable, facts)
        leg = leg_of(readable, run.run_attempt, moved.get(record.identity.run_id, plan))
        if record.header is None and record.partial_header is None:
            leg = replace(leg, suite=facts.suite or "", variant=facts.variant or "")
        finals = final_results(readable.results if record.was_executed else ())
        metrics = record.metrics if leg.complete else ()
        pieces.append(_Piece(replace(run, legs=(leg,)), leg, metrics, finals))
    if plan is not None:
        pieces.extend(_missing(pieces, plan, moved))
    return _merge_runs(pieces, keep)


def _plans_with_moves(plan: Plan, records: Iterable[Record]) -> Mapping[int | None, Plan]:
    """By run, the plan with each unit in the shard that was to run it in the end.

    What a leg took over is lost with that leg, and never with the one that gave it away.
    """
    if not plan.claims:
        return {}
    by_run: dict[int | None, list[Record]] = defaultdict(list)
    for record in records:
        by_run[record.identity.run_id].append(record)
    found = {}
    for run_id, of_run in by_run.items():
        newest = newest_by_shard(of_run)
        found[run_id] = with_moved_units(plan, find_moved_blocks(plan, newest), newest)
    return found


def _check_plan(record: Record, plan: Plan | None) -> None:
    """Another plan's shards would be taken for lost, and its units for never run."""
    header = record.header or record.partial_header
    # Neither of a leg that was killed at once: no contradiction.
    if plan is not None and header is not None and header.plan_id != plan.id:
        what = f"the record is of plan {header.plan_id or 'none'!r:.40}, not {plan.id}"
        fix = "name the plan that the record was made with, or leave --plan out"
        raise InputError(what, where=record.source, fix=fix)


def _readable(records: tuple[Record, ...]) -> Sequence[Record]:
    """Without files that are nobody's and have no line that can be read, unless all are such."""
    found = [
        one
        for one in records
        if one.header or one.partial_header or one.results or one.starts or one.processes
    ]
    return found or records


def _missing(
    pieces: Sequence[_Piece], plan: Plan, moved: Mapping[int | None, Plan]
) -> list[_Piece]:
    """Legs of shards that left nothing, in the run that the others belong to."""
    found: dict[int, list[_Piece]] = defaultdict(list)
    for piece in pieces:
        found[piece.run.run_id].append(piece)
    return [
        _Piece(replace(there[0].run, run_attempt=leg.run_attempt, legs=(leg,)), leg)
        for run_id, there in found.items()
        for leg in missing_legs(moved.get(run_id, plan), [piece.leg for piece in there])
    ]


def _merge_runs(pieces: Sequence[_Piece], keep: Sequence[str]) -> History:
    runs: dict[int, HistoryRun] = {}
    for piece in pieces:
        known = runs.get(piece.run.run_id)
        runs[piece.run.run_id] = one_run(known, piece.run) if known else piece.run
    history = empty()
    # A history of one run a time: joining sorts out legs and attempts, here as everywhere.
    ordered = sorted(pieces, key=lambda piece: (piece.run.run_id, piece.leg.run_attempt))
    for run_id, group in groupby(ordered, key=lambda piece: piece.run.run_id):
        history = merge(history, _of_run(runs[run_id], tuple(group), keep))
    return history


def _of_run(run: HistoryRun, pieces: Sequence[_Piece], keep: Sequence[str]) -> History:
    positions = {(leg.identity, leg.run_attempt): position for position, leg in enumerate(run.legs)}
    results: list[Result] = []
    legs: list[NDArray[np.int32]] = []
    lines: list[MetricLine] = []
    failed_attempts: dict[CaseKey, int] = {}
    for piece in pieces:
        position = positions.get((piece.leg.identity, piece.leg.run_attempt))
        if position is not None:  # else a later attempt of the leg is here as well
            results.extend(piece.finals.results)
            legs.append(np.full(len(piece.finals.results), position, np.int32))
            failed_attempts.update(piece.finals.failed_attempts)
            lines.extend(piece.metrics)
    series = series_of(lines, keep, run.run_id, run.run_attempt)
    if not results:
        return replace(empty(), runs=(run,), metrics=series)
    # Columns by `attrgetter` and `map`: of 100,000 results each costs 5 ms, and 30 ms in Python.
    case_keys = list(map(attrgetter("key"), results))
    columns: dict[str, NDArray[Any]] = {
        "leg": np.concatenate(legs),
        **{name: _codes(name, map(attrgetter(name), results), len(results)) for name in _CODE},
        "try_number": _try_numbers(case_keys, failed_attempts),
        **{name: _measure(name, _numbers(name, results), case_keys) for name in MEASURES},
    }
    spelled = map(ExternalName._make, map(attrgetter(*ExternalName._fields), results))
    spellings = {
        key: names for key, names in zip(case_keys, spelled, strict=True) if names != UNSPELLED
    }
    found = _one_run_history(run, case_keys, columns, spellings)
    return replace(found, metrics=series)


def _one_run_history(
    run: HistoryRun,
    case_keys: Sequence[CaseKey],
    columns: Mapping[str, NDArray[Any]],
    spellings: Mapping[CaseKey, ExternalName],
) -> History:
    keys, key = _sort_keys(case_keys)
    places = {"key": key, "run": np.zeros(len(key), np.int32)}
    return History(of_columns({**places, **columns}), (run,), keys, spellings)


def _sort_keys(case_keys: Sequence[CaseKey]) -> tuple[tuple[CaseKey, ...], NDArray[np.int32]]:
    """The sorted keys, each once, and where among them each of `case_keys` is."""
    # As one text a key sorts as a tuple does, in half the time, unless a name has the separator.
    texts: Sequence[Any] = list(map("\0".join, case_keys))
    if "".join(texts).count("\0") > 3 * len(texts):
        texts = case_keys
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ordered = [texts[at] for at in order]
    is_first = np.array([True, *map(ne, ordered, islice(ordered, 1, None))])
    key = np.empty(len(order), np.int32)
    key[order] = np.cumsum(is_first) - 1
    return tuple(case_keys[at] for at in compress(order, is_first)), key


def _codes(name: str, values: Iterable[str | None], count: int) -> NDArray[np.uint8]:
    return np.fromiter(map(_CODE[name].__getitem__, values), np.uint8, count)


def _try_numbers(
    keys: Sequence[CaseKey], failed_attempts: Mapping[CaseKey, int]
) -> NDArray[np.uint8]:
    if not failed_attempts:
        return np.ones(len(keys), np.uint8)
    return np.array([min(1 + failed_attempts.get(key, 0), MAX_TRIES) for key in keys], np.uint8)


def _numbers(name: str, results: Sequence[Result]) -> list[float | None]:
    """What the results say; bounds of a peak as bounds of the peak delta, where that is known."""
    numbers = list(map(attrgetter(name), results))
    if name not in BOUNDS or not _has_any(numbers):
        return numbers
    return [_bound(name, result) for result in results]


def _has_any(numbers: list[float | None]) -> bool:
    return numbers.count(None) < len(numbers)


def _bound(name: str, result: Result) -> float | None:
    size, before = getattr(result, name), result.rss_before_bytes
    shared = name == "peak_lower_bytes" and (result.concurrent or 1) > 1  # who needed it?
    return None if size is None or before is None or shared else max(0, size - before)


def _measure(
    name: str, numbers: list[float | None], keys: Sequence[CaseKey]
) -> NDArray[np.float64]:
    """A column, NaN for None."""
    if not _has_any(numbers):
        return unmeasured(len(numbers))
    column = np.array(numbers, np.float64)
    out_of_range = np.flatnonzero(np.abs(column) > (MAX_S if name in SECONDS else LARGEST))
    if out_of_range.size:
        key = keys[int(out_of_range[0])]
        what = f"{name} of {key.unit!r:.200} is {column[out_of_range[0]]:g}"
        raise InputError(what, where=f"suite {key.suite!r}", fix="fix the program that measured it")
    return column


def history_of_durations(
    durations: Iterable[Duration], source: str, facts: RunMetadata = NOTHING
) -> History:
    """A history of another program's durations: one leg, of which no outcomes are known.

    Raises:
        InputError: nobody said which run it was.
    """
    found = tuple(durations)
    suite_key = (facts.suite or "", facts.variant or "")
    run = run_of(Record(source, None), facts)
    leg = HistoryLeg("", None, *suite_key, run.run_attempt, ending="completed", complete=True)
    run = replace(run, legs=(leg,))
    if not found:
        return replace(empty(), runs=(run,))
    case_keys = [CaseKey(*suite_key, item.unit, item.unit) for item in found]
    unknown_codes = np.zeros(len(found), np.uint8)
    columns: dict[str, NDArray[Any]] = {
        "leg": np.zeros(len(found), np.int32),
        **dict.fromkeys(_CODE, unknown_codes),
        "try_number": unknown_codes + np.uint8(1),
        "wall_s": np.array([item.wall_s for item in found], np.float64),
    }
    spellings = {
        key: item.spelling for key, item in zip(case_keys, found, strict=True) if item.is_file_total
    }
    return merge(empty(), _one_run_history(run, case_keys, columns, spellings))


def _shard(plan: Plan | None, header: ShardLine) -> Shard | None:
    if plan is None or header.plan_id != plan.id:
        return None
    return next((shard for shard in plan.shards if shard.key == header.shard), None)


def _lost_units(record: Record, planned: set[UnitKey]) -> tuple[UnitKey, ...]:
    started = {UnitKey(line.suite, line.variant, line.unit) for line in record.starts}
    return tuple(sorted((planned | started) - {line.key.unit_key for line in record.results}))


def leg_of(record: Record, run_attempt: int, plan: Plan | None) -> HistoryLeg:
    """One record's leg; `plan`, where it is the record's own, tells what else was lost with it."""
    header = record.identity
    ending = record.end.ending if record.end is not None else "unknown"
    shard = _shard(plan, header)
    wanted: set[UnitKey] = {unit.key for unit in shard.units} if shard is not None else set()
    return HistoryLeg(
        shard=header.shard,
        job=header.job,
        run_attempt=run_attempt,
        ending=ending,
        complete=ending == "completed" and record.was_executed,
        runner=header.runner,
        wall_s=record.wall_s,
        start_s=start_s(record),
        end_s=end_s(record),
        peak_bytes=record.peak_bytes,
        process_peak_bytes=max((line.peak_bytes or 0 for line in record.process_ends), default=0)
        or None,
        plan_id=header.plan_id,
        planned=count_units(wanted) if shard is not None else None,
        overheads=suite_overheads(record),
        lost_units=() if ending == "completed" else _lost_units(record, wanted),
        conditions=dict(sorted(header.conditions.items())) or None,
    )


def missing_legs(plan: Plan, legs: Sequence[HistoryLeg]) -> Iterator[HistoryLeg]:
    """A leg for each shard of the plan that left no record, and owes one.

    A shard without a test, of a matrix that somebody wrote by hand, owes none. The legs are of the
    first attempt: whoever adds only what "re-run failed jobs" left must not take away the values of
    legs that had ended well before.
    """
    there = {leg.shard for leg in legs}
    known = next((leg for leg in legs if leg.job is not None and leg.shard), None)
    for shard in plan.shards:
        if shard.key in there or (shard.job and not shard.units):
            continue
        # A job's name is told by its record only; a matrix names them alike.
        job = known.job.replace(known.shard, shard.key) if known and known.job else None
        units = tuple(sorted({unit.key for unit in shard.units}))
        yield HistoryLeg(
            shard=shard.key,
            job=job,
            plan_id=plan.id,
            planned=count_units(units),
            lost_units=units,
        )


@dataclass(slots=True)
class _Observed:
    """What the lines of one process say; grows with them."""

    first_start_s: float | None = None
    first_rss_bytes: int | None = None
    last_result_s: float | None = None
    results: int = 0
    tests_s: float = 0.0  # with the fixtures that they share


def suite_overheads(record: Record) -> tuple[SuiteOverhead, ...]:
    """What a process of each suite and variant took beside its units."""
    seen = _observe_processes(record)
    ends = {line.process: line for line in record.process_ends}
    by_suite_key: dict[tuple[str, str], list[ProcessLine]] = {}
    for line in record.processes:
        by_suite_key.setdefault((line.suite, line.variant), []).append(line)
    found = []
    for suite_key in sorted(by_suite_key):
        cost = _suite_overhead(suite_key, by_suite_key[suite_key], seen, ends)
        if cost != SuiteOverhead(*suite_key):
            found.append(cost)
    return tuple(found)


def _observe_processes(record: Record) -> dict[int, _Observed]:
    found = {line.process: _Observed() for line in record.processes}
    for start in record.starts:
        of_start = found.get(start.process) if start.process is not None else None
        if of_start is not None and of_start.first_start_s is None:
            of_start.first_start_s = start.at_s
    for result in record.results:
        one = found.get(result.process) if result.process is not None else None
        if one is None:
            continue
        if one.first_rss_bytes is None:
            one.first_rss_bytes = result.rss_before_bytes or None  # 0: nobody had looked yet
        if result.at_s is not None and result.at_s > (one.last_result_s or 0.0):
            one.last_result_s = result.at_s
        one.results += 1
        one.tests_s += (result.wall_s or 0.0) + (result.setup_s or 0.0)
    return found


def _suite_overhead(
    suite_key: tuple[str, str],
    processes: Sequence[ProcessLine],
    observed: dict[int, _Observed],
    ends: dict[int, ProcessEndLine],
) -> SuiteOverhead:
    setups_s, teardowns_s, between_s = [], [], []
    for line in processes:
        one, end = observed[line.process], ends.get(line.process)
        if line.at_s is None:
            continue
        if one.first_start_s is not None:
            setups_s.append(max(0.0, one.first_start_s - line.at_s))
        if end is None or end.at_s is None or end.ending != "completed" or not one.results:
            continue
        if one.last_result_s is not None:
            teardowns_s.append(max(0.0, end.at_s - one.last_result_s))
            if one.first_start_s is not None:
                gaps_s = one.last_result_s - one.first_start_s - one.tests_s
                between_s.append(max(0.0, gaps_s) / one.results)
        elif one.tests_s:
            # No result has a moment: what is not their time is taken to be behind them.
            started_s = line.at_s if one.first_start_s is None else one.first_start_s
            teardowns_s.append(max(0.0, end.at_s - started_s - one.tests_s))
    bases = (observed[line.process].first_rss_bytes for line in processes)
    return SuiteOverhead(
        *suite_key,
        min((base for base in bases if base is not None), default=None),
        _median(setups_s),
        _median(teardowns_s),
        _median(between_s),
    )


def _median(numbers: Sequence[float]) -> float | None:
    return round(median(numbers), 6) if numbers else None


def start_s(record: Record) -> float | None:
    """What the leg took before its first process."""
    return min((line.at_s for line in record.processes if line.at_s is not None), default=None)


def end_s(record: Record) -> float | None:
    """What it took behind its last one; the wait for a block that did not come is none of it."""
    ends = [line.at_s for line in record.process_ends if line.at_s is not None]
    if record.end is None or record.end.at_s is None or not ends:
        return None
    ends += [
        line.at_s for line in record.events if line.kind == "claims_ended" and line.at_s is not None
    ]
    return max(0.0, round(record.end.at_s - max(ends), 6))
