"""Records -> runs: of each leg the newest attempt, of each case its final result. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from ciguard.compare.run_columns import CODE, Run, RunLeg
from ciguard.history.runs import UNDATED
from ciguard.model import BAD_OUTCOMES, CaseKey, Record, Result, ShardLine
from ciguard.model.attempts import classify_result, final_results, severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.compare.run_columns import MetricKey


def runs_from_records(records: Iterable[Record], name: str) -> tuple[Run, ...]:
    """The runs that records belong to, oldest first; none without records.

    Of a leg that ran in several attempts the newest belongs to the run; what the one before it
    measured makes a run of its own, as a second measurement of those legs: unless the newest went
    on from it, and so holds the same measurements.
    """
    by_leg: dict[tuple[int, str, str], list[tuple[int, Record]]] = defaultdict(list)
    for record in records:
        header = record.identity
        identity = (header.run_id or 0, header.job or "", header.shard or _folder(record))
        by_leg[identity].append((header.run_attempt or 0, record))
    by_run: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for (run_id, _, _), found in by_leg.items():
        found.sort(key=lambda pair: pair[0])
        by_run[run_id, 1].append(found[-1][1])
        if len(found) > 1 and not _measured(found[-1][1]) & _measured(found[-2][1]):
            by_run[run_id, 0].append(found[-2][1])
    runs = [(_run(found, name), order) for order, found in by_run.items()]
    runs.sort(key=lambda pair: (pair[0].at or UNDATED, pair[1]))
    return tuple(run for run, _ in runs)


def _measured(record: Record) -> set[tuple[CaseKey, float | None, float]]:
    """What tells one execution of a case from all others, whatever number its process has."""
    return {(one.key, one.wall_s, one.at_s) for one in record.results if one.at_s is not None}


def _folder(record: Record) -> str:
    # Legs that know neither plan nor shard are told apart by where their record lies.
    return "" if record.identity.plan_id else record.source


@dataclass(frozen=True, slots=True)
class _FinalResults:
    results: dict[CaseKey, tuple[int, Result]]  # with the position of their leg
    flaky: tuple[CaseKey, ...]


def _final_results(records: Sequence[Record]) -> _FinalResults:
    """The final result of each case; of several legs the worst, and flaky only if that is good."""
    results: dict[CaseKey, tuple[int, Result]] = {}
    failed_before: set[CaseKey] = set()
    for position, record in enumerate(records):
        finals = final_results(record.results)
        failed_before |= finals.failed_attempts.keys()
        for result in finals.results:
            key = result.key
            known = results.get(key)
            if known is None or severity(known[1]) < severity(result):
                results[key] = position, result
    flaky = (key for key in failed_before if classify_result(results[key][1]) == "good")
    return _FinalResults(results, tuple(sorted(flaky)))


def _run(records: list[Record], name: str) -> Run:
    records.sort(key=lambda record: _leg(record).name)
    finals = _final_results(records)
    keys = sorted(finals.results)
    ordered = [finals.results[key] for key in keys]
    header = next((record.header for record in records if record.header), ShardLine())
    attempts = [record.header.run_attempt or 0 for record in records if record.header]
    return Run(
        name=name,
        keys=tuple(keys),
        legs=tuple(map(_leg, records)),
        planned_shards=max((one.header.shards or 0 for one in records if one.header), default=0)
        or None,
        run_id=header.run_id,
        run_attempt=max(attempts, default=0) or None,
        sha=header.tested_sha or header.head_sha,
        head_sha=header.head_sha,
        parents=header.tested_parents,
        repository=header.repository,
        branch=header.branch,
        event=header.event,
        workflow=header.workflow,
        at=min((at for record in records if (at := _at(record)) is not None), default=None),
        flaky=finals.flaky,
        messages={
            key: result.message
            for key, (_, result) in zip(keys, ordered, strict=True)
            if result.message and result.outcome in BAD_OUTCOMES
        },
        metrics=metrics_of(records),
        **_columns(ordered),
    )


def _columns(ordered: Sequence[tuple[int, Result]]) -> dict[str, Any]:
    results = [result for _, result in ordered]
    return {
        "outcome": np.array([CODE["outcome"][one.outcome] for one in results], np.uint8),
        "ending": np.array([CODE["ending"][one.ending] for one in results], np.uint8),
        "measured_by": np.array(
            [CODE["measured_by"][one.measured_by] for one in results], np.uint8
        ),
        "leg": np.array([position for position, _ in ordered], np.int32),
        "wall_s": np.array([one.wall_s for one in results], np.float64),
        "peak_delta_bytes": np.array([one.peak_delta_bytes for one in results], np.float64),
        "retained_bytes": np.array(
            # Of what runs side by side nobody knows who retained it.
            [None if (one.concurrent or 1) > 1 else one.retained_bytes for one in results],
            np.float64,
        ),
        "process": np.array(
            [-1 if one.process is None else one.process for one in results], np.int32
        ),
    }


def _at(record: Record) -> datetime | None:
    text = record.header.started_at if record.header is not None else None
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _leg(record: Record) -> RunLeg:
    header = record.identity
    end = record.end
    return RunLeg(
        shard=header.shard,
        job=header.job,
        ending=end.ending if end is not None else "unknown",
        complete=end is not None and end.ending == "completed" and not record.damage,
        wall_s=record.wall_s,
        peak_bytes=record.peak_bytes,
        memory_bytes=header.runner.memory_bytes,
        probe_s=header.runner.probe_s,
        pool=header.runner.pool,
    )


def metrics_of(records: Iterable[Record]) -> Mapping[MetricKey, tuple[float, ...]]:
    """The values of a run's legs, in their order."""
    found: dict[MetricKey, list[float]] = defaultdict(list)
    for record in records:
        for one in record.metrics:
            found[one.name, one.unit, tuple(sorted(one.key.items()))].append(one.value)
    return {key: tuple(values) for key, values in found.items()}
