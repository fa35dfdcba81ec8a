"""The plan of a run: shards with their units and estimates, fixed before the run starts.

codec/plan_file.py reads and writes the plan's file. A leg is one execution of a shard by a job.

The last units of a shard may be divided into blocks. A leg that has run its units may claim a block
of another shard in its exchange group (`exchange_groups`), whose legs can run each other's units.
Legs send claims to the service, which gives each block to one leg.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Iterable, Iterator, Literal, Mapping, get_args

from ciguard.model.types import SCHEMA, SLOTS, DrillKind, UnitKey


@dataclass(frozen=True, **SLOTS)
class Variant:
    """One way to run a suite: additions to the suite's arguments and environment.

    `matrix`: values of one combination of a job's matrix; None if the plan is for no matrix.
    `pool`: the pool that runs the variant; "" for the suite's pool.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    matrix: Mapping[str, Any] | None = None
    pool: str = ""


@dataclass(frozen=True, **SLOTS)
class DeclaredPeak:
    """The configured peak delta of units; `units` is a pattern with the syntax of `exclude`."""

    units: str
    peak_delta_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class CoverageFiles:
    """The files in which a tool writes coverage: their format, and globs below `cwd`.

    `without`: patterns of variants that do not collect coverage.
    """

    format: str
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True, **SLOTS)
class Suite:
    """Tests with one framework, working folder and arguments.

    `base_bytes`: resident memory of a process before its first unit, measured in records.
    `setup_s`, `teardown_s`: time of a process before its first unit and after its last one.
    `timeout_s`: limit of units outside of the plan; each planned unit has a limit itself.
    `failed_exit_codes`: exit codes that mean failed tests, as "8" or "1-255"; 1 always is one.
    `closes_units`: the program reports the end of each unit (event `closed`); a unit without this
        event is unfinished, even if it has results.
    `parallel`: whether tests run side by side in a process; None: as the project configures it.
    `workers`: "tool" if ciguard must not reduce the number of concurrent tests for memory.
    `declared_peaks`: peaks of units outside of the plan; the first pattern that matches counts.
    `filters`: settings that select cases inside units, as the framework reported them when it
        listed the units; None if the framework did not list.
    `omitted`: number of tests that the framework left out of this list, by reason and file; 0 for a
        file that is skipped as a whole when it is imported.
    `untried`: properties of the suite's programs that ciguard was not tried with, by this list.
    `coverage`: None if the suite collects no coverage.
    """

    framework: str
    command: tuple[str, ...]
    cwd: str = "."
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    list_command: tuple[str, ...] = ()  # for a framework that cannot list units itself
    base_bytes: int | None = None
    setup_s: float = 0.0
    teardown_s: float = 0.0
    exclude: tuple[str, ...] = ()  # patterns of units that are never run
    results: tuple[str, ...] = ()  # globs of files with results, below `cwd`
    is_script: bool = False  # `command` takes no arguments: options enter by the environment
    timeout_s: float | None = None
    failed_exit_codes: tuple[str, ...] = ()
    closes_units: bool = False
    parallel: bool | None = None
    workers: str = "auto"
    declared_peaks: tuple[DeclaredPeak, ...] = ()
    filters: tuple[str, ...] | None = None
    omitted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    untried: tuple[str, ...] = ()
    coverage: CoverageFiles | None = None

    def means_failed_tests(self, exit_code: int) -> bool:
        """Return whether an exit code other than 1 means failed tests."""
        bounds = (text.partition("-") for text in self.failed_exit_codes)
        return any(int(first) <= exit_code <= int(last or first) for first, _, last in bounds)


@dataclass(frozen=True, **SLOTS)
class Pool:
    """A kind of runner.

    `runs_on`: any JSON that GitHub accepts for this key.
    `usd_per_minute`: price of a started minute.
    `concurrency`: number of jobs at once; further jobs wait.
    `setup_s`: time of a job before its tests.
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
SHUTDOWN_S: Final = 90.0  # a leg stops its processes and writes its record in this time
SHORT_LIMIT_S: Final = 180.0  # a step up to this limit keeps a fifth of it instead of 90 s
SHORT_RATIO: Final = 0.8


def deadline_within(limit_s: float) -> float:
    """Return the time after which a leg stops itself in a step with the limit `limit_s` > 0."""
    return max(SHORT_RATIO * min(limit_s, SHORT_LIMIT_S), limit_s - SHUTDOWN_S)


@dataclass(frozen=True, **SLOTS)
class LegPolicy:
    """The configuration that a leg needs.

    `deadline_s`: seconds from the start of the step.
    `lists`: each leg lists the existing units, as the planned ones are of another run or commit.
    `probe_s`: least time for extra tries of new failures; None for no extra tries.
    `repeat_until_s`: time of the leg until which new and changed tests are repeated; None: never.
    `repeat_unplanned`: number of units outside of the plan that a leg may repeat, if it lists.
    `repeat_files`: paths of files that may have such units; empty for any file.
    """

    guard_rail: GuardRail = "auto"
    max_tries: int = 1
    deadline_s: float | None = None
    lists: bool = False
    conditions: tuple[str, ...] = ()  # environment variables that the record contains
    probe_s: float | None = None
    repeat_until_s: float | None = None
    repeat_unplanned: int = 0
    repeat_files: tuple[str, ...] = ()


# Not frozen, but never changed: a million frozen objects take 0.7 s longer.
@dataclass(unsafe_hash=True, **SLOTS)
class PlannedUnit:
    """A unit in a shard.

    `has_history`: the estimates are measured values, not defaults.
    `fails_on_base`: the unit failed in the newest complete run of the base.
    `change`: "new" (not on the base) or "changed" by the pull request: the unit is repeated;
        otherwise "".
    """

    unit: str
    suite: str = ""
    variant: str = ""
    wall_s: float = 0.0
    peak_delta_bytes: int | None = None
    retained_bytes: int | None = None
    timeout_s: float | None = None
    has_history: bool = True
    fails_on_base: bool = False
    change: str = ""

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)


@dataclass(frozen=True, **SLOTS)
class Prediction:
    """Time and memory of a simulated shard; `peak_bytes` is None without memory history.

    `simulated_peak_bytes`: the peak before its correction by the measured peaks of past shards.
    """

    wall_s: float
    wall_p95_s: float
    peak_bytes: int | None = None
    simulated_peak_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class Block:
    """A number of units that another leg may claim together; `wall_s` is their predicted time."""

    units: int
    wall_s: float


@dataclass(frozen=True, **SLOTS)
class Shard:
    """The units of one job of the matrix.

    `timeout_minutes`: limit of the step with the tests; limit of the job, if `job` is set.
    `budget_bytes`: memory that the tests may use.
    `suite`, `variant`: set if the leg lists the units, which all have this suite and variant.
    `job`: name of the job as GitHub shows it, if the matrix is written by hand; otherwise "".
    `blocks`: the last units, divided in this order; other legs may claim them during the run.
    `serial`: a process runs one test at a time, because several do not fit into its memory.
    """

    key: str
    pool: str
    units: tuple[PlannedUnit, ...]
    predicted: Prediction
    processes: int = 1
    timeout_minutes: int = 60
    budget_bytes: int | None = None
    suite: str = ""
    variant: str = ""
    job: str = ""
    blocks: tuple[Block, ...] = ()
    serial: bool = False

    @property
    def own_count(self) -> int:
        """Return the number of units before the first block, which no other leg may claim."""
        return len(self.units) - sum(block.units for block in self.blocks)

    def units_by_block(self) -> Mapping[str, tuple[PlannedUnit, ...]]:
        """Return the units of each block by its name, such as "07.3" for the third of shard 07."""
        units, begin = {}, self.own_count
        for number, block in enumerate(self.blocks, 1):
            units[f"{self.key}.{number}"] = self.units[begin : begin + block.units]
            begin += block.units
        return units

    @property
    def suite_key(self) -> tuple[str, str]:
        """Return suite and variant of the first unit; a shard of a matrix has no others."""
        first = self.units[0] if self.units else self
        return first.suite, first.variant


def shard_of_block(name: str) -> str:
    """Return the shard of a block, whose name is the shard's key and a number."""
    return name.rpartition(".")[0]


@dataclass(frozen=True, **SLOTS)
class Exclusion:
    """A unit that exists but is not planned; `rule` is the configured rule that excludes it."""

    unit: str
    rule: str
    suite: str = ""
    variant: str = ""


# Why no shard of a matrix written by hand runs a test: the category filter of a shard excludes the
# test ("label"), or no shard requests it.
OrphanReason = Literal["label", "not_requested"]


@dataclass(frozen=True, **SLOTS)
class Orphan:
    """An existing unit in no shard, although no rule for all shards excludes the unit."""

    unit: str
    reason: OrphanReason
    suite: str = ""
    variant: str = ""

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)


def excluding_pattern(unit: str, patterns: Iterable[str]) -> str | None:
    """Return the first `fnmatch` pattern that matches an id or equals it; None for none."""
    matching = (text for text in patterns if unit == text or fnmatch.fnmatchcase(unit, text))
    return next(matching, None)


def exclusion_rule(suite: str, pattern: str) -> str:
    return f"suite.{suite}.exclude: {pattern}" if suite else f"exclude: {pattern}"


@dataclass(frozen=True, order=True, **SLOTS)
class UnitCount:
    """The number of planned units of a suite and variant."""

    units: int
    suite: str = ""
    variant: str = ""


def count_units(keys: Iterable[UnitKey]) -> tuple[UnitCount, ...]:
    """Count the units of each suite and variant, sorted by suite and variant."""
    counts = Counter(key[:2] for key in keys)
    return tuple(UnitCount(counts[suite_key], *suite_key) for suite_key in sorted(counts))


@dataclass(frozen=True, **SLOTS)
class InventorySummary:
    """Counts of the existing units.

    `collected`: number of existing units; each is planned, in `excluded` or in `orphans`.
    `files`: number of units of every test file, also 0.
    `base_units`: units in the plan of the base branch's run `base_source`; empty if unknown.
    `files_without_units`: existing files that have units only on the base.
    """

    collected: int
    files: Mapping[str, int]
    hash: str
    errors: tuple[str, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    base_units: tuple[UnitCount, ...] = ()
    base_source: str = ""
    files_without_units: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()


@dataclass(frozen=True, **SLOTS)
class ShardCountOption:
    """Time and price of a run with this number of shards.

    `wall_s`: wall time of the run, with the set-up of its jobs, and with their waits if
        `concurrency` allows fewer jobs than shards.
    `minutes`: billed minutes.
    """

    shards: int
    wall_s: float
    minutes: int
    price_usd: float | None = None
    chosen: bool = False


@dataclass(frozen=True, **SLOTS)
class CulpritCandidate:
    """A unit that may have killed a runner.

    `losses`: number of lost shards that contained the unit.
    `isolated`: the unit's shard contains only candidates; if false, candidates are distributed.
    """

    unit: str
    losses: int
    isolated: bool
    suite: str = ""
    variant: str = ""


# Ids of plans that are made after a run, of its result files or of these and a list of tests.
OF_RESULTS: Final = "results"
OF_LIST: Final = "list"


PlanNoteKind = Literal[
    # warnings
    "drill",
    "history_unusable",
    "history_missing",
    "history_unrelated",
    "fewer_shards",
    "target_missed_by_test",
    "target_missed",
    "deadline_exceeded",
    "risk_exceeded",
    "memory_exceeded",
    "gpu_memory_exceeded",
    "declared_memory_contradicted",
    "tests_in_several_shards",
    "empty_shards",
    "files_without_tests",
    "retries_without_effect",
    "untried",
    "changed_tests_unknown",
    "repeats_omitted",
    # reasons for the number of shards
    "requested",
    "target_met",
    "deadline_met",
    "longest_test",
    "group",
    "matrix",
    "indivisible",
    "concurrency",
    "no_gain",
    "no_timings",
]


@dataclass(frozen=True, **SLOTS)
class PlanNote:
    """A warning or a reason, as values; `plan/view.py` has the sentences.

    `facts`: names, numbers, lists of names, and numbers by name (shards, tests), as in JSON. The
        end of a key is the unit of its numbers: `_s`, `_bytes`, `_ratio`, or none.
    """

    kind: PlanNoteKind
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Plan:
    """The contract of a run. `id` is a hash of the rest of the file.

    Attributes:
        lower_bound_s: no plan with this number of shards takes less time.
        gap: makespan / `lower_bound_s` - 1, of predicted wall times.
        floor: the longest unit: no number of shards makes a run shorter than this unit.
        history: source of the estimates.
        alternatives: other numbers of shards.
        shard_count_limited_by: reasons why there are not more shards.
        risk: P(any shard exceeds the deadline), if suite and machines do not change.
        memory_risk: P(any shard needs more than its memory), likewise.
        job_minutes: limit of each job, above that of its step.
        claims: scheme, host and port of the service that legs ask for blocks; "" for none.
        drill: fault that the largest shard causes, or each shard if only legs list the units.
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
    alternatives: tuple[ShardCountOption, ...] = ()
    shard_count_limited_by: tuple[PlanNote, ...] = ()
    risk: float | None = None
    memory_risk: float | None = None
    culprit_candidates: tuple[CulpritCandidate, ...] = ()
    warnings: tuple[PlanNote, ...] = ()
    job_minutes: int | None = None
    claims: str = ""
    drill: DrillKind | None = None

    def combination(self, shard: Shard) -> Mapping[str, Any] | None:
        """Return the values of a shard in the job's matrix; None if the plan is for no matrix."""
        suite, name = shard.suite_key
        variant = self.suites[suite].variants.get(name)
        return variant.matrix if variant is not None else None

    @property
    def is_of_results(self) -> bool:
        """Return whether the plan was made after the run, of its result files."""
        return self.id in (OF_RESULTS, OF_LIST)

    @property
    def has_timings(self) -> bool:
        """Return whether any time was measured; otherwise all times are defaults. O(units)."""
        return any(unit.has_history for shard in self.shards for unit in shard.units)

    @property
    def omitted(self) -> Iterator[tuple[str, str, int]]:
        """Yield reason, file and number of the tests that the frameworks of the suites left out."""
        for suite in self.suites.values():
            for reason, files in suite.omitted.items():
                yield from ((reason, file, count) for file, count in files.items())

    def job_name(self, shard: Shard) -> str:
        """Return the name of a shard's job: `tests (03)`, with suite and pool if several exist."""
        if shard.job:
            return shard.job
        words = [shard.key]
        suites = {unit.suite for unit in shard.units}
        if len(self.suites) > 1 and len(suites) == 1:
            words += filter(None, suites)
        if len(self.pools) > 1:
            words.append(shard.pool)
        return f"tests ({', '.join(words)})"


def repository_path(suites: Mapping[str, Suite], suite: str, file: str | None) -> str:
    """Return a suite's file relative to the repository's root; "" for None, or for a file outside.

    Frameworks name files relative to the suite's folder, or to their own root above this folder.
    """
    given = posixpath.normpath((file or "").replace("\\", "/"))
    if not file or given.startswith("/") or given[1:2] == ":":
        return ""
    cwd = posixpath.normpath(suites[suite].cwd or ".") if suite in suites else "."
    path = given if given.startswith(f"{cwd}/") else posixpath.normpath(posixpath.join(cwd, given))
    return "" if path == "." or path.startswith("..") else path


def exchange_groups(plan: Plan) -> Mapping[str, str]:
    """Return the exchange group of each shard, named after the group's first shard; O(units).

    The shards of a group have the same pool, memory, concurrency, suites and variants, so that each
    leg can run the blocks of all.
    """
    name_of_group: dict[object, str] = {}
    group_of_shard = {}
    for shard in plan.shards:
        suite_keys = frozenset((unit.suite, unit.variant) for unit in shard.units)
        machine = (shard.pool, shard.budget_bytes, shard.processes, shard.serial)
        group_of_shard[shard.key] = name_of_group.setdefault((machine, suite_keys), shard.key)
    return group_of_shard


def claimable_blocks(plan: Plan, key: str) -> Mapping[str, tuple[PlannedUnit, ...]]:
    """Return by name the blocks of other shards that this shard's leg may claim; O(units)."""
    groups = exchange_groups(plan) if plan.claims else {}
    return {
        name: units
        for shard in plan.shards
        if shard.key != key and plan.claims and groups[shard.key] == groups[key]
        for name, units in shard.units_by_block().items()
    }
