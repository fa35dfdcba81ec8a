"""The record, one class a line type; codec/record/lines.py is its one reader and its one writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain
from typing import Final, Iterator, Mapping, Union

from ciguard.model.types import (
    BAD_OUTCOMES,
    CONCLUSIVE_ENDINGS,
    MEMORY_ENDINGS,
    SCHEMA,
    SLOTS,
    CaseKey,
    Ending,
    EventKind,
    MeasuredBy,
    Outcome,
)

TIME_UNITS: Final = ("s", "ms", "us", "µs", "ns", "min", "h")  # of metrics


@dataclass(frozen=True, **SLOTS)
class Runner:
    """The machine a leg found itself on."""

    pool: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None
    probe_s: float | None = None  # time of a fixed piece of CPU work: the runner's speed


@dataclass(frozen=True, **SLOTS)
class ShardLine:
    """First line of a leg's record, and its identity: never a folder's or an artifact's name."""

    plan_id: str = ""
    shard: str = ""
    schema: int = SCHEMA
    shards: int | None = None  # of the plan: every leg knows how many there are, and no one itself
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
    script: str | None = None  # of the job's own step, where that ran the tests
    conditions: Mapping[str, str] = field(default_factory=dict)  # variables the plan asks for


@dataclass(frozen=True, **SLOTS)
class DefaultsLine:
    """First line of a process's own file: what its later lines need not repeat.

    A program that appends its results by itself then has to know nothing but the unit.
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
    """A tested process was started; a decision of `run/policy/rules.py` with its reason.

    `reason` is a `ReasonKind` of `run/policy/actions.py`, and `facts` are its numbers.
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
    """A unit begins. Written before its set-up, so that a death has a name.

    `assumed`: the leg's own word about a program that had one unit and says no starts.
    `received`: the leg's own word of when it heard of a start whose program said no time.
    `rss_before_bytes`: of the process that runs it.
    `file`, `line`: where it stands, as in its result; a unit that dies has no other word of it.
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


@dataclass(frozen=True, **SLOTS)
class Result:
    """A case ended: the record's `result` line, and what every reader of foreign files yields.

    `unit` and `outcome` suffice. `wall_s` leaves out `setup_s`, the set-up of fixtures that are
    shared with other units. `peak_delta_bytes` is the high-water mark during the case minus the
    resident memory at its start, `retained_bytes` what stayed resident afterwards (may be < 0).
    `peak_lower_bytes` and `peak_upper_bytes` are what the peak is known to lie between, children of
    the process included; `measured_by` speaks of the other memory.
    `reruns` are executions in this very try that went wrong, and that a plugin of the framework
    answered with another one.
    """

    unit: str
    outcome: Outcome
    suite: str = ""
    variant: str = ""
    case: str = ""  # "" until read or made: then the unit itself
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
    measured_by: MeasuredBy | None = None
    concurrent: int | None = None
    try_number: int = 1  # "try" in the file; a word Python keeps for itself
    reruns: int | None = None
    process: int | None = None
    message: str | None = None
    classname: str | None = None  # these two: as foreign files spell the unit
    name: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def key(self) -> CaseKey:
        """Where this result belongs."""
        return CaseKey(self.suite, self.variant, self.unit, self.case or self.unit)

    @property
    def is_failure(self) -> bool:
        """Say that the case is to blame; what somebody else stopped has not gone wrong."""
        if self.outcome in ("failed", "errored"):
            return True  # even if its process was stopped after it
        return self.ending in CONCLUSIVE_ENDINGS and (
            self.outcome in BAD_OUTCOMES or self.ending != "completed"
        )

    @property
    def is_expected_failure(self) -> bool:
        """Say that it ran and failed as its mark says: the framework reports it as skipped."""
        is_xfail = self.outcome == "skipped" and (self.message or "").startswith("xfail:")
        return is_xfail and "[NOTRUN]" not in (self.message or "")

    @property
    def ran_out_of_memory(self) -> bool:
        """Say that memory ran out under it.

        If it goes right in a later try it is no flaky test: beside less it passes, and always did.
        """
        return self.is_failure and self.ending in MEMORY_ENDINGS


@dataclass(frozen=True, **SLOTS)
class PeakLine:
    """What the leg knows of the memory of a result that came without: the next one of that case.

    The result is the program's own line, and this one is the leg's; the reader joins them.
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
    """Memory of the machine and of the tested process tree at one moment.

    Attributes:
        stalled_s, fully_stalled_s: how long some, or all, programs of the machine have waited for
            memory since the leg's start (pressure stall information).
        gpu_bytes: of the tree, by GPU.
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


@dataclass(frozen=True, **SLOTS)
class MetricLine:
    """A number that a program gave, with the conditions that make it comparable."""

    name: str
    value: float
    unit: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    process: int | None = None


@dataclass(frozen=True, **SLOTS)
class LogMetric(MetricLine):
    """A number that a process printed, in no line of the record.

    Attributes:
        source: the log's path; `line` counts in it.
        resolution: the last digit that was printed, in the value's unit.
        printed: how the log rounds a value of the key for people, by name.
    """

    source: str = ""
    resolution: float = 0.0
    printed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class EventLine:
    """Something happened or was decided; `kind` names it, `detail` is for a person to read.

    Lines that are decisions have `lines_read`, how many lines of each process's file the policy
    knew when it decided, so that a record can be replayed to the same decision; `reason` and
    `facts` as in `ProcessLine`. `block` is the name of units that move between legs; `shard` is the
    one whose leg has it.
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


@dataclass(frozen=True, **SLOTS)
class ProcessEndLine:
    """A tested process is gone; `peak_bytes` is the most that was measured of it."""

    process: int
    ending: Ending
    exit_code: int | None = None  # < 0: the signal that killed it
    at_s: float | None = None
    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None


@dataclass(frozen=True, **SLOTS)
class EndLine:
    """Last line of a leg that ended by itself; a record without it was cut."""

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
    """What one leg wrote down in one attempt, joined over its files.

    `header` is None where no file said whose lines these are, or the one that does is lost; then
    `partial_header` holds as much of it as the leg's other files say. `damage` names each place
    that could not be read ("process-001.jsonl:17: cut"); what stands before it is kept.
    `empty_files` are files without a byte, which are damage too. `copies` names the files with its
    shard line where there are several: then the record arrived more than once.
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

    @property
    def identity(self) -> ShardLine:
        """Whose it is, as far as anything says it."""
        return self.header or self.partial_header or ShardLine()

    @property
    def was_executed(self) -> bool:
        """False where a process reported that it executes no test body, as in a dry run."""
        settings = (event.reason for event in self.events if event.kind == "execution")
        return "not_executed" not in settings

    @property
    def started_at(self) -> datetime | None:
        """In UTC, by the clock of the runner; None where it is not known, or is no time."""
        try:
            found = datetime.fromisoformat((self.identity.started_at or "").replace("Z", "+00:00"))
            # A time without a zone is taken as UTC.
            zoned = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
            return zoned.astimezone(timezone.utc)
        except (ValueError, OverflowError):
            return None

    @property
    def wall_s(self) -> float | None:
        """How long the leg lived; without an end, how long it is known to have lived at least."""
        if self.end is not None and self.end.at_s is not None:
            return self.end.at_s
        lines = (self.starts, self.results, self.samples, self.events, self.process_ends)
        moments = (line.at_s for found in lines for line in found)
        return max((at_s for at_s in moments if at_s is not None), default=None)

    @property
    def peak_measured_by(self) -> MeasuredBy | None:
        """How `peak_bytes` was seen; None where an older record does not say."""
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
        """The most that anybody saw resident: samples of the tree, marks of processes and units.

        Samples miss what is brief, marks miss other processes: a lower bound of the leg's peak.
        No program has 0 bytes: a sample that says so was taken before it began, or after its end.
        """
        seen = [line.tree_bytes for line in self.samples]
        seen += [line.peak_bytes for line in self.process_ends]
        seen += [line.peak_bytes for line in self.results]
        return max(filter(None, seen), default=None)
