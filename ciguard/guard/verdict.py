"""What a proof takes and comes to, as `guard` prints and `report` renders it. Pure.

In a pull request the policy is the base's: whoever is judged does not write the law.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.errors import ExitCode
from ciguard.model import ENDINGS, OUTCOMES
from ciguard.model.machine_use import NOT_MEASURED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ciguard.codec.quarantine import Entry
    from ciguard.history.query import KnownFailure, LastShard, StableCases
    from ciguard.model import CaseKey, EmptyPolicy, Ending, Plan, Result, UnitCount, UnitKey
    from ciguard.model.machine_use import MachineUse
    from ciguard.model.moved_units import MovedUnits

State = Literal["passed", "failed", "incomplete"]
Level = Literal["incomplete", "failed", "warning"]

EXIT_CODE: Final[Mapping[State, ExitCode]] = {
    "passed": ExitCode.OK,
    "failed": ExitCode.TESTS_FAILED,
    "incomplete": ExitCode.INCOMPLETE,
}
# How cases are counted: an expected failure is skipped by its outcome, but it ran.
COUNTED: Final = (*OUTCOMES, "xfailed")


# What can be known of a run, each with the words of wording.py; grouped by where it is found.
Kind = Literal[
    # how a leg ended, by its own last line or by its job
    "timeout", "out_of_memory", "crash", "deadline", "memory_guard", "cancelled", "superseded",
    "lost_runner", "runner_shutdown", "disk_full", "setup_failed", "never_started", "unknown",
    # how else a record ends
    "truncated", "empty_record", "checkpoint", "exit_code", "internal_error",
    # what the platform says of its job
    "no_job", "job_limit", "not_executed", "cancelled_by_fail_fast", "step_timeout", "step_failed",
    "artifact_name", "conclusion_unknown", "job_open", "job_succeeded", "tests_exited",
    "record_without_job", "job_contradicts", "job_ambiguous", "jobs_unknown", "no_token",
    "jobs_refused", "jobs_unmatched", "jobs_without_shard", "attempt_unknown", "not_planned_again",
    # `needs`
    "needs_empty", "job_excused", "job_failed", "job_unexplained", "job_not_successful",
    # evidence
    "annotation", "other_job", "log", "job", "step", "memory", "event", "stops", "not_fetched",
    "not_queried", "failed_allocation",
    # which record counts
    "no_record", "no_record_of_plan", "other_plan", "only_other_plans", "other_repository",
    "other_commit", "other_run", "other_attempt", "unknown_shard", "no_shard_line",
    "older_record_without_shard_line", "empty_record_file", "results_of_unknown_shard",
    "unread_file", "unread_files", "duplicate_record", "damaged", "unreadable_metric",
    # what a leg cannot have written
    "contradictory", "process_lines", "process_end", "concurrent_units", "too_many_tries",
    "lines_missing", "end_incomplete", "failure_missing",
    "unexplained_exit", "died_between_tests", "ran_beside", "reaper_killed",
    "no_exit", "threads_left", "session_teardown", "process_exit",
    # why a unit has no result
    "not_imported", "deselected", "not_found", "not_reached", "in_files", "not_run",
    "no_result", "no_reason_recorded", "not_mentioned", "reported", "shard_without_record",
    "stopped", "last_try_unfinished", "unfinished", "no_case", "not_started",
    "claim_without_record", "not_claimed_again",
    # the plan and its inventory
    "nothing_planned", "collection_error", "not_planned", "fewer_units", "fewer_units_accepted",
    "combination_gone", "duplicate_unit", "emptied_file", "omitted_file", "excluded",
    "suite_not_planned", "suite_changed", "suite_removed", "nothing_ran", "unplanned",
    "tests_not_executed", "tests_focused", "tests_filtered", "filter_planned",
    "orphans", "orphans_lost", "orphans_accepted", "base_tests_gone",
    "base_plan_unread", "cases_gone", "cases_gone_of_changed_file", "cases_gone_of_unchanged_file",
    "all_cases_gone",
    "ran_in_several_shards", "results_elsewhere", "different_scripts", "different_listings",
    "cached_results", "no_listing", "nothing_listed", "listing_short",
    # the policy
    "quarantined", "failing_on_base", "quarantine", "quarantine_stale", "quarantine_passed",
    "policy_changed", "policy_unread", "no_base_run",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """What is known, as values: wording.py has the words.

    `facts`: names, numbers and lists of names. The end of a key is the unit of its number: `_s`,
    `_bytes`, `_ratio`, or none.
    """

    kind: Kind
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence(Reason):
    """Something that was seen; `url` is of a page that shows it, "" where there is none."""

    url: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know; all but warnings decide the state.

    `cause` is the reason for it, where that is known. Of a leg that died, `evidence` shows why, and
    the `culprits` had begun when it did.
    """

    level: Level
    kind: Kind
    shard: str = ""
    units: tuple[UnitKey, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    cause: Reason | None = None
    evidence: tuple[Evidence, ...] = ()
    culprits: tuple[UnitKey, ...] = ()


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
    `after_tests`: how long it took to end behind its last test, if that was long, and why.
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
    after_tests: Reason | None = None
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

    reason: Reason


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
        """How many shards it is in."""
        return len({failure.shard for failure in self.failures})


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A class, file or whatever the framework's units have in common, and its bad cases."""

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
        """Say that it was memory that went wrong."""
        return self.first.ran_out_of_memory


@dataclass(frozen=True, slots=True)
class Missing:
    """A planned unit without a final result, and why.

    `shard` is the one that was to run it; `planned_shard` that of the plan, where it moved.
    """

    key: UnitKey
    shard: str
    reason: Reason
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
        counts: final cases by outcome.
        new, gone: units that exist and were not planned, and the reverse; None where they were
            listed before they were planned.
        moved: what ran in another shard than planned; None of a plan whose units stay.
    """

    state: State
    plan: Plan
    planned: int
    with_result: int
    legs: tuple[Leg, ...]
    failures: tuple[Failure, ...]
    flaky: tuple[Flaky, ...]
    missing: tuple[Missing, ...]
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    quarantined: tuple[Excused, ...] = ()
    failing_on_base: tuple[Excused, ...] = ()
    failure_groups: tuple[FailureGroup, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    passed_after_oom: tuple[Flaky, ...] = ()
    new: int | None = None
    gone: int | None = None
    moved: MovedUnits | None = None

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
    """What holds for a run.

    Attributes:
        max_drop: share of the base's units of a suite and variant that may be gone; deleting a few
            tests is daily work.
        min_units: so few, of all, that somebody acknowledged it.
        orphans: so many tests in no shard that somebody acknowledged it.
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
