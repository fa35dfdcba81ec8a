"""The values of a proof, as `guard` prints and `report` renders them. Pure.

In a pull request the policy is the base's: the judged change does not write the law.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.guard.state import EXIT_CODE, Level, State, decide_state, level_of
from ciguard.model import ENDINGS, OUTCOMES
from ciguard.model.machine_use import NOT_MEASURED, MachineUse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ciguard.codec.quarantine import Entry
    from ciguard.errors import ExitCode
    from ciguard.history.query import KnownFailure, LastShard, StableCases
    from ciguard.model import CaseKey, EmptyPolicy, Ending, Plan, Result, UnitCount, UnitKey
    from ciguard.model.moved_units import MovedUnits
    from ciguard.render.notes import Note

# How cases are counted: an expected failure is skipped by its outcome, but it ran.
COUNTED: Final = (*OUTCOMES, "xfailed")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know; all but warnings decide the state.

    `cause` is the reason for it, where that is known. Of a leg that died, `evidence` shows why, and
    the `culprits` had begun when it did. `stated_level`: where the policy or the facts decide, and
    not the kind alone.
    """

    kind: str
    shard: str = ""
    units: tuple[UnitKey, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    cause: Note | None = None
    evidence: tuple[Note, ...] = ()
    culprits: tuple[UnitKey, ...] = ()
    stated_level: Level | None = None

    @property
    def level(self) -> Level:
        return self.stated_level or level_of(self.kind)


@dataclass(frozen=True, slots=True)
class Leg:
    """A planned shard and what its record says.

    `planned` counts the units that it was to run in the end, with those that moved to it.
    `recorded` is False where there is no record; then at most its ending is known. `with_result`
    counts planned units with a final result, `counts` final cases by outcome. `bad` are those that
    went wrong: what was stopped with its leg died, and is none of them. `endings` are those that
    went wrong otherwise than by a failure, by how. `wall_s` is a lower bound where the record was
    cut; a prediction is None where the plan knew no unit of the shard. `has_script`: the commands
    of the job's own step ran the tests. `memory_bytes` is the size of its runner.
    `after_tests`: the time from its last test to its end, if that was long, and why.
    `seeds`: of random orders, by process, as words for the framework's command line.
    `started_at` is by the clock of the runner; None also if the leg resumed an earlier one.
    """

    shard: str
    recorded: bool
    ending: Ending
    planned: int
    with_result: int
    predicted_wall_s: float | None
    predicted_peak_bytes: int | None
    wall_s: float | None = None
    peak_bytes: int | None = None
    peak_measured_by: str | None = None
    run_attempt: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    endings: Mapping[Ending, int] = field(default_factory=dict)
    bad: int = 0
    has_script: bool = False
    machine: MachineUse = NOT_MEASURED
    memory_bytes: int | None = None
    after_tests: Note | None = None
    seeds: Mapping[int, str] = field(default_factory=dict)
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A case whose final result is bad; a unit that died is one, with how."""

    shard: str
    result: Result


@dataclass(frozen=True, slots=True)
class Excused(Failure):
    """A failure that does not fail the run, and why."""

    reason: Note


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures that have one root, as far as their messages tell.

    Attributes:
        kind: the exception's short name, or how the tests ended.
        frame: that is to blame, "" where none is known.
        message: the first line of a message; what differs between them is a mark.
        failures: by shard, then key; at least one.
    """

    kind: str
    frame: str
    message: str
    failures: tuple[Failure, ...]

    @property
    def shards(self) -> int:
        """The number of shards that it is in."""
        return len({failure.shard for failure in self.failures})


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A class, file or other group of the framework's units, and its bad cases."""

    name: str
    timeouts: int = 0
    out_of_memory: int = 0
    failures: int = 0
    died: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Timeouts, out of memory, failures, died."""
        return self.timeouts, self.out_of_memory, self.failures, self.died

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Flaky:
    """A unit that went wrong first and right in its last try.

    `first` is its first result for which not memory is to blame, if there is any.
    """

    key: UnitKey
    shard: str
    first: Result

    @property
    def ran_out_of_memory(self) -> bool:
        """Memory ran out in its first result."""
        return self.first.ran_out_of_memory


@dataclass(frozen=True, slots=True)
class Missing:
    """A planned unit without a final result, and why.

    `shard` is the one that was to run it; `planned_shard` that of the plan, where it moved.
    """

    key: UnitKey
    shard: str
    reason: Note
    planned_shard: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `planned` counts units, `ended` those with a final result.

    Attributes:
        plan: as it was judged, with the units that exist.
        legs: one for each shard of the plan, in its order.
        failures, flaky, passed_after_oom, missing: by shard, then key; passed after out of memory
            are those that only memory kept from passing at once.
        quarantined, failing_on_base: bad cases that are not among the failures, in the same order.
        failure_groups, hotspots: of the failures, the largest first.
        findings: what makes it incomplete first, then what makes it fail, then warnings.
        new, gone: units that exist and were not planned, and the reverse; None where they were
            listed before they were planned.
        moved: what ran in another shard than planned; None of a plan whose units stay.
    """

    plan: Plan
    planned: int
    with_result: int
    legs: tuple[Leg, ...]
    failures: tuple[Failure, ...]
    flaky: tuple[Flaky, ...]
    missing: tuple[Missing, ...]
    findings: tuple[Finding, ...]
    quarantined: tuple[Excused, ...] = ()
    failing_on_base: tuple[Excused, ...] = ()
    failure_groups: tuple[FailureGroup, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    passed_after_oom: tuple[Flaky, ...] = ()
    new: int | None = None
    gone: int | None = None
    moved: MovedUnits | None = None

    @property
    def state(self) -> State:
        levels = {finding.level for finding in self.findings}
        return decide_state(levels, is_missing=bool(self.missing), is_failed=bool(self.failures))

    @property
    def counts(self) -> Mapping[str, int]:
        """Final cases by outcome."""
        counts: Counter[str] = Counter()
        for leg in self.legs:
            counts.update(leg.counts)
        return {outcome: counts[outcome] for outcome in COUNTED if counts[outcome]}

    @property
    def endings(self) -> Mapping[Ending, int]:
        """Final cases that went wrong otherwise than by a failure, by how, over all legs."""
        found: Counter[Ending] = Counter()
        for leg in self.legs:
            found.update(leg.endings)
        return {ending: found[ending] for ending in ENDINGS if found[ending]}

    @property
    def exit_code(self) -> ExitCode:
        """Incomplete outranks failed outranks passed."""
        return EXIT_CODE[self.state]


PolicySource = Literal["checkout", "base", "strictest"]  # the last where the base's is unreadable


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that a run is judged by.

    Attributes:
        max_drop: share of the base's units of a suite and variant that may be gone; deleting a few
            tests is daily work.
        min_units: the acknowledged number of all units.
        orphans: the acknowledged number of tests in no shard.
        cached_results: whether result files of before the run make it incomplete.
        last_shards: where the history has orphans, the shard in which each ran last.
        base_cases: cases of the base's last runs, of units that may hold several.
        quarantine: entries that hold today.
        empty: level of a suite of which every test was skipped.
        base_failures: cases that fail on the base too, where those are ignored.
        base_units: units of the base and where that is known from, for a plan that does not say.
        base_plan: the base's version of a plan that lies in the repository.
        findings: what is wrong with the policy itself, or that the pull request changes it.
        fail_on: findings of the comparison that fail the run.
        source, commit: where it is from; the commit is the base's.
        footer: Markdown at the end of a report.
        comment_by: who comments: the workflow's job, or the service.
    """

    max_drop: float = 0.01
    min_units: int | None = None
    orphans: int = 0
    cached_results: Literal["warn", "fail"] = "fail"
    last_shards: Mapping[UnitKey, LastShard] = field(default_factory=dict)
    base_cases: Mapping[UnitKey, StableCases] = field(default_factory=dict)
    quarantine: tuple[Entry, ...] = ()
    base_failures: Mapping[CaseKey, KnownFailure] = field(default_factory=dict)
    empty: EmptyPolicy = "incomplete"
    base_units: tuple[tuple[UnitCount, ...], str] | None = None
    base_plan: Plan | None = None
    findings: tuple[Finding, ...] = ()
    fail_on: tuple[str, ...] = ()
    source: PolicySource = "checkout"
    commit: str = ""
    footer: str = ""
    comment_by: Literal["workflow", "service"] = "workflow"
