"""A run in columns, a row for each case, from its records or from the history. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.compare.series import SeriesSummary, summarize_series
from ciguard.compare.whose import ONE_TRY, Tries
from ciguard.history.file import BOUNDS, CODE, History, numbers_of, unmeasured
from ciguard.history.metric_series import MetricKey, metric_key
from ciguard.history.runs import UNDATED, UNMERGED_EVENTS, HistoryLeg, HistoryRun
from ciguard.logs.process_logs import LogMetric
from ciguard.model import (
    BAD_OUTCOMES,
    OUTCOMES,
    CaseKey,
    Ending,
    Record,
    Result,
    ShardLine,
    UnitKey,
)
from ciguard.model.attempts import classify_result, final_results, severity
from ciguard.model.machine_use import NOT_MEASURED, MachineUse, MemoryMoment, machine_use
from ciguard.model.probes import Probe, probes_of
from ciguard.model.standing import standing_of
from ciguard.text import unit_name

Codes = NDArray[np.uint8]
Conditions = Mapping[str, tuple[str, ...]]

# Of a run, as a history has them.
RUN_FACTS: Final = (
    *("run_id", "run_attempt", "sha", "parents", "repository", "branch", "event", "workflow", "at"),
)
FILTERED: Final = ("focus", "filter", "filter_in_tests")
_GOOD: Final = [CODE["outcome"][outcome] for outcome in OUTCOMES if outcome not in BAD_OUTCOMES]


@dataclass(frozen=True, slots=True)
class RunLeg:
    """One leg of a run; `complete`: the leg ended by itself, and its record is undamaged."""

    shard: str = ""
    job: str | None = None
    ending: Ending = "unknown"
    complete: bool = False
    wall_s: float | None = None
    peak_bytes: int | None = None
    memory_bytes: int | None = None  # of the runner
    probe_s: float | None = None  # a fixed piece of CPU work: how fast the runner is
    pool: str = ""
    units: int | None = None  # planned, if the history has the number
    is_filtered: bool = False  # by a focus or a filter, planned or not
    machine: MachineUse = NOT_MEASURED  # without the units that ran

    @property
    def name(self) -> str:
        return self.shard or self.job or ""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run's final results by case.

    Attributes:
        name: the argument that named the run.
        legs: sorted by name.
        keys: sorted; all columns have their length. NaN is not measured.
        outcome, ending, measured_by, standing: positions in `history.file.CODE_NAMES`.
        leg: position in `legs`.
        in_history: the history has this run.
        retained_bytes: growth of resident memory over each case; None if it is not needed.
        peak_delta_bytes: as `with_children`.
        peak_lower_bytes, peak_upper_bytes: bounds of the peak delta, as in a history.
        process: number of the process of each case, -1 if unknown.
        sha, parents: the tested commit and its parents; `head_sha` is the proposed commit.
        flaky: cases that failed in a try and passed in the last one.
        tries: those of the cases that failed, if they were tried more than once.
        messages: those of bad results and expected failures.
        printed: metrics that a log printed.
        series: the values of these and of resident memory over time within each process.
        metrics: numbers that programs gave; empty for a run of the history.
        conditions: values of variables, see `condition_changes`.
    """

    name: str
    keys: tuple[CaseKey, ...]
    outcome: Codes
    ending: Codes
    measured_by: Codes
    leg: NDArray[np.int32]
    wall_s: Floats
    peak_delta_bytes: Floats
    legs: tuple[RunLeg, ...] = ()
    planned_shards: int | None = None  # None if no record has the number
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    head_sha: str | None = None
    parents: tuple[str, ...] = ()
    repository: str | None = None
    branch: str | None = None
    event: str | None = None
    workflow: str | None = None
    at: datetime | None = None
    in_history: bool = False
    flaky: tuple[CaseKey, ...] = ()
    tries: Mapping[CaseKey, Tries] = field(default_factory=dict)
    messages: Mapping[CaseKey, str] = field(default_factory=dict)
    metrics: Mapping[MetricKey, tuple[float, ...]] = field(default_factory=dict)
    printed: tuple[LogMetric, ...] = ()
    series: tuple[SeriesSummary, ...] = ()
    conditions: Conditions = field(default_factory=dict)
    retained_bytes: Floats | None = None
    peak_lower_bytes: Floats | None = None
    peak_upper_bytes: Floats | None = None
    gpu_peak_bytes: Floats | None = None
    at_s: Floats | None = None  # end of each case, since the start of its leg
    process: NDArray[np.int32] | None = None
    standing: Codes | None = None

    @property
    def complete(self) -> bool:
        """Return whether every known leg ended by itself."""
        return bool(self.legs) and all(leg.complete for leg in self.legs)

    @property
    def is_pull_request(self) -> bool:
        """Return whether the run tested a proposal, and so is no baseline run."""
        return self.event in UNMERGED_EVENTS

    @property
    def has_bounds(self) -> Flags:
        """Select the cases of whose peak delta only bounds are known."""
        lower, upper = map(self.measured, BOUNDS)
        bounded: Flags = ~(np.isnan(lower) & np.isnan(upper))
        return bounded & np.isnan(self.peak_delta_bytes)

    def measured(self, name: str) -> Floats:
        """Return a column of numbers; NaN if the run has none."""
        column: Floats | None = getattr(self, name)
        return unmeasured(len(self.keys)) if column is None else column

    def is_same_as(self, other: Run) -> bool:
        """Return whether both are the same measurement, which cannot be compared with itself."""
        if self is other:
            return True
        ids = (self.run_id, self.run_attempt), (other.run_id, other.run_attempt)
        if None not in (self.run_id, other.run_id) and ids[0] != ids[1]:
            return False
        if np.isnan(self.wall_s).all() or self.keys != other.keys:
            return False  # two runs without times may be equal
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            for name in ("outcome", "ending", "wall_s", "peak_delta_bytes")
        )


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Facts about a run; None if a fact is not known.

    Attributes:
        cases: number of cases of the run; None if only the history contains the run.
        values: number of cases for which the run provides a baseline value; None if it is not part
            of the baseline.
    """

    name: str
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    branch: str | None = None
    event: str | None = None
    at: datetime | None = None
    cases: int | None = None
    complete: bool = False
    in_history: bool = False
    values: int | None = None


def run_info(run: Run | HistoryRun, values: int | None = None) -> RunInfo:
    """Return the facts about a run, without its values."""
    names = ("run_id", "run_attempt", "sha", "branch", "event", "at", "complete")
    facts: dict[str, Any] = {name: getattr(run, name) for name in names}
    if isinstance(run, HistoryRun):
        return RunInfo(f"run {run.run_id}", in_history=True, values=values, **facts)
    cases, in_history = len(run.keys), run.in_history
    return RunInfo(run.name, cases=cases, in_history=in_history, values=values, **facts)


def with_children(peak_delta_bytes: Floats, peak_lower_bytes: Floats) -> Floats:
    """Return exact peak deltas, but no less than samples of the test with its child processes."""
    largest: Floats = np.fmax(peak_delta_bytes, peak_lower_bytes)
    return np.where(np.isnan(peak_delta_bytes), np.nan, largest)


def index_in(run: Run | History, other: Run) -> Integers:
    """Return the position of each case of a run, or of a history, in another; -1 if absent."""
    if run.keys == other.keys:  # as in most pull requests: takes a fifth of the time
        return np.arange(len(run.keys), dtype=np.int64)
    positions = {key: position for position, key in enumerate(other.keys)}
    return np.fromiter((positions.get(key, -1) for key in run.keys), np.int64, len(run.keys))


def from_history(history: History, position: int, name: str = "") -> Run:
    """Return a run of the history, with the values that the history still has."""
    run = history.runs[position]
    values = history.values
    rows = np.flatnonzero(values.run == position)
    keys = values.key[rows].tolist()
    was_retried = values.try_number[rows] > 1
    completed = values.ending[rows] == CODE["ending"]["completed"]
    good = completed & np.isin(values.outcome[rows], _GOOD)
    columns: dict[str, Any] = {
        column: getattr(values, column)[rows]
        for column in (
            *("outcome", "ending", "measured_by", "standing", "leg"),
            *("wall_s", "peak_delta_bytes", "retained_bytes", "gpu_peak_bytes", *BOUNDS),
        )
    }
    columns["peak_delta_bytes"] = with_children(
        columns["peak_delta_bytes"], columns["peak_lower_bytes"]
    )
    facts: dict[str, Any] = {fact: getattr(run, fact) for fact in RUN_FACTS}
    return Run(
        name=name or f"run {run.run_id}",
        keys=tuple(history.keys[key] for key in keys),
        legs=tuple(map(leg_from_history, run.legs)),
        in_history=True,
        conditions=conditions_of(leg.conditions or {} for leg in run.legs),
        flaky=tuple(history.keys[keys[row]] for row in np.flatnonzero(was_retried & good).tolist()),
        **facts,
        **columns,
    )


def leg_from_history(leg: HistoryLeg) -> RunLeg:
    growth = leg.swap_growth_bytes
    return RunLeg(
        shard=leg.shard,
        job=leg.job,
        ending=leg.ending,
        complete=leg.complete,
        wall_s=leg.wall_s,
        peak_bytes=leg.peak_bytes if leg.peak_bytes is not None else leg.process_peak_bytes,
        memory_bytes=leg.runner.memory_bytes,
        probe_s=leg.runner.probe_s,
        pool=leg.runner.pool,
        units=sum(planned.units for planned in leg.planned) if leg.planned is not None else None,
        machine=MachineUse(
            gpu_bytes=leg.gpu_bytes or {},
            swap_growth=None if growth is None else MemoryMoment(growth, 0.0),
        ),
    )


def runs_from_records(records: Iterable[Record], name: str) -> tuple[Run, ...]:
    """Return the runs of records, oldest first; none without records.

    If a leg ran in several attempts, the newest belongs to the run. The attempt before is a run of
    its own, a second measurement, unless the newest resumed it and so has the same measurements.
    """
    by_leg: dict[tuple[int, str, str], list[tuple[int, Record]]] = defaultdict(list)
    for record in records:
        header = record.identity
        # Records without plan and shard are distinguished by their path.
        folder = "" if header.plan_id else record.source
        identity = (header.run_id or 0, header.job or "", header.shard or folder)
        by_leg[identity].append((header.run_attempt or 0, record))
    by_run: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for (run_id, _, _), attempts in by_leg.items():
        attempts.sort(key=lambda pair: pair[0])
        newest = attempts[-1][1]
        by_run[run_id, 1].append(newest)
        if len(attempts) > 1 and not _executions(newest) & _executions(attempts[-2][1]):
            by_run[run_id, 0].append(attempts[-2][1])
    runs = {identity: _run(of_run, name) for identity, of_run in by_run.items()}

    def order(identity: tuple[int, int]) -> tuple[datetime, int, int]:
        # Both runs have the time of the newest: a repeated leg may start after others of the run.
        return runs[identity[0], 1].at or UNDATED, *identity

    return tuple(runs[identity] for identity in sorted(runs, key=order))


def _executions(record: Record) -> set[tuple[CaseKey, float | None, float]]:
    """Return the identities of the executions of cases, by key, wall time and end."""
    return {(line.key, line.wall_s, line.at_s) for line in record.results if line.at_s is not None}


def _final_results(
    records: Sequence[Record],
) -> tuple[dict[CaseKey, tuple[int, Result]], Mapping[CaseKey, int]]:
    """Return the final result of each case with the position of its leg, and its failed tries.

    The worst result of several legs counts; the tries are those before the last one.
    """
    results: dict[CaseKey, tuple[int, Result]] = {}
    failed_before: Counter[CaseKey] = Counter()
    for position, record in enumerate(records):
        finals = final_results(record.results)
        failed_before.update(finals.failed_attempts)
        for result in finals.results:
            key = result.key
            known = results.get(key)
            if known is None or severity(known[1]) < severity(result):
                results[key] = position, result
    return results, failed_before


def _run(records: list[Record], name: str) -> Run:
    records.sort(key=lambda record: record.identity.shard or record.identity.job or "")
    results, failed_before = _final_results(records)
    flaky = {key for key in failed_before if classify_result(results[key][1]) == "good"}
    keys = sorted(results, key="\0".join)  # as tuples would sort, in half the time
    ordered = [results[key] for key in keys]
    standings = list(map(standing_of, records))
    header = next((record.header for record in records if record.header), ShardLine())
    attempts = [record.header.run_attempt or 0 for record in records if record.header]
    shards = [record.header.shards or 0 for record in records if record.header]
    return Run(
        name=name,
        keys=tuple(keys),
        legs=tuple(map(_leg, records)),
        planned_shards=max(shards, default=0) or None,
        run_id=header.run_id,
        run_attempt=max(attempts, default=0) or None,
        sha=header.tested_sha or header.head_sha,
        head_sha=header.head_sha,
        parents=header.tested_parents,
        repository=header.repository,
        branch=header.branch,
        event=header.event,
        workflow=header.workflow,
        at=min((record.started_at for record in records if record.started_at), default=None),
        flaky=tuple(sorted(flaky)),
        tries=_tries(
            records, {key: failed_before[key] for key in keys if results[key][1].is_failure}
        ),
        messages={
            key: result.message
            for key, (_, result) in zip(keys, ordered, strict=True)
            if result.message and (result.outcome in BAD_OUTCOMES or result.is_expected_failure)
        },
        metrics=metrics_of(records),
        printed=tuple(
            metric
            for record in records
            for metric in record.metrics
            if isinstance(metric, LogMetric)
        ),
        series=summarize_series(records),
        conditions=conditions_of(record.identity.conditions for record in records),
        standing=np.fromiter(
            (CODE["standing"][standings[leg](result)] for leg, result in ordered), np.uint8
        ),
        **_columns(ordered),
    )


def _tries(
    records: Sequence[Record], failed_before: Mapping[CaseKey, int]
) -> Mapping[CaseKey, Tries]:
    """Return the tries of the failed cases that were tried more than once.

    Args:
        failed_before: of each failed case, the failed tries before its last retry.
    """
    probes: dict[UnitKey, Sequence[Probe]] = {}
    first: set[UnitKey] = set()  # of their processes
    for record in records:
        probes |= probes_of(record)
        first |= set({line.process: line.unit_key for line in reversed(record.starts)}.values())
    tries = {}
    for key, failed in failed_before.items():
        ended = [(probe, probe.failed(key)) for probe in probes.get(key.unit_key, ())]
        known = [has_failed for _, has_failed in ended if has_failed is not None]
        alone = next((has_failed for probe, has_failed in ended if probe.kind == "alone"), None)
        after = [probe.predecessor for probe, has_failed in ended if has_failed]
        tries[key] = Tries(
            failed=1 + failed + known.count(True),
            passed=known.count(False),
            alone=None if alone is None else "failed" if alone else "passed",
            is_in_order=key.unit_key in first
            or any(probe.kind != "alone" and has_failed is not None for probe, has_failed in ended),
            after=next((unit_name(unit) for unit in after if unit is not None), ""),
        )
    return {key: of_case for key, of_case in tries.items() if of_case != ONE_TRY}


def _columns(ordered: Sequence[tuple[int, Result]]) -> dict[str, Any]:
    results = [result for _, result in ordered]
    processes = [-1 if result.process is None else result.process for result in results]
    # It is not known which of several concurrent tests retained the memory.
    retained = [
        None if (result.concurrent or 1) > 1 else result.retained_bytes for result in results
    ]
    numbers = {
        name: np.array(numbers_of(name, results), np.float64)
        for name in ("at_s", "wall_s", "peak_delta_bytes", "gpu_peak_bytes", *BOUNDS)
    }
    peaks = with_children(numbers["peak_delta_bytes"], numbers["peak_lower_bytes"])
    return {
        **{
            name: np.array([CODE[name][getattr(result, name)] for result in results], np.uint8)
            for name in ("outcome", "ending", "measured_by")
        },
        "leg": np.array([position for position, _ in ordered], np.int32),
        **numbers | {"peak_delta_bytes": peaks},
        "retained_bytes": np.array(retained, np.float64),
        "process": np.array(processes, np.int32),
    }


def _leg(record: Record) -> RunLeg:
    header = record.identity
    end = record.end
    return RunLeg(
        shard=header.shard,
        job=header.job,
        ending=end.ending if end is not None else "unknown",
        complete=end is not None
        and end.ending == "completed"
        and not record.damage
        and record.was_executed,
        is_filtered=any(
            event.kind == "execution" and event.reason in FILTERED for event in record.events
        ),
        wall_s=record.wall_s,
        peak_bytes=record.peak_bytes,
        memory_bytes=header.runner.memory_bytes,
        probe_s=header.runner.probe_s,
        pool=header.runner.pool,
        machine=machine_use(record.samples),
    )


def metrics_of(records: Iterable[Record]) -> Mapping[MetricKey, tuple[float, ...]]:
    """Return the values of each metric over the legs of a run, in their order."""
    by_key: dict[MetricKey, list[float]] = defaultdict(list)
    for record in records:
        for metric in record.metrics:
            by_key[metric_key(metric)].append(metric.value)
    return {key: tuple(values) for key, values in by_key.items()}


def conditions_of(legs: Iterable[Mapping[str, str]]) -> Conditions:
    """Return the values of each variable over the legs of a run, sorted."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for leg in legs:
        for name, value in leg.items():
            by_name[name].add(value)
    return {name: tuple(sorted(values)) for name, values in sorted(by_name.items())}
