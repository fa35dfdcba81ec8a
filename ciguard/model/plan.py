"""The plan, the contract of a run, frozen for it; codec/plan_file.py is its reader and its
writer.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Iterable, Iterator, Literal, Mapping, get_args

from ciguard.model.types import SCHEMA, SLOTS, UnitKey


@dataclass(frozen=True, **SLOTS)
class Variant:
    """One way a suite is run: what it adds to the suite's arguments and environment.

    `matrix`: the values of one combination of a job's matrix; None where the plan is for none.
    `pool`: where it runs; "" for the suite's.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    matrix: Mapping[str, Any] | None = None
    pool: str = ""


@dataclass(frozen=True, **SLOTS)
class DeclaredPeak:
    """The peak delta that the configuration declares for units of a pattern, as of `exclude`."""

    units: str
    peak_delta_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class Suite:
    """Tests with one framework, working folder and arguments.

    `base_bytes`: resident memory of its process before the first unit, learned from records.
    `setup_s`: what a process costs before its first unit starts.
    `teardown_s`: what it costs behind its last one.
    `timeout_s`: limit of a unit that the plan does not know; of the others each has its own.
    `failed_exit_codes`: of its command where tests failed, as "8" or "1-255"; 1 always is one.
    `closes_units`: its program says when each unit is over; one of which it does not is not over,
        whatever results it has.
    `declared_peaks`: of units that the plan does not know; the first pattern that matches.
    `filters`: settings that select cases inside its units, as its framework named them when it
        listed the units; None where it was not asked.
    `omitted`: tests that its framework left out of that list, by the reason that it gave and their
        file: how many are deselected; 0 for a file that is skipped while it is imported.
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
    teardown_s: float = 0.0
    exclude: tuple[str, ...] = ()  # patterns of units that nobody is to run
    results: tuple[str, ...] = ()  # globs of files with results, below `cwd`
    is_script: bool = False  # `command` takes no arguments: options enter by the environment
    timeout_s: float | None = None
    failed_exit_codes: tuple[str, ...] = ()
    closes_units: bool = False
    declared_peaks: tuple[DeclaredPeak, ...] = ()
    filters: tuple[str, ...] | None = None
    omitted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def means_failed_tests(self, exit_code: int) -> bool:
        """Return whether the command ends so, beside 1, where tests failed."""
        bounds = (text.partition("-") for text in self.failed_exit_codes)
        return any(int(first) <= exit_code <= int(last or first) for first, _, last in bounds)


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
SHUTDOWN_S: Final = 90.0  # what a leg needs to stop its processes and flush before its step ends
SHORT_LIMIT_S: Final = 180.0  # of so short a step 90 s would be half: there it is a fifth
SHORT_RATIO: Final = 0.8


def deadline_within(limit_s: float) -> float:
    """The time after which a leg stops itself, in a step that is stopped after `limit_s` > 0."""
    return max(SHORT_RATIO * min(limit_s, SHORT_LIMIT_S), limit_s - SHUTDOWN_S)


@dataclass(frozen=True, **SLOTS)
class LegPolicy:
    """All that a leg needs of the configuration. `deadline_s` counts from the step's start."""

    guard_rail: GuardRail = "auto"
    max_tries: int = 1
    deadline_s: float | None = None
    lists: bool = False  # the units are of a past run or commit: each leg lists what exists now
    conditions: tuple[str, ...] = ()  # environment variables that the record is to hold


# Not frozen, and never changed: a million frozen ones take 0.7 s longer to make.
@dataclass(unsafe_hash=True, **SLOTS)
class PlannedUnit:
    """A unit in a shard with what is expected of it; `has_history`: it was measured before."""

    unit: str
    suite: str = ""
    variant: str = ""
    wall_s: float = 0.0
    peak_delta_bytes: int | None = None
    retained_bytes: int | None = None
    timeout_s: float | None = None
    has_history: bool = True

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
class Block:
    """Units that one leg asks for at a time, during the run; `wall_s` is predicted."""

    units: int
    wall_s: float


@dataclass(frozen=True, **SLOTS)
class Shard:
    """One leg of the matrix; `timeout_minutes` limits its step, `budget_bytes` its tests.

    `blocks`: its last units, in this order, may move to other legs during the run.

    `suite` and `variant` are those of all of its units, where its leg lists them: there may be none
    yet. Else they are "". `job` is the name of its job as GitHub shows it, where somebody wrote the
    matrix by hand: then `timeout_minutes` limits the job.
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

    @property
    def own_count(self) -> int:
        """How many of its first units never move."""
        return len(self.units) - sum(block.units for block in self.blocks)

    def units_by_block(self) -> Mapping[str, tuple[PlannedUnit, ...]]:
        """Units of each block, by its name: the third of shard 07 is "07.3"."""
        found, begin = {}, self.own_count
        for number, block in enumerate(self.blocks, 1):
            found[f"{self.key}.{number}"] = self.units[begin : begin + block.units]
            begin += block.units
        return found

    @property
    def suite_key(self) -> tuple[str, str]:
        """Suite and variant of its first unit: of all, in a plan for a job's matrix."""
        first = self.units[0] if self.units else self
        return first.suite, first.variant


def shard_of_block(name: str) -> str:
    """The shard in whose plan a block is: a block's name is its shard's, and a number."""
    return name.rpartition(".")[0]


@dataclass(frozen=True, **SLOTS)
class Exclusion:
    """A unit that exists but is not planned; `rule` is the configured rule that excludes it."""

    unit: str
    rule: str
    suite: str = ""
    variant: str = ""


# Of the tests that a matrix written by hand does not run: those that a shard's own category term
# leaves out, and those for which no shard asks.
OrphanReason = Literal["label", "not_requested"]


@dataclass(frozen=True, **SLOTS)
class Orphan:
    """A unit that exists and is in no shard, although no rule for all shards leaves it out."""

    unit: str
    reason: OrphanReason
    suite: str = ""
    variant: str = ""

    @property
    def key(self) -> UnitKey:
        """Where its results would belong."""
        return UnitKey(self.suite, self.variant, self.unit)


def exclusion_rule(suite: str, pattern: str) -> str:
    """What a rule of `exclude` is called."""
    return f"suite.{suite}.exclude: {pattern}" if suite else f"exclude: {pattern}"


@dataclass(frozen=True, order=True, **SLOTS)
class UnitCount:
    """How many units of a suite and variant are planned: of one combination."""

    units: int
    suite: str = ""
    variant: str = ""


def count_units(keys: Iterable[UnitKey]) -> tuple[UnitCount, ...]:
    """The units of each suite and variant, by these."""
    counts = Counter(key[:2] for key in keys)
    return tuple(UnitCount(counts[suite_key], *suite_key) for suite_key in sorted(counts))


@dataclass(frozen=True, **SLOTS)
class InventorySummary:
    """The units that exist, as the plan keeps them. `files` holds every matching file, 0 too.

    `base_units` is what the base's plan has, by `base_source`; empty where that is unknown.
    `files_without_units`: they have units on the base. `orphans` are in no shard of a matrix that
    somebody wrote by hand: what is collected is planned, excluded or one of them.
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
    """What a run would take with this number of shards.

    `wall_s`: wall time of the run with the set-up of its jobs, and with the time that jobs wait if
    `concurrency` allows fewer jobs than shards. `minutes`: billed minutes.
    """

    shards: int
    wall_s: float
    minutes: int
    price_usd: float | None = None
    chosen: bool = False


@dataclass(frozen=True, **SLOTS)
class CulpritCandidate:
    """A unit that may have killed a runner.

    `losses`: number of lost shards that contained the unit. `isolated`: the unit has a shard of
    its own, or shares it only with other candidates; if false, the candidates are spread.
    """

    unit: str
    losses: int
    isolated: bool  # away from all others, in shards of suspects; else they are spread
    suite: str = ""
    variant: str = ""


PlanNoteKind = Literal[
    # warnings
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
    # why there are not more shards
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
    """A warning or a reason, as values: `plan/view.py` has the words.

    `facts`: names, numbers, lists of names, and numbers by name (shards, tests), as JSON has them.
    The end of a key is the unit of its numbers: `_s`, `_bytes`, `_ratio`, or none.
    """

    kind: PlanNoteKind
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Plan:
    """The contract of a run, frozen for it. `id` is a hash of everything else in the file.

    `gap` = makespan / `lower_bound_s` - 1, of predicted wall times; `floor` is the one unit that no
    number of shards can go below. `history` says what the estimates come from. `alternatives`
    are other numbers of shards, and `shard_count_limited_by` says why there are not more.
    `job_minutes` is the limit of each job, above that of its step. `claims`: scheme, host and port
    of the service that legs ask for blocks; "" for none.
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
    risk: float | None = None  # P(any shard passes the deadline), the suite and machines unchanged
    memory_risk: float | None = None  # P(any shard needs more than its memory), likewise
    culprit_candidates: tuple[CulpritCandidate, ...] = ()
    warnings: tuple[PlanNote, ...] = ()
    job_minutes: int | None = None
    claims: str = ""

    def combination(self, shard: Shard) -> Mapping[str, Any] | None:
        """What the job's matrix says of a shard; None where the plan is for no matrix."""
        suite, name = shard.suite_key
        variant = self.suites[suite].variants.get(name)
        return variant.matrix if variant is not None else None

    @property
    def has_timings(self) -> bool:
        """Whether any time was measured: without one, all are equal and mean nothing. O(units)."""
        return any(unit.has_history for shard in self.shards for unit in shard.units)

    @property
    def omitted(self) -> Iterator[tuple[str, str, int]]:
        """Reason, file and number of tests, of all that the suites' frameworks left out."""
        found = [one for suite in self.suites.values() for one in suite.omitted.items()]
        return ((reason, *each) for reason, files in found for each in files.items())

    @property
    def is_static(self) -> bool:
        """Kept in the repository: its legs list, and it is for no matrix that somebody expands."""
        return self.policy.lists and all(self.combination(shard) is None for shard in self.shards)

    def job_name(self, shard: Shard) -> str:
        """`tests (03)`: what a shard's job is called; with suite and pool where several are."""
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
    """A file that a suite names, from the repository's root; "" for none, or for one outside.

    Frameworks name files from the suite's folder, or from a root of their own above it.
    """
    given = posixpath.normpath((file or "").replace("\\", "/"))
    if not file or given.startswith("/") or given[1:2] == ":":
        return ""
    cwd = posixpath.normpath(suites[suite].cwd or ".") if suite in suites else "."
    path = given if given.startswith(f"{cwd}/") else posixpath.normpath(posixpath.join(cwd, given))
    return "" if path == "." or path.startswith("..") else path


def exchange_groups(plan: Plan) -> Mapping[str, str]:
    """Return by shard the name of its group: shards of one pool, the same suites and memory.

    The shards of a group may run each other's blocks. O(units).
    """
    first: dict[object, str] = {}
    found = {}
    for shard in plan.shards:
        suite_keys = frozenset((unit.suite, unit.variant) for unit in shard.units)
        machine = (shard.pool, shard.budget_bytes, shard.processes)
        found[shard.key] = first.setdefault((machine, suite_keys), shard.key)
    return found


def claimable_blocks(plan: Plan, key: str) -> Mapping[str, tuple[PlannedUnit, ...]]:
    """Return the blocks of other shards, by name, that the leg of this shard may run; O(units)."""
    groups = exchange_groups(plan) if plan.claims else {}
    return {
        name: units
        for shard in plan.shards
        if shard.key != key and plan.claims and groups[shard.key] == groups[key]
        for name, units in shard.units_by_block().items()
    }
