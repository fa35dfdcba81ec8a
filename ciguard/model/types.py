"""Words and keys that records, plans and histories share, in the spelling of schema 1."""

from __future__ import annotations

import sys
from typing import Final, Literal, NamedTuple, Union, get_args

SCHEMA: Final = 1

# Slots halve an object's size; dataclasses of Python 3.8 and 3.9 lack this option.
SLOTS: Final[dict[str, bool]] = {"slots": True} if sys.version_info >= (3, 10) else {}

Outcome = Literal["passed", "failed", "errored", "skipped", "died"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("passed", "failed", "errored", "skipped", "died")
BAD_OUTCOMES: Final[tuple[Outcome, ...]] = ("failed", "errored", "died")

# The endings of a case, a process and a shard.
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

# A unit with one of these endings ended by itself and has a verdict. A unit with any other ending
# was stopped from outside, and its verdict is unknown.
CONCLUSIVE_ENDINGS: Final[tuple[Ending, ...]] = (
    "completed",
    "timeout",
    "crash",
    "out_of_memory",
    "memory_guard",
)
MEMORY_ENDINGS: Final[tuple[Ending, ...]] = ("memory_guard", "out_of_memory")

# Kinds of the `event` lines of a record; docs/reference/record.md explains each. Other programs may
# write lines of other kinds, which are ignored.
EventKind = Union[
    Ending,  # the reason for which the leg ended a process
    Literal[
        # Decisions of the leg.
        "assigned",
        "checkpoint",
        "claim_asked",
        "grace_used",
        "memory_low",
        "memory_not_reclaimable",
        "recycled",
        "repeating",
        "rerun_skipped",
        # Observations of the leg.
        "after_tests",
        "claimed",
        "claims_ended",
        "coverage",
        "drill",
        "taken",
        "exit_in_files",
        "excluded",
        "failed_previously",
        "gone",
        "in_files",
        "internal_error",
        "last_output",
        "listed",
        "listing",
        "new_test",
        "not_run",
        "paused",
        "probing",
        "reaper_killed",
        "received",
        "result_file",
        "results_left_out",
        "resumed",
        "run_until",
        "serial",
        "signal",
        "stacks",
        "unavailable",
        "unexplained_exit",
        "unplanned",
        "untried",
        # Reasons for a unit without a result.
        "deselected",
        "no_result",
        "not_found",
        "not_imported",
        "not_reached",
        # Reports of the tested process.
        "case_end",
        "case_start",
        "closed",
        "collection_end",
        "collection_error",
        "collection_start",
        "coverage_config",
        "dropped_lines",
        "execution",
        "unreadable_metric",  # added by the reader of a record
        "interrupted",
        "not_collected",
        "second_session",
        "seed",
        "session_end",
        "session_stopped",
        "thread_left",
        "unit_paused",
        "workers",
    ],
]

# The fault that a shard of a drill causes; see `run/leg.py`.
DrillKind = Literal["lost-shard", "dropped-test", "out-of-memory", "timeout", "cancelled"]
DRILL_KINDS: Final[tuple[DrillKind, ...]] = get_args(DrillKind)
DRILL_PREFIX: Final = "drill-"  # of a drill's plan id, which records and artifacts repeat

AFTER_TESTS_S: Final = 5.0  # a process that takes longer to end after its last test is reported

# Findings of a comparison that can fail a run (`policy.fail_on`, `--fail-on`).
FailCondition = Literal[
    "new-failure", "timeout", "oom", "memory", "gpu-memory", "swap", "duration", "metric",
    "incomplete",
]  # fmt: skip
FAIL_CONDITIONS: Final[tuple[FailCondition, ...]] = get_args(FailCondition)

EmptyPolicy = Literal["incomplete", "pass"]  # `guard.empty`: a suite with only skipped tests

MeasuredBy = Literal["mark", "mark_untrimmed", "window", "sample"]
MEASURED_BY: Final[tuple[MeasuredBy, ...]] = get_args(MeasuredBy)

# Place of a unit in its process: it began the suite's first process in the leg, it began a later
# process of the suite (after recycling or a death), or it ran after another unit.
Standing = Literal["first", "restarted", "later"]
STANDINGS: Final[tuple[Standing, ...]] = get_args(Standing)


class UnitKey(NamedTuple):
    """Key of a unit, which a plan assigns to a shard: unique over all suites and variants."""

    suite: str
    variant: str
    unit: str


class CaseKey(NamedTuple):
    """Key of a case, which a report names; in many frameworks a unit is its only case."""

    suite: str
    variant: str
    unit: str
    case: str

    @property
    def unit_key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)
