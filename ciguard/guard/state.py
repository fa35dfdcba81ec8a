"""The state of a verdict, and the level of each kind of finding, which decides it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

State = Literal["passed", "failed", "incomplete"]
Level = Literal["incomplete", "failed", "warning"]

EXIT_CODE: Final[Mapping[State, ExitCode]] = {
    "passed": ExitCode.OK,
    "failed": ExitCode.TESTS_FAILED,
    "incomplete": ExitCode.INCOMPLETE,
}
# A kind that is not here makes a run incomplete. The policy and the facts of a run decide otherwise
# of some findings (`Finding.stated_level`).
LEVELS: Final[Mapping[str, Level]] = {
    "failure_missing": "failed",
    "job_failed": "failed",
    "quarantine": "failed",
    "unexplained_exit": "failed",
    "base_plan_unread": "warning",
    "base_tests_gone": "warning",
    "cases_gone": "warning",
    "cases_gone_of_changed_file": "warning",
    "combination_gone": "warning",
    "duplicate_record": "warning",
    "duplicate_unit": "warning",
    "empty_record_file": "warning",
    "excluded": "warning",
    "fewer_units_accepted": "warning",
    "filter_planned": "warning",
    "job_excused": "warning",
    "job_open": "warning",
    "jobs_unknown": "warning",
    "needs_empty": "warning",
    "no_base_run": "warning",
    "older_record_without_shard_line": "warning",
    "orphans_accepted": "warning",
    "other_attempt": "warning",
    "other_commit": "warning",
    "other_plan": "warning",
    "other_repository": "warning",
    "other_run": "warning",
    "policy_changed": "warning",
    "policy_unread": "warning",
    "quarantine_passed": "warning",
    "quarantine_stale": "warning",
    "ran_beside": "warning",
    "ran_in_several_shards": "warning",
    "suite_changed": "warning",
    "suite_removed": "warning",
    "unknown_shard": "warning",
    "unplanned": "warning",
    "unreadable_metric": "warning",
}


def level_of(kind: str) -> Level:
    """Return the level of a kind of finding."""
    return LEVELS.get(kind, "incomplete")


def decide_state(levels: AbstractSet[Level], *, is_missing: bool, is_failed: bool) -> State:
    """Decide the state: incomplete outranks failed outranks passed.

    Args:
        levels: of all findings.
        is_missing: a planned unit has no result.
        is_failed: a failure counts.
    """
    if is_missing or "incomplete" in levels:
        return "incomplete"
    return "failed" if is_failed or "failed" in levels else "passed"
