"""The values of a judgement: the policy as its input, the verdict with its findings as its result.

A pull request is judged by the policy of its base, because a change must not decide how it is
judged. prove.py makes the verdict. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.errors import ExitCode
from ciguard.model import ENDINGS, MEMORY_ENDINGS, OUTCOMES
from ciguard.model.machine_use import NOT_MEASURED, MachineUse
from ciguard.model.plan import OF_LIST, OF_RESULTS

if TYPE_CHECKING:
    from ciguard.codec.codeowners import OwnerRules
    from ciguard.codec.coverage_file import Coverage
    from ciguard.codec.quarantine import Entry
    from ciguard.history.query import KnownFailure, LastShard, StableCases
    from ciguard.model import CaseKey, EmptyPolicy, Ending, Plan, Result, UnitCount, UnitKey
    from ciguard.model.moved_units import MovedUnits
    from ciguard.model.probes import Repeats
    from ciguard.render.notes import Note

State = Literal["passed", "failed", "incomplete"]
Level = Literal["incomplete", "failed", "warning"]

EXIT_CODE: Final[Mapping[State, ExitCode]] = {
    "passed": ExitCode.OK,
    "failed": ExitCode.TESTS_FAILED,
    "incomplete": ExitCode.INCOMPLETE,
}
# A kind that is in no row makes a run incomplete. The policy or the facts of a finding may set
# another level (`Finding.stated_level`).
_KINDS: Final[Mapping[Level, tuple[str, ...]]] = {
    "failed": (
        "above_limit", "coverage_below", "failure_missing", "job_failed", "more_above_limit",
        "quarantine", "unexplained_exit",
    ),
    "warning": (
        "absent_shards", "base_plan_unread", "base_tests_gone",
        "cases_gone", "cases_gone_of_changed_file", "cases_not_selected", "combination_gone",
        "duplicate_record", "duplicate_unit", "empty_record_file", "excluded",
        "fewer_units_accepted", "filter_planned", "job_died", "job_excused", "job_log", "job_open",
        "jobs_unknown", "limit_unmeasured", "limit_unused", "needs_empty", "new_test_fails_after",
        "new_test_fails_again", "new_test_fails_alone", "no_base_run",
        "older_record_without_shard_line", "orphans_accepted",
        "other_attempt", "other_commit", "other_plan", "other_repository", "other_run",
        "policy_changed", "policy_unread", "quarantine_ends", "quarantine_passed",
        "quarantine_stale", "ran_beside", "ran_in_several_shards", "setting_ignored",
        "unknown_shard", "unplanned", "unreadable_metric",
    ),
}  # fmt: skip
LEVELS: Final = {kind: level for level, kinds in _KINDS.items() for kind in kinds}
# The classes of counted cases. An expected failure has the outcome "skipped", although it ran.
COUNTED: Final = (*OUTCOMES, "xfailed")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that the verdict names; all findings except warnings decide the state.

    Attributes:
        shard: key of the shard; "" if the finding is about the run.
        cause: the reason for the finding, if it is known.
        evidence: facts that show why a leg died.
        culprits: units that were running when a leg died.
        stated_level: the level, if the policy or the facts decide it instead of the kind.
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
        return self.stated_level or LEVELS.get(self.kind, "incomplete")


@dataclass(frozen=True, slots=True)
class Leg:
    """A leg, the execution of one planned shard by a job: the facts of its record.

    Attributes:
        recorded: there is a record; without a record at most the ending is known.
        planned: number of units of the shard in the end, with units that moved to it.
        with_result: number of planned units with a final result.
        predicted_wall_s, predicted_peak_bytes: None if the plan had no history of any unit.
        wall_s: a lower bound if the record was cut.
        counts: final cases by outcome.
        bad: number of final cases that failed, without those that were stopped with the leg.
        endings: bad cases with another ending than "completed", by ending.
        has_script: the commands of the job's own step ran the tests.
        memory_bytes: memory of the runner.
        after_tests: a long time between the last test and the end, with its reason.
        fewer_at_once: reason why fewer tests ran at once than the framework would have run.
        seeds: by process, the seed of a random order, as words for the framework's command line.
        started_at: start by the clock of the runner; None also if the leg continued an earlier one.
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
    fewer_at_once: Note | None = None
    seeds: Mapping[int, str] = field(default_factory=dict)
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A case whose final result is bad; a unit that died counts as one case."""

    shard: str
    result: Result


@dataclass(frozen=True, slots=True)
class Excused(Failure):
    """A failure that does not fail the run, with the reason."""

    reason: Note


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one cause, by their messages.

    Attributes:
        kind: the exception's short name, or the ending of the tests.
        frame: function or file that raised the exception; "" if unknown.
        message: the first line of the messages, with a placeholder for each differing part.
        failures: sorted by shard, then key; at least one.
        caller, caller_failures: a function that most stacks share ("" for none), and their number.
        dividing: numbers of failures by the nearest functions at which the stacks divide.
    """

    kind: str
    frame: str
    message: str
    failures: tuple[Failure, ...]
    caller: str = ""
    caller_failures: int = 0
    dividing: Mapping[str, int] = field(default_factory=dict)

    @property
    def shards(self) -> int:
        """The number of shards with such a failure."""
        return len({failure.shard for failure in self.failures})


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A class, file or other group of the framework's units, with the counts of its bad cases."""

    name: str
    timeouts: int = 0
    out_of_memory: int = 0
    failures: int = 0
    died: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Timeouts, out of memory, failures, died."""
        return self.timeouts, self.out_of_memory, self.failures, self.died


@dataclass(frozen=True, slots=True)
class Flaky:
    """A unit that failed first and passed in its last try.

    `first`: its first bad result that was not out of memory, or its first bad result.
    """

    key: UnitKey
    shard: str
    first: Result


@dataclass(frozen=True, slots=True)
class Missing:
    """A planned unit without a final result, with the reason.

    `shard` had to run the unit; `planned_shard` is that of the plan if the unit moved, otherwise
    "".
    """

    key: UnitKey
    shard: str
    reason: Note
    planned_shard: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of guard on one run.

    Attributes:
        plan: the judged plan, with the units that exist.
        planned: number of planned units.
        with_result: number of planned units with a final result.
        legs: one for each shard of the plan, in its order.
        failures, flaky, passed_after_oom, missing: sorted by shard, then key. Units in
            `passed_after_oom` failed first only because memory ran out.
        quarantined, failing_on_base: excused failures, not among `failures`, in the same order.
        failure_groups, hotspots: the causes and places of the failures, the largest first.
        findings: findings that make the run incomplete, then failed, then warnings.
        new, gone: number of existing units that were not planned, and of planned units with a
            history that do not exist; None if the tests were listed before they were planned.
        moved: the tests that ran in another shard than planned; None if no unit can move.
        repeats: repeats of new and changed tests, those with most failures first.
        expected: number of shards that need results, for a run without a plan; None: any.
        coverage, coverage_base: coverage if known; that of the base's last run, with its branch.
        owners: owners of tests that failed in any try; empty if the project has no owners.
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
    repeats: Mapping[UnitKey, Repeats] = field(default_factory=dict)
    expected: int | None = None
    coverage: Coverage | None = None
    coverage_base: tuple[str, Coverage] | None = None
    owners: Mapping[UnitKey, tuple[str, ...]] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state: incomplete before failed before passed; excused failures do not count."""
        levels = {finding.level for finding in self.findings}
        if self.missing or "incomplete" in levels or self.is_fault_unnoticed:
            return "incomplete"
        is_red = self.failures or "failed" in levels or self.plan.drill  # no excuse for a drill
        return "failed" if is_red else "passed"

    @property
    def is_fault_unnoticed(self) -> bool:
        """Return whether the fault of a drill left no trace: a real fault would stay hidden."""
        if self.plan.drill is None:
            return False
        endings = {*self.endings, *(leg.ending for leg in self.legs)}
        traces = {
            "lost-shard": not all(leg.recorded for leg in self.legs),
            "dropped-test": self.missing,
            "out-of-memory": not endings.isdisjoint(MEMORY_ENDINGS),
            "timeout": not endings.isdisjoint(("timeout", "deadline")),
            "cancelled": "cancelled" in endings,
        }
        return not traces[self.plan.drill]

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of final cases by outcome, over all legs."""
        counts: Counter[str] = Counter()
        for leg in self.legs:
            counts.update(leg.counts)
        return {outcome: counts[outcome] for outcome in COUNTED if counts[outcome]}

    @property
    def endings(self) -> Mapping[Ending, int]:
        """Bad final cases with another ending than "completed", by ending, over all legs."""
        counts: Counter[Ending] = Counter()
        for leg in self.legs:
            counts.update(leg.endings)
        return {ending: counts[ending] for ending in ENDINGS if counts[ending]}

    @property
    def unlisted_shards(self) -> int:
        """The number of shards whose jobs list tests themselves, and listed none."""
        named = {shard.suite_key for shard in self.plan.shards if shard.units}
        keys = [shard.suite_key for shard in self.plan.shards if self.plan.policy.lists]
        return sum(key not in named for key in keys)

    @property
    def promised(self) -> int | None:
        """The number of tests that were to run; None if no plan, list or job named all of them."""
        if self.plan.id == OF_RESULTS or self.unlisted_shards:
            return None
        return self.planned + (len(self.plan.inventory.orphans) if self.plan.id == OF_LIST else 0)

    @property
    def exit_code(self) -> ExitCode:
        return EXIT_CODE[self.state]


PolicySource = Literal["checkout", "base", "strictest"]  # "strictest": the base is unreadable


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of each test whose unit matches: its time, and its memory above its process."""

    units: str
    memory_bytes: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules by which a run is judged.

    Attributes:
        max_drop: share of the base's units of a suite and variant that may be gone without a
            finding, because deleting a few tests is daily work.
        min_units: the acknowledged number of all units; None: no number is acknowledged.
        min_executed: share of the planned cases that must execute; None: any.
        coverage_minima: lowest coverage in total and of the diff, in %; None: any.
        coverage_suites: the minima apply to plans with any of these suites; empty: to all plans.
        orphans: the acknowledged number of tests in no shard.
        cached_results: "fail": result files that are older than the run make it incomplete.
        last_shards: by test in no shard, the shard in which it ran last, if the history has it.
        base_cases: cases of the base's last runs, for units that may have several.
        quarantine: entries that apply today.
        limits: absolute limits of tests, by suite.
        empty: effect of a suite whose tests were all skipped.
        base_failures: cases that also fail on the base, if these are ignored.
        new_tests: effect of a failed repeat of a new or changed test.
        base_units: numbers of units of the base and their source, for a plan without these.
        base_plan: the base's version of a plan that is a file of the repository.
        findings: mistakes in the policy itself, and its changes by the pull request.
        fail_on: findings of the comparison that fail the run.
        source, commit: origin of the policy; the commit is that of the base, or "".
        footer: Markdown at the end of a report.
        comment_by: author of comments: the workflow's job, or the service.
        owners: configured owners of files.
    """

    max_drop: float = 0.01
    min_units: int | None = None
    min_executed: float | None = None
    coverage_minima: tuple[float | None, float | None] = (None, None)
    coverage_suites: tuple[str, ...] = ()
    orphans: int = 0
    cached_results: Literal["warn", "fail"] = "fail"
    last_shards: Mapping[UnitKey, LastShard] = field(default_factory=dict)
    base_cases: Mapping[UnitKey, StableCases] = field(default_factory=dict)
    quarantine: tuple[Entry, ...] = ()
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    base_failures: Mapping[CaseKey, KnownFailure] = field(default_factory=dict)
    new_tests: Literal["report", "enforce", "off"] = "report"
    empty: EmptyPolicy = "incomplete"
    base_units: tuple[tuple[UnitCount, ...], str] | None = None
    base_plan: Plan | None = None
    findings: tuple[Finding, ...] = ()
    fail_on: tuple[str, ...] = ()
    source: PolicySource = "checkout"
    commit: str = ""
    footer: str = ""
    comment_by: Literal["workflow", "service"] = "workflow"
    owners: OwnerRules = ()
