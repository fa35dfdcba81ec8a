"""A run in columns, from its records or from the history: what a comparison is made of. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.compare.series import SeriesSummary, summarize_series
from ciguard.history.file import CODE_NAMES, History
from ciguard.history.metric_series import metric_key
from ciguard.history.runs import UNDATED, UNMERGED_EVENTS, HistoryLeg, HistoryRun
from ciguard.model import BAD_OUTCOMES, OUTCOMES, CaseKey, LogMetric, Record, Result, ShardLine
from ciguard.model.attempts import classify_result, final_results, severity
from ciguard.model.machine_use import NOT_MEASURED, MachineUse, machine_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from ciguard.history.metric_series import MetricKey
    from ciguard.model import Ending

    Codes = NDArray[np.uint8]
    Floats = NDArray[np.float64]
    Conditions = Mapping[str, tuple[str, ...]]

CODE: Final[Mapping[str, Mapping[str | None, int]]] = {
    name: {word or None: code for code, word in enumerate(words)}
    for name, words in CODE_NAMES.items()
}
FILTERED: Final = ("focus", "filter")
_GOOD: Final = [CODE["outcome"][outcome] for outcome in OUTCOMES if outcome not in BAD_OUTCOMES]


@dataclass(frozen=True, slots=True)
class RunLeg:
    """One leg of a run; `complete` says that it ended by itself and its record is whole."""

    shard: str = ""
    job: str | None = None
    ending: Ending = "unknown"
    complete: bool = False
    wall_s: float | None = None
    peak_bytes: int | None = None
    memory_bytes: int | None = None  # of the runner
    probe_s: float | None = None  # a fixed piece of CPU work: how fast the runner is
    pool: str = ""
    units: int | None = None  # planned, where the history says so
    is_filtered: bool = False  # by a focus or a filter, planned or not
    machine: MachineUse = NOT_MEASURED  # without the units that ran

    @property
    def name(self) -> str:
        """Return the name that users know."""
        return self.shard or self.job or ""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run's final results by case.

    Attributes:
        name: as it was asked for.
        legs: sorted by name.
        keys: sorted; all columns are of their length. NaN is not measured.
        outcome, ending, measured_by: positions in `history.file.CODE_NAMES`.
        leg: position in `legs`.
        in_history: the history has this very run.
        retained_bytes: what stayed resident after each; None where it is not needed.
        process: the number of the process that ran each, -1 not known.
        sha: the tested commit, `parents` are its parents; `head_sha` is what was proposed.
        flaky: went wrong in a try and right in the last one.
        messages: of bad results and expected failures, where they have one.
        printed: metrics that a log printed.
        series: how they, and resident memory, went within each process.
        metrics: numbers that programs gave; of a run of the history, past metrics have them.
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
    planned_shards: int | None = None  # None where no leg said how many there are
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
    messages: Mapping[CaseKey, str] = field(default_factory=dict)
    metrics: Mapping[MetricKey, tuple[float, ...]] = field(default_factory=dict)
    printed: tuple[LogMetric, ...] = ()
    series: tuple[SeriesSummary, ...] = ()
    conditions: Conditions = field(default_factory=dict)
    retained_bytes: Floats | None = None
    process: NDArray[np.int32] | None = None

    @property
    def complete(self) -> bool:
        """Say that every leg that is known ended by itself."""
        return bool(self.legs) and all(leg.complete for leg in self.legs)

    @property
    def is_pull_request(self) -> bool:
        """Say that the run tested what is to be merged, and so is no baseline of anything."""
        return self.event in UNMERGED_EVENTS

    def is_same_as(self, other: Run) -> bool:
        """Say that both are the same measurement: comparing them would tell nothing."""
        if self is other:
            return True
        ids = (self.run_id, self.run_attempt), (other.run_id, other.run_attempt)
        if None not in (self.run_id, other.run_id) and ids[0] != ids[1]:
            return False
        if np.isnan(self.wall_s).all() or self.keys != other.keys:
            return False  # without a time two runs may be alike and yet be two
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
    """The run without its values."""
    name, cases, in_history = (
        (f"run {run.run_id}", None, True)
        if isinstance(run, HistoryRun)
        else (run.name, len(run.keys), run.in_history)
    )
    return RunInfo(
        name=name,
        run_id=run.run_id,
        run_attempt=run.run_attempt,
        sha=run.sha,
        branch=run.branch,
        event=run.event,
        at=run.at,
        cases=cases,
        complete=run.complete,
        in_history=in_history,
        values=values,
    )


def index_in(run: Run | History, other: Run) -> NDArray[np.int64]:
    """Return the position of each case of a run, or of a history, in another; -1 if absent."""
    if run.keys == other.keys:  # as in most pull requests: told in a fifth of the time
        return np.arange(len(run.keys), dtype=np.int64)
    at = {key: position for position, key in enumerate(other.keys)}
    return np.fromiter((at.get(key, -1) for key in run.keys), np.int64, len(run.keys))


def from_history(history: History, position: int, name: str = "") -> Run:
    """A run as the history remembers it: only values that it still keeps."""
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
            *("outcome", "ending", "measured_by", "leg"),
            *("wall_s", "peak_delta_bytes", "retained_bytes"),
        )
    }
    return Run(
        name=name or f"run {run.run_id}",
        keys=tuple(history.keys[key] for key in keys),
        legs=tuple(map(leg_from_history, run.legs)),
        run_id=run.run_id,
        run_attempt=run.run_attempt,
        sha=run.sha,
        parents=run.parents,
        repository=run.repository,
        branch=run.branch,
        event=run.event,
        workflow=run.workflow,
        at=run.at,
        in_history=True,
        conditions=conditions_of(leg.conditions or {} for leg in run.legs),
        flaky=tuple(history.keys[keys[row]] for row in np.flatnonzero(was_retried & good).tolist()),
        **columns,
    )


def leg_from_history(leg: HistoryLeg) -> RunLeg:
    """Return a leg as the history knows it."""
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
        units=sum(one.units for one in leg.planned) if leg.planned is not None else None,
    )


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
    runs = {identity: _run(found, name) for identity, found in by_run.items()}

    def order(identity: tuple[int, int]) -> tuple[datetime, int, int]:
        # A leg that ran again can have begun after the first of the run: its place is that of both.
        return runs[identity[0], 1].at or UNDATED, *identity

    return tuple(runs[identity] for identity in sorted(runs, key=order))


def _measured(record: Record) -> set[tuple[CaseKey, float | None, float]]:
    """Return what tells one execution of a case from all others, its process aside."""
    return {(one.key, one.wall_s, one.at_s) for one in record.results if one.at_s is not None}


def _folder(record: Record) -> str:
    # Legs that know neither plan nor shard are told apart by where their record lies.
    return "" if record.identity.plan_id else record.source


def _final_results(
    records: Sequence[Record],
) -> tuple[dict[CaseKey, tuple[int, Result]], tuple[CaseKey, ...]]:
    """The final result of each case with the position of its leg, and which cases are flaky.

    Of several legs the worst counts, and a case is flaky only if that is good.
    """
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
    return results, tuple(sorted(flaky))


def _run(records: list[Record], name: str) -> Run:
    records.sort(key=lambda record: record.identity.shard or record.identity.job or "")
    results, flaky = _final_results(records)
    keys = sorted(results, key="\0".join)  # as tuples would sort, in half the time
    ordered = [results[key] for key in keys]
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
        at=min((one.started_at for one in records if one.started_at is not None), default=None),
        flaky=flaky,
        messages={
            key: result.message
            for key, (_, result) in zip(keys, ordered, strict=True)
            if result.message and (result.outcome in BAD_OUTCOMES or result.is_expected_failure)
        },
        metrics=metrics_of(records),
        printed=tuple(
            one for record in records for one in record.metrics if isinstance(one, LogMetric)
        ),
        series=summarize_series(records),
        conditions=conditions_of(record.identity.conditions for record in records),
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
            # Of tests side by side it is not known which one retained it.
            [None if (one.concurrent or 1) > 1 else one.retained_bytes for one in results],
            np.float64,
        ),
        "process": np.array(
            [-1 if one.process is None else one.process for one in results], np.int32
        ),
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
            one.kind == "execution" and one.reason in FILTERED for one in record.events
        ),
        wall_s=record.wall_s,
        peak_bytes=record.peak_bytes,
        memory_bytes=header.runner.memory_bytes,
        probe_s=header.runner.probe_s,
        pool=header.runner.pool,
        machine=machine_use(record.samples),
    )


def metrics_of(records: Iterable[Record]) -> Mapping[MetricKey, tuple[float, ...]]:
    """The values of a run's legs, in their order."""
    found: dict[MetricKey, list[float]] = defaultdict(list)
    for record in records:
        for one in record.metrics:
            found[metric_key(one)].append(one.value)
    return {key: tuple(values) for key, values in found.items()}


def conditions_of(legs: Iterable[Mapping[str, str]]) -> Conditions:
    """The values of each variable over the legs of a run, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for leg in legs:
        for name, value in leg.items():
            found[name].add(value)
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}
