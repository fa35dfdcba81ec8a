"""The values every folder speaks, schema 1: what a record, a plan and a run are made of.

Standard library only, Python 3.8+: this file travels in the leg. `None` means not measured and is
never 0. Sizes are bytes, times are seconds, `at_s` counts from the leg's own start on a clock that
cannot be set back. Words follow GitHub's: run, run attempt, job, head SHA.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Mapping, NamedTuple, Union, get_args

SCHEMA: Final = 1

# Slots halve an object's size; 3.8 and 3.9, which only the leg sees, have no such option.
SLOTS: Final[dict[str, bool]] = {"slots": True} if sys.version_info >= (3, 10) else {}

Outcome = Literal["passed", "failed", "errored", "skipped", "died"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("passed", "failed", "errored", "skipped", "died")
BAD_OUTCOMES: Final[tuple[Outcome, ...]] = ("failed", "errored", "died")

# One vocabulary for how a case, a process and a shard end.
Ending = Literal[
    "completed",
    "timeout",
    "out_of_memory",
    "crash",
    "deadline",
    "memory_guard",
    "cancelled",
    "superseded",
    "lost_runner",
    "runner_shutdown",
    "disk_full",
    "setup_failed",
    "never_started",
    "unknown",
]
ENDINGS: Final[tuple[Ending, ...]] = get_args(Ending)

MeasuredBy = Literal["mark", "mark_untrimmed", "cgroup", "window", "sample"]
MEASURED_BY: Final[tuple[MeasuredBy, ...]] = get_args(MeasuredBy)


class UnitKey(NamedTuple):
    """What is planned and proved: unique over a repository's suites and variants."""

    suite: str
    variant: str
    unit: str


class CaseKey(NamedTuple):
    """What is reported and compared: a unit's case (for many frameworks the unit itself)."""

    suite: str
    variant: str
    unit: str
    case: str

    @property
    def unit_key(self) -> UnitKey:
        """The unit that this case belongs to."""
        return UnitKey(self.suite, self.variant, self.unit)


# --- The record: one class a line type; codec/record.py is its one reader and writer -------------


@dataclass(frozen=True, **SLOTS)
class Runner:
    """The machine a leg found itself on."""

    pool: str = ""
    label: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None
    cpu_model: str | None = None
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
    """A tested process was started; a decision of `run/policy.py` with its reason."""

    process: int
    units: int
    suite: str = ""
    variant: str = ""
    pid: int | None = None
    at_s: float | None = None
    predicted_peak_bytes: int | None = None
    reason: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class StartLine:
    """A unit begins. Written before its set-up, so that a death has a name.

    `assumed`: the leg's own word about a program that had one unit and says no starts.
    """

    unit: str
    suite: str = ""
    variant: str = ""
    process: int | None = None
    at_s: float | None = None
    assumed: bool | None = None


@dataclass(frozen=True, **SLOTS)
class Result:
    """A case ended: the record's `result` line, and what every reader of foreign files yields.

    `unit` and `outcome` suffice. `wall_s` leaves out `setup_s`, the set-up of fixtures that are
    shared with other units. `peak_delta_bytes` is the high-water mark during the case minus the
    resident memory at its start, `retained_bytes` what stayed resident afterwards (may be < 0).
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


@dataclass(frozen=True, **SLOTS)
class SampleLine:
    """Memory of the machine and of the tested process tree at one moment."""

    at_s: float
    tree_bytes: int | None = None
    headroom_bytes: int | None = None
    available_bytes: int | None = None
    swap_used_bytes: int | None = None
    process_bytes: Mapping[str, int] = field(default_factory=dict)  # by process number


@dataclass(frozen=True, **SLOTS)
class MetricLine:
    """A number that a log or a program gave, with the conditions that make it comparable."""

    name: str
    value: float
    unit: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None


@dataclass(frozen=True, **SLOTS)
class EventLine:
    """Something happened or was decided; `kind` names it, `detail` says it to a person.

    `seen` is on lines that are decisions: how many lines of each process's file the policy knew
    when it decided, so that a record can be replayed to the same decision.
    """

    kind: str
    at_s: float | None = None
    process: int | None = None
    suite: str = ""
    variant: str = ""
    unit: str | None = None
    detail: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class ProcessEndLine:
    """A tested process is gone."""

    process: int
    ending: Ending
    exit_code: int | None = None  # < 0: the signal that killed it
    at_s: float | None = None
    peak_bytes: int | None = None


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
    SampleLine,
    MetricLine,
    EventLine,
    ProcessEndLine,
    EndLine,
]


@dataclass(frozen=True, **SLOTS)
class Record:
    """What one leg wrote down in one attempt, joined over its files.

    `header` is None where no file said whose lines these are. `damage` names each place that could
    not be read ("process-001.jsonl:17: cut"); what stands before it is kept. `copies` names the
    files with its shard line where there are several: then the record arrived more than once.
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
    copies: tuple[str, ...] = ()

    @property
    def wall_s(self) -> float | None:
        """How long the leg lived; without an end, how long it is known to have lived at least."""
        if self.end is not None and self.end.at_s is not None:
            return self.end.at_s
        lines = (self.starts, self.results, self.samples, self.events, self.process_ends)
        moments = (line.at_s for found in lines for line in found)
        return max((at_s for at_s in moments if at_s is not None), default=None)

    @property
    def peak_bytes(self) -> int | None:
        """The most that anybody saw resident: samples of the tree, marks of processes and units.

        Samples miss what is brief, marks miss what runs beside: a lower bound of the leg's peak.
        """
        seen = [line.tree_bytes for line in self.samples]
        seen += [line.peak_bytes for line in self.process_ends]
        seen += [line.peak_bytes for line in self.results]
        return max((size for size in seen if size is not None), default=None)


# --- The plan: the contract of a run; codec/plan.py is its one reader and writer -----------------


@dataclass(frozen=True, **SLOTS)
class Variant:
    """One way a suite is run: what it adds to the suite's arguments and environment."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Suite:
    """Tests with one framework, working folder and arguments.

    `base_bytes`: resident memory of its process before the first unit, learned from records.
    `setup_s`: what a process costs before its first unit starts.
    """

    framework: str
    command: tuple[str, ...]
    cwd: str = "."
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    list_command: tuple[str, ...] = ()  # where the framework cannot list its units by itself
    base_bytes: int | None = None
    setup_s: float = 0.0
    exclude: tuple[str, ...] = ()  # patterns of units that nobody is to run


@dataclass(frozen=True, **SLOTS)
class Pool:
    """Where legs run. `runs_on` is any JSON that GitHub takes there.

    Jobs are billed in whole minutes, and come in waves over `concurrency`; `setup_s` is a job's.
    """

    runs_on: Any
    cpus: int | None = None
    memory_bytes: int | None = None
    reserve_bytes: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    usd_per_minute: float | None = None
    concurrency: int | None = None
    setup_s: float | None = None


GuardRail = Literal["off", "observe", "auto", "enforce"]
GUARD_RAILS: Final[tuple[GuardRail, ...]] = get_args(GuardRail)


@dataclass(frozen=True, **SLOTS)
class LegPolicy:
    """All that a leg needs of the configuration. `deadline_s` counts from the step's start."""

    guard_rail: GuardRail = "auto"
    tries: int = 1
    deadline_s: float | None = None
    remainder: bool = False  # units that are newer than the plan run too, each in one shard


@dataclass(frozen=True, **SLOTS)
class PlannedUnit:
    """A unit in a shard with what is expected of it; `known` says that history has seen it."""

    unit: str
    suite: str = ""
    variant: str = ""
    wall_s: float = 0.0
    peak_delta_bytes: int | None = None
    retained_bytes: int | None = None
    timeout_s: float | None = None
    known: bool = True

    @property
    def key(self) -> UnitKey:
        """Where its results belong."""
        return UnitKey(self.suite, self.variant, self.unit)


@dataclass(frozen=True, **SLOTS)
class Prediction:
    """What the simulated policy says of a shard; `peak_bytes` is None without memory history."""

    wall_s: float
    wall_p95_s: float
    peak_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class Shard:
    """One leg of the matrix; `timeout_minutes` limits its step, `budget_bytes` its tests."""

    key: str
    pool: str
    units: tuple[PlannedUnit, ...]
    predicted: Prediction
    processes: int = 1
    timeout_minutes: int = 60
    budget_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class Exclusion:
    """A unit that exists and is not planned, and the rule that says so."""

    unit: str
    rule: str
    suite: str = ""
    variant: str = ""


@dataclass(frozen=True, **SLOTS)
class InventorySummary:
    """The units that exist, as the plan keeps them. `files` holds every matching file, 0 too."""

    collected: int
    files: Mapping[str, int]
    hash: str
    errors: tuple[str, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    base_collected: int | None = None


@dataclass(frozen=True, **SLOTS)
class Choice:
    """A number of shards: the run's wall time with set-up and waves, and its billed minutes."""

    shards: int
    wall_s: float
    minutes: int
    price_usd: float | None = None
    chosen: bool = False


@dataclass(frozen=True, **SLOTS)
class Moved:
    """A unit that the base's plan has in another shard."""

    unit: str
    before: str
    now: str
    suite: str = ""
    variant: str = ""


@dataclass(frozen=True, **SLOTS)
class Suspect:
    """A unit that was in `losses` shards of which one of their units killed the runner."""

    unit: str
    losses: int
    alone: bool  # away from all others, in shards of suspects; else they are spread
    suite: str = ""
    variant: str = ""


@dataclass(frozen=True, **SLOTS)
class Plan:
    """The contract of a run, frozen for it. `id` is a hash of everything else in the file.

    `gap` = makespan / `lower_bound_s` - 1, of predicted wall times; `floor` is the one unit that no
    number of shards can go below. `history` says what the estimates come from. `choices` are the
    numbers of shards around the chosen one, and `stopped_by` says why there are not more.
    """

    id: str
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    policy: LegPolicy
    shards: tuple[Shard, ...]
    lower_bound_s: float
    gap: float
    inventory: InventorySummary
    schema: int = SCHEMA
    floor: PlannedUnit | None = None
    history: Mapping[str, Any] = field(default_factory=dict)
    repository: str | None = None
    workflow: str | None = None
    head_sha: str | None = None
    base: str | None = None  # the plan or run whose shards were kept where they do
    choices: tuple[Choice, ...] = ()
    stopped_by: str = ""
    risk: float | None = None  # P(any shard passes the deadline), the suite and machines unchanged
    moved: tuple[Moved, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    warnings: tuple[str, ...] = ()
