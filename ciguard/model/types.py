"""Words and keys that records, plans and histories share, as schema 1 spells them."""

from __future__ import annotations

import sys
from typing import Final, Literal, NamedTuple, Union, get_args

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

# A unit that ended so was judged: it is to blame for its own end. After any other ending somebody
# else stopped it, and nothing is known.
CONCLUSIVE_ENDINGS: Final[tuple[Ending, ...]] = (
    "completed",
    "timeout",
    "crash",
    "out_of_memory",
    "memory_guard",
)
MEMORY_ENDINGS: Final[tuple[Ending, ...]] = ("memory_guard", "out_of_memory")

# What an `event` line of a record is about; docs/reference/record.md explains each kind. Another
# program's line may hold any other text, which nothing reads.
EventKind = Union[
    Ending,  # a process was told to end, for this reason
    Literal[
        # Decisions of the leg.
        "assigned",
        "checkpoint",
        "claim_asked",
        "grace_used",
        "memory_low",
        "memory_not_reclaimable",
        "recycled",
        "rerun_skipped",
        # What the leg saw.
        "after_tests",
        "claimed",
        "claims_ended",
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
        "not_run",
        "paused",
        "reaper_killed",
        "received",
        "result_file",
        "results_left_out",
        "resumed",
        "run_until",
        "signal",
        "stacks",
        "unavailable",
        "unexplained_exit",
        "unplanned",
        # Why a unit has no result.
        "deselected",
        "no_result",
        "not_found",
        "not_imported",
        "not_reached",
        # What the tested process reports.
        "case_end",
        "case_start",
        "closed",
        "collection_end",
        "collection_error",
        "collection_start",
        "dropped_lines",
        "execution",
        "unreadable_metric",  # added by whoever reads it
        "interrupted",
        "not_collected",
        "second_session",
        "seed",
        "session_end",
        "session_stopped",
        "thread_left",
        "unit_paused",
    ],
]

AFTER_TESTS_S: Final = 5.0  # after its last test, from which on a process's end is accounted for

# What of a comparison may fail a run: `policy.fail_on`, `--fail-on`.
FailCondition = Literal[
    "new-failure", "timeout", "oom", "memory", "duration", "metric", "incomplete"
]
FAIL_CONDITIONS: Final[tuple[FailCondition, ...]] = get_args(FailCondition)

EmptyPolicy = Literal["incomplete", "pass"]  # `guard.empty`: a suite in which all was skipped

MeasuredBy = Literal["mark", "mark_untrimmed", "window", "sample"]
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
