"""What the history remembers of a leg, read from its record. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.history.leg_overheads import end_s, start_s, suite_overheads
from ciguard.history.runs import HistoryLeg
from ciguard.model import ShardLine, UnitKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ciguard.model import Plan, Record, Shard


def _max_known(numbers: Iterable[float | None]) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def _to_integer(number: float | None) -> int | None:
    return None if number is None else int(number)


def _max_concurrent(record: Record) -> int | None:
    """The largest number of tested processes that were alive at once."""
    ended = {line.process: line.at_s for line in record.process_ends}
    changes: list[tuple[float, int]] = []
    for line in record.processes:
        if line.at_s is None:
            return None
        changes.append((line.at_s, 1))
        ended_at = ended.get(line.process)
        if ended_at is not None:
            changes.append((ended_at, -1))
    alive = most = 0
    for _, change in sorted(changes):  # of two at one moment the end comes first
        alive += change
        most = max(most, alive)
    return most or None


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
        complete=ending == "completed",
        runner=header.runner,
        processes=_max_concurrent(record),
        wall_s=record.wall_s,
        start_s=start_s(record),
        end_s=end_s(record),
        peak_bytes=record.peak_bytes,
        process_peak_bytes=_to_integer(
            _max_known(line.peak_bytes or None for line in record.process_ends)
        ),
        units_planned=len(wanted) if shard is not None else None,
        overheads=suite_overheads(record),
        lost_units=() if ending == "completed" else _lost_units(record, wanted),
    )


def missing_legs(plan: Plan, legs: Sequence[HistoryLeg]) -> Iterator[HistoryLeg]:
    """A leg for each shard of the plan that left no record.

    Of the first attempt: whoever adds only what "re-run failed jobs" left must not take away the
    values of legs that had ended well before.
    """
    there = {leg.shard for leg in legs}
    known = next((leg for leg in legs if leg.job is not None and leg.shard), None)
    for shard in plan.shards:
        if shard.key in there:
            continue
        # A job's name is told by its record only; a matrix names them alike.
        job = known.job.replace(known.shard, shard.key) if known and known.job else None
        units = tuple(sorted({unit.key for unit in shard.units}))
        yield HistoryLeg(
            shard=shard.key,
            job=job,
            units_planned=len(units),
            lost_units=units,
        )
