"""What the history remembers of a leg, read from its record. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ciguard.history.runs import HistoryLeg, SuiteOverhead
from ciguard.model import ShardLine, UnitKey, count_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import Plan, ProcessEndLine, ProcessLine, Record, Shard


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
