"""The record of a leg: one class for each type of line. codec/record/lines.py has the format."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain
from typing import AbstractSet, Final, Iterable, Iterator, Mapping, Union

from ciguard.model.types import (
    BAD_OUTCOMES,
    CONCLUSIVE_ENDINGS,
    DRILL_PREFIX,
    MEMORY_ENDINGS,
    SCHEMA,
    SLOTS,
    CaseKey,
    Ending,
    EventKind,
    MeasuredBy,
    Outcome,
    UnitKey,
)

TIME_UNITS: Final = ("s", "ms", "us", "µs", "ns", "min", "h")  # of metrics


@dataclass(frozen=True, **SLOTS)
class Runner:
    """The machine that a leg runs on."""

    pool: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None
    probe_s: float | None = None  # time of a fixed piece of CPU work: the runner's speed


@dataclass(frozen=True, **SLOTS)
class ShardLine:
    """First line of a leg's record: its identity, independent of names of folders and artifacts."""

    plan_id: str = ""
    shard: str = ""
    schema: int = SCHEMA
    shards: int | None = None  # number of shards in the plan
    repository: str | None = None
    workflow: str | None = None
    run_id: int | None = None
    run_attempt: int | None = None
    job: str | None = None
    event: str | None = None
    branch: str | None = None
    head_sha: str | None = None
    tested_sha: str | None = None
    tested_parents: tuple[str, ...] = ()
    started_at: str | None = None  # RFC 3339, UTC
    runner: Runner = Runner()
    script: str | None = None  # script of the step, if the job's own command ran the tests
    folder: str | None = None  # folder of all suites that collect coverage, in this job
    root: str | None = None  # path of this job's checkout, if coverage is collected
    conditions: Mapping[str, str] = field(default_factory=dict)  # variables that the plan names


@dataclass(frozen=True, **SLOTS)
class DefaultsLine:
    """First line of a process's own file: defaults of its later lines.

    With these defaults, a program that writes its results needs to know only the unit.
    """

    plan_id: str = ""
    shard: str = ""
    run_id: int | None = None
    run_attempt: int | None = None
    suite: str = ""
    variant: str = ""
    process: int | None = None


@dataclass(frozen=True, **SLOTS)
class ProcessLine:
    """The start of a tested process: a decision of `run/policy/rules.py`.

    `reason`: a `ReasonKind` of `run/policy/actions.py`; `facts` are the numbers of the reason.
    """

    process: int
    units: int
    suite: str = ""
    variant: str = ""
    pid: int | None = None
    at_s: float | None = None
    predicted_peak_bytes: int | None = None
    lines_read: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class StartLine:
    """The start of a unit, written before its set-up, so that a death can be attributed.

    `assumed`: the leg wrote the line for a program that had one unit and reports no starts.
    `received`: `at_s` is the time at which the leg read a start without a time.
    `rss_before_bytes`: resident memory of the process that runs the unit.
    `file`, `line`: position of the unit, as in its result; needed for a unit that dies.
    """

    unit: str
    suite: str = ""
    variant: str = ""
    process: int | None = None
    at_s: float | None = None
    assumed: bool | None = None
    received: bool | None = None
    rss_before_bytes: int | None = None
    file: str | None = None
    line: int | None = None

    @property
    def unit_key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)


@dataclass(frozen=True, **SLOTS)
class Result:
    """The result of a case: a `result` line of a record, or one entry of a foreign result file.

    Only `unit` and `outcome` are required.

    Attributes:
        wall_s: without `setup_s`, the set-up of fixtures that are shared with other units.
        peak_delta_bytes: high-water mark during the case minus resident memory at its start.
        retained_bytes: resident memory after the case minus that at its start; may be < 0.
        peak_lower_bytes, peak_upper_bytes: bounds of the peak, with children of the process.
        gpu_peak_bytes: peak of the GPU allocator of the process during the case.
        measured_by: method by which the memory was measured, not counting the bounds.
        reruns: failed executions within this try that a plugin of the framework repeated.
        classname, name: spelling of the unit in a foreign file.
    """

    unit: str
    outcome: Outcome
    suite: str = ""
    variant: str = ""
    case: str = ""  # "" stands for the unit itself
    ending: Ending = "completed"
    at_s: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    setup_s: float | None = None
    rss_before_bytes: int | None = None
    peak_bytes: int | None = None
    peak_delta_bytes: int | None = None
    peak_lower_bytes: int | None = None
    peak_upper_bytes: int | None = None
    retained_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None
    concurrent: int | None = None
    try_number: int = 1  # the key in the file is "try", a keyword of Python
    reruns: int | None = None
    process: int | None = None
    message: str | None = None
    classname: str | None = None
    name: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def key(self) -> CaseKey:
        return CaseKey(self.suite, self.variant, self.unit, self.case or self.unit)

    @property
    def unit_key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)

    @property
    def is_failure(self) -> bool:
        """Return whether the case failed; a case that was stopped from outside did not fail."""
        if self.outcome in ("failed", "errored"):
            return True  # even if its process was stopped later
        return self.ending in CONCLUSIVE_ENDINGS and (
            self.outcome in BAD_OUTCOMES or self.ending != "completed"
        )

    @property
    def is_expected_failure(self) -> bool:
        """Return whether the case failed as its marker expects; frameworks report a skip."""
        is_xfail = self.outcome == "skipped" and (self.message or "").startswith("xfail:")
        return is_xfail and "[NOTRUN]" not in (self.message or "")

    @property
    def skip_reason(self) -> str | None:
        """Return the first line of the reason for a skip; None if the case was executed."""
        if self.outcome != "skipped" or self.is_expected_failure:
            return None
        return (self.message or "").partition("\n")[0].replace("Skipped: ", "", 1)

    @property
    def ran_out_of_memory(self) -> bool:
        """Return whether the case failed because it ran out of memory."""
        return self.is_failure and self.ending in MEMORY_ENDINGS


@dataclass(frozen=True, **SLOTS)
class PeakLine:
    """Memory that the leg measured for the next result of a case, whose program measured none.

    The program writes the result and the leg writes this line; the reader joins both.
    """

    unit: str
    suite: str = ""
    variant: str = ""
    case: str = ""
    process: int | None = None
    rss_before_bytes: int | None = None
    peak_lower_bytes: int | None = None
    peak_upper_bytes: int | None = None
    concurrent: int | None = None


@dataclass(frozen=True, **SLOTS)
class SampleLine:
    """A sample of the memory of the machine and of the tested process tree.

    Attributes:
        stalled_s, fully_stalled_s: time for which some, or all, programs of the machine waited for
            memory since the leg's start (pressure stall information).
        gpu_bytes: by GPU, largest memory of the tree since the last written sample.
        peak_processes: memory by the names of a process and its ancestors ("make/test.py"), at the
            largest moment since the last written sample at which a process had a new peak or had
            ended.
    """

    at_s: float
    tree_bytes: int | None = None
    headroom_bytes: int | None = None
    available_bytes: int | None = None
    swap_used_bytes: int | None = None
    process_bytes: Mapping[str, int] = field(default_factory=dict)  # by process number
    stalled_s: float | None = None
    fully_stalled_s: float | None = None
    gpu_bytes: Mapping[str, int] = field(default_factory=dict)
    peak_processes: Mapping[str, int] = field(default_factory=dict)


def largest_by_gpu(values: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the largest memory on each GPU, sorted by GPU."""
    largest: dict[str, int] = {}
    for value in values:
        for gpu, size_bytes in value.items():
            largest[gpu] = max(size_bytes, largest.get(gpu, 0))
    return dict(sorted(largest.items()))


@dataclass(frozen=True, **SLOTS)
class MetricLine:
    """A metric of a program, with the key that makes its values comparable."""

    name: str
    value: float
    unit: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    process: int | None = None


@dataclass(frozen=True, **SLOTS)
class EventLine:
    """An event or a decision of the leg; `detail` is text for people.

    `lines_read`: for a decision, the number of lines of each process's file that the policy had
        read, so that a replay of the record gives the same decision.
    `reason`, `facts`: as in `ProcessLine`.
    `block`: name of a block of units that moves between legs; `shard`: the shard that has it.
    """

    kind: EventKind
    at_s: float | None = None
    process: int | None = None
    suite: str = ""
    variant: str = ""
    unit: str | None = None
    detail: str = ""
    lines_read: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    block: str | None = None
    shard: str | None = None

    @property
    def unit_key(self) -> UnitKey:
        """The key of the event's unit; its `unit` is "" if the event has no unit."""
        return UnitKey(self.suite, self.variant, self.unit or "")


@dataclass(frozen=True, **SLOTS)
class ProcessEndLine:
    """The end of a tested process; `peak_bytes` is its largest measured memory.

    `cpu_s`: CPU time of the process, and of descendants whose end a parent in the tree collected.
    """

    process: int
    ending: Ending
    exit_code: int | None = None  # < 0: the signal that killed it
    at_s: float | None = None
    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None
    cpu_s: float | None = None


@dataclass(frozen=True, **SLOTS)
class EndLine:
    """Last line of a leg that ended by itself; a record without this line was cut."""

    ending: Ending
    at_s: float | None = None
    exit_code: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


Line = Union[
    ShardLine,
    DefaultsLine,
    ProcessLine,
    StartLine,
    Result,
    PeakLine,
    SampleLine,
    MetricLine,
    EventLine,
    ProcessEndLine,
    EndLine,
]


@dataclass(frozen=True, **SLOTS)
class Record:
    """The lines of one leg in one attempt, joined over its files.

    Attributes:
        header: the shard line; None if its file is lost.
        partial_header: if `header` is None, the facts of the shard line that other files contain.
        damage: each unreadable position ("process-001.jsonl:17: cut"); lines before it are kept.
        empty_files: files without a byte, which count as damage too.
        copies: the files with a shard line, if the record was uploaded more than once.
        first_units: by process, the units with which the process began; see `standing.py`.
        probes: lines of the extra tries after the leg's end, which no other field has; see
            `probes.py`.
    """

    source: str
    header: ShardLine | None
    processes: tuple[ProcessLine, ...] = ()
    starts: tuple[StartLine, ...] = ()
    results: tuple[Result, ...] = ()
    samples: tuple[SampleLine, ...] = ()
    metrics: tuple[MetricLine, ...] = ()
    events: tuple[EventLine, ...] = ()
    process_ends: tuple[ProcessEndLine, ...] = ()
    end: EndLine | None = None
    damage: tuple[str, ...] = ()
    empty_files: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    partial_header: ShardLine | None = None
    first_units: Mapping[int, AbstractSet[str]] = field(default_factory=dict)
    probes: tuple[Line, ...] = ()

    @property
    def identity(self) -> ShardLine:
        """Return the known facts of the leg's shard line."""
        return self.header or self.partial_header or ShardLine()

    @property
    def was_executed(self) -> bool:
        """Return False if a process reported that it executes no test body, as in a dry run."""
        settings = (event.reason for event in self.events if event.kind == "execution")
        return "not_executed" not in settings

    @property
    def is_resumed(self) -> bool:
        """Return whether the leg continues an earlier leg, whose times and files it contains."""
        return any(event.kind == "resumed" for event in self.events)

    @property
    def started_at(self) -> datetime | None:
        """Return the start in UTC, by the clock of the runner; None if unknown or malformed."""
        try:
            start = datetime.fromisoformat((self.identity.started_at or "").replace("Z", "+00:00"))
            # A time without a zone is taken as UTC.
            zoned = start if start.tzinfo is not None else start.replace(tzinfo=timezone.utc)
            return zoned.astimezone(timezone.utc)
        except (ValueError, OverflowError):
            return None

    @property
    def wall_s(self) -> float | None:
        """Return the wall time of the leg; without an end, its lower bound by the last line."""
        if self.end is not None and self.end.at_s is not None:
            return self.end.at_s
        lines = (self.starts, self.results, self.samples, self.events, self.process_ends)
        times_s = (line.at_s for lines_of_type in lines for line in lines_of_type)
        return max((at_s for at_s in times_s if at_s is not None), default=None)

    @property
    def peak_measured_by(self) -> MeasuredBy | None:
        """Return how `peak_bytes` was measured; None for an older record without this fact."""
        peak = self.peak_bytes
        if peak is None:
            return None
        lines: Iterator[Result | ProcessEndLine]
        lines = chain(reversed(self.process_ends), reversed(self.results))
        method = next((line.measured_by for line in lines if line.peak_bytes == peak), None)
        sampled = any(line.tree_bytes == peak for line in self.samples)
        return method or ("sample" if sampled else None)

    @property
    def peak_bytes(self) -> int | None:
        """Return the largest measured memory: a lower bound of the leg's peak.

        Samples of the process tree miss short peaks, and high-water marks of single processes miss
        other processes. A sample of 0 bytes was taken before the start or after the end.
        """
        sizes = [line.tree_bytes for line in self.samples]
        sizes += [line.peak_bytes for line in self.process_ends]
        sizes += [line.peak_bytes for line in self.results]
        return max(filter(None, sizes), default=None)


def drill_of(records: Iterable[Record]) -> str:
    """Return the plan id of a drill, if any of the records belongs to one; otherwise ""."""
    ids = (record.identity.plan_id for record in records)
    return next((plan_id for plan_id in ids if plan_id.startswith(DRILL_PREFIX)), "")


def newest_by_shard(records: Iterable[Record]) -> Mapping[str, Record]:
    ordered = sorted(records, key=lambda record: record.identity.run_attempt or 0)
    return {record.identity.shard: record for record in ordered}
